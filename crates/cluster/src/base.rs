//! The resource of Pacemaker that provides the storage of a failover zone: DRBD, a ZFS pool, a volume group.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::failover::group_id;
use crate::view::{BadView, value};

/// A resource below a failover zone. The zone runs only where this resource provides its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The id of the resource.
    pub id: String,
    /// True for a promotable clone, as that of DRBD: it provides the storage where it is promoted.
    pub promotable: bool,
}

impl Base {
    /// Returns the resource of a CIB with this id; `None` if there is none.
    ///
    /// # Errors
    /// Fails if the text is not XML.
    pub fn find(cib: &str, id: &str) -> Result<Option<Self>, BadView> {
        const RESOURCES: [&[u8]; 4] = [b"primitive", b"group", b"clone", b"master"];
        let mut reader = Reader::from_str(cib);
        // Elements that are open inside the resource, with the resource itself; 0 outside of it.
        let mut depth = 0_u32;
        let mut found: Option<Self> = None;
        loop {
            let event = reader.read_event()?;
            match &event {
                Event::Start(start) | Event::Empty(start) => {
                    let name = start.name();
                    let is_start = matches!(event, Event::Start(_));
                    if depth > 0 {
                        depth += u32::from(is_start);
                        if let Some(base) = found.as_mut()
                            && name.as_ref() == b"nvpair"
                            && value(start, "name")?.as_deref() == Some("promotable")
                        {
                            base.promotable = value(start, "value")?.as_deref() == Some("true");
                        }
                    } else if found.is_none()
                        && RESOURCES.contains(&name.as_ref())
                        && value(start, "id")?.as_deref() == Some(id)
                    {
                        found = Some(Self {
                            id: id.to_owned(),
                            promotable: name.as_ref() == b"master",
                        });
                        depth = u32::from(is_start);
                    }
                }
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Eof => return Ok(found),
                _ => {}
            }
        }
    }

    /// Returns the constraints that keep the group of a zone on the host of its storage, as XML: the group starts
    /// after the storage and stops before it.
    pub fn constraints(&self, zone: &str) -> String {
        let (group, id) = (group_id(zone), quick_xml::escape::escape(&self.id));
        let (role, action) = if self.promotable {
            (" with-rsc-role=\"Promoted\"", "promote")
        } else {
            ("", "start")
        };
        format!(
            "<rsc_colocation id=\"{group}-with-storage\" score=\"INFINITY\" rsc=\"{group}\" with-rsc=\"{id}\"{role}/>\
             <rsc_order id=\"{group}-after-storage\" first=\"{id}\" first-action=\"{action}\" then=\"{group}\" \
             then-action=\"start\"/>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIB: &str = r#"<cib><configuration><resources>
        <primitive id="pool" class="ocf" type="ZFS"><meta_attributes id="m"/></primitive>
        <clone id="drbd-clone"><meta_attributes id="c"><nvpair id="p" name="promotable" value="true"/></meta_attributes>
        <primitive id="drbd" class="ocf" type="drbd"/></clone>
        <clone id="dlm-clone"><primitive id="dlm" class="ocf" type="controld"/></clone>
        </resources><constraints><rsc_location id="pool-place" rsc="pool"/></constraints></configuration></cib>"#;

    fn promotable(id: &str) -> Option<bool> {
        Base::find(CIB, id).unwrap().map(|base| base.promotable)
    }

    #[test]
    fn finds_resources_and_tells_promotable_clones() {
        assert_eq!(promotable("pool"), Some(false));
        assert_eq!(promotable("drbd-clone"), Some(true));
        assert_eq!(promotable("dlm-clone"), Some(false));
        // Neither a constraint nor a setting is a resource.
        assert_eq!(promotable("pool-place"), None);
        assert_eq!(promotable("m"), None);
    }

    #[test]
    fn the_zone_runs_where_its_storage_is_promoted() {
        let drbd = Base::find(CIB, "drbd-clone").unwrap().unwrap();
        let text = drbd.constraints("web");
        assert!(text.contains("with-rsc=\"drbd-clone\" with-rsc-role=\"Promoted\""));
        assert!(text.contains("first-action=\"promote\" then=\"g-web\""));
        let pool = Base::find(CIB, "pool").unwrap().unwrap();
        let text = pool.constraints("web");
        assert!(!text.contains("role") && text.contains("first-action=\"start\""));
    }
}
