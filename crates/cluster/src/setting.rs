//! Parameters of a resource.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::view::{BadView, value};

/// Returns the parameter of a primitive resource of a CIB; `None` if it has none of this name.
///
/// # Errors
/// Fails if the text is not XML.
pub fn setting(cib: &str, resource: &str, name: &str) -> Result<Option<String>, BadView> {
    let mut reader = Reader::from_str(cib);
    let mut is_inside = false;
    // A monitor has parameters of its own.
    let mut is_operation = false;
    let mut are_parameters = false;
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Start(start) | Event::Empty(start) => match start.name().as_ref() {
                b"primitive" => {
                    is_inside = matches!(event, Event::Start(_))
                        && value(start, "id")?.as_deref() == Some(resource);
                }
                b"instance_attributes" => are_parameters = matches!(event, Event::Start(_)),
                b"op" => is_operation = matches!(event, Event::Start(_)),
                b"nvpair"
                    if is_inside
                        && are_parameters
                        && !is_operation
                        && value(start, "name")?.as_deref() == Some(name) =>
                {
                    return value(start, "value");
                }
                _ => {}
            },
            Event::End(end) => match end.name().as_ref() {
                b"primitive" => is_inside = false,
                b"op" => is_operation = false,
                b"instance_attributes" => are_parameters = false,
                _ => {}
            },
            Event::Eof => return Ok(None),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIB: &str = r#"<cib><primitive id="zone-a"><instance_attributes id="i">
        <nvpair id="i1" name="config" value="/a &amp; b.cfg"/></instance_attributes>
        <meta_attributes id="m"><nvpair id="m1" name="allow-migrate" value="true"/></meta_attributes>
        <operations><op id="o" name="monitor"><instance_attributes id="p">
        <nvpair id="p1" name="OCF_CHECK_LEVEL" value="10"/></instance_attributes></op></operations></primitive>
        <primitive id="zone-b"/><primitive id="zone-c"><instance_attributes id="j">
        <nvpair id="j1" name="config" value="/c.cfg"/></instance_attributes></primitive></cib>"#;

    #[test]
    fn reads_the_parameters_of_one_resource() {
        let of = |resource, name| setting(CIB, resource, name).unwrap();
        assert_eq!(of("zone-a", "config").as_deref(), Some("/a & b.cfg"));
        assert_eq!(of("zone-c", "config").as_deref(), Some("/c.cfg"));
        assert_eq!(of("zone-b", "config"), None);
        assert_eq!(of("zone-d", "config"), None);
    }

    #[test]
    fn settings_of_other_kinds_are_no_parameters() {
        for name in ["allow-migrate", "OCF_CHECK_LEVEL"] {
            assert_eq!(setting(CIB, "zone-a", name).unwrap(), None);
        }
    }
}
