//! Constraints that keep a group from being deleted.

use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::view::{BadView, value};

/// Elements that are constraints.
const CONSTRAINTS: [&[u8]; 4] = [
    b"rsc_location",
    b"rsc_colocation",
    b"rsc_order",
    b"rsc_ticket",
];
/// Attributes that name a resource.
const NAMES: [&str; 4] = ["rsc", "with-rsc", "first", "then"];

/// Returns the constraints of a group, as XPaths: those that place it, and those after which it starts. The resource below a
/// zone is named by `with-rsc` and `first`: its constraints name the group by `rsc` and `then`.
pub fn constraints_of(group: &str) -> [String; 3] {
    [
        format!("//rsc_location[@rsc='{group}']"),
        format!("//rsc_colocation[@rsc='{group}']"),
        format!("//rsc_order[@then='{group}']"),
    ]
}

/// Returns the ids of the constraints that name the group or a resource in it, and that are not among
/// [`constraints_of`]. Pacemaker does not delete the group as long as there is one.
///
/// # Errors
/// Fails if the text is not XML.
pub fn constraints_on(cib: &str, group: &str) -> Result<Vec<String>, BadView> {
    let mut reader = Reader::from_str(cib);
    let mut members = BTreeSet::from([group.to_owned()]);
    let mut is_group = false;
    // The constraint that is open.
    let mut open = None;
    // The ids of constraints with a resource that they name. The constraints may be in front of the resources.
    let mut named: Vec<(String, String)> = Vec::new();
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Start(start) | Event::Empty(start) => {
                let is_start = matches!(event, Event::Start(_));
                let id = value(start, "id")?.unwrap_or_default();
                match start.name().as_ref() {
                    b"group" => is_group = is_start && id == group,
                    b"primitive" if is_group => {
                        members.insert(id);
                    }
                    b"resource_ref" => {
                        named.extend(open.clone().map(|constraint: String| (constraint, id)));
                    }
                    name if CONSTRAINTS.contains(&name) && !is_own(start, group)? => {
                        for key in NAMES {
                            named.extend(value(start, key)?.map(|resource| (id.clone(), resource)));
                        }
                        open = is_start.then_some(id);
                    }
                    _ => {}
                }
            }
            Event::End(end) => match end.name().as_ref() {
                b"group" => is_group = false,
                name if CONSTRAINTS.contains(&name) => open = None,
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    named.retain(|(_, resource)| members.contains(resource));
    let mut ids: Vec<String> = named.into_iter().map(|(id, _)| id).collect();
    ids.dedup();
    Ok(ids)
}

/// Returns true for a constraint that [`constraints_of`] finds.
fn is_own(start: &BytesStart<'_>, group: &str) -> Result<bool, BadView> {
    let key = match start.name().as_ref() {
        b"rsc_location" | b"rsc_colocation" => "rsc",
        b"rsc_order" => "then",
        _ => return Ok(false),
    };
    Ok(value(start, key)?.as_deref() == Some(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIB: &str = r#"<cib><configuration><resources><group id="g-web"><primitive id="zone-web"/></group>
        <group id="g-db"><primitive id="zone-db"/></group><primitive id="ip"/></resources><constraints>
        <rsc_location id="place" rsc="g-web" node="a" score="100"/>
        <rsc_colocation id="with-storage" rsc="g-web" with-rsc="ip"/>
        <rsc_order id="after-storage" first="ip" then="g-web"/>
        <rsc_colocation id="ip-with-web" rsc="ip" with-rsc="g-web"/>
        <rsc_order id="ip-after-web" first="g-web" then="ip"/>
        <rsc_location id="member" rsc="zone-web"/>
        <rsc_order id="set"><resource_set id="s"><resource_ref id="g-web"/><resource_ref id="ip"/></resource_set></rsc_order>
        <rsc_order id="other-set"><resource_set id="t"><resource_ref id="g-db"/></resource_set></rsc_order>
        <rsc_order id="other" first="g-db" then="ip"/>
        </constraints></configuration></cib>"#;

    #[test]
    fn finds_the_constraints_of_others_that_name_the_group() {
        assert_eq!(
            constraints_on(CIB, "g-web").unwrap(),
            ["ip-with-web", "ip-after-web", "member", "set"]
        );
        assert_eq!(constraints_on(CIB, "g-db").unwrap(), ["other-set", "other"]);
        assert_eq!(constraints_on(CIB, "g-mail").unwrap(), [""; 0]);
    }
}
