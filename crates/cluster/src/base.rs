//! The resource of Pacemaker that provides the storage of a failover zone: DRBD, a ZFS pool, a volume group.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::failover::group_id;
use crate::guest::is_on;
use crate::view::{BadView, value};

/// Elements that are resources.
const RESOURCES: [&[u8]; 4] = [b"primitive", b"group", b"clone", b"master"];
/// Elements that run the resource in them on several hosts.
const CLONES: [&[u8]; 2] = [b"clone", b"master"];

/// A resource below a failover zone. The zone runs only where this resource provides its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The id of the resource.
    pub id: String,
    /// True for a promotable clone, as that of DRBD: it provides the storage where it is promoted.
    pub promotable: bool,
}

/// The reason why a resource cannot be below a zone.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BaseRefused {
    /// The resource is a copy in a clone, and the constraints must name the clone.
    #[error("-s {id}: it is in {clone}, which runs it on several hosts: -s {clone}")]
    InClone {
        /// The id of the resource.
        id: String,
        /// The id of its clone.
        clone: String,
    },
}

impl Base {
    /// Returns the resource of a CIB with this id; `None` if there is none. The outer error is a CIB that is no XML.
    ///
    /// # Errors
    /// Fails if the text is not XML.
    pub fn find(cib: &str, id: &str) -> Result<Result<Option<Self>, BaseRefused>, BadView> {
        let mut reader = Reader::from_str(cib);
        // The ids of the clones that are open, outermost first.
        let mut clones: Vec<String> = Vec::new();
        // Elements that are open inside the resource, with the resource itself; 0 outside of it.
        let mut depth = 0_u32;
        let mut found: Option<Self> = None;
        loop {
            let event = reader.read_event()?;
            match &event {
                Event::Start(start) | Event::Empty(start) => {
                    let name = start.name();
                    let is_start = matches!(event, Event::Start(_));
                    let own = value(start, "id")?.unwrap_or_default();
                    if depth > 0 {
                        depth += u32::from(is_start);
                        if let Some(base) = found.as_mut()
                            && name.as_ref() == b"nvpair"
                            && value(start, "name")?.as_deref() == Some("promotable")
                        {
                            base.promotable = is_on(&value(start, "value")?.unwrap_or_default());
                        }
                    } else if found.is_none() && RESOURCES.contains(&name.as_ref()) && own == id {
                        if let Some(clone) = clones.first() {
                            return Ok(Err(BaseRefused::InClone {
                                id: own,
                                clone: clone.clone(),
                            }));
                        }
                        found = Some(Self {
                            id: own,
                            promotable: name.as_ref() == b"master",
                        });
                        depth = u32::from(is_start);
                    } else if is_start && CLONES.contains(&name.as_ref()) {
                        clones.push(own);
                    }
                }
                Event::End(end) => {
                    if depth == 0 && CLONES.contains(&end.name().as_ref()) {
                        clones.pop();
                    }
                    depth = depth.saturating_sub(1);
                }
                Event::Eof => return Ok(Ok(found)),
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
        <clone id="other-clone"><meta_attributes id="o"><nvpair id="q" name="promotable" value="Yes"/></meta_attributes>
        <primitive id="other" class="ocf" type="drbd"/></clone>
        <clone id="dlm-clone"><primitive id="dlm" class="ocf" type="controld"/></clone>
        </resources><constraints><rsc_location id="pool-place" rsc="pool"/></constraints></configuration></cib>"#;

    fn found(id: &str) -> Option<Base> {
        Base::find(CIB, id).unwrap().unwrap()
    }

    fn promotable(id: &str) -> Option<bool> {
        found(id).map(|base| base.promotable)
    }

    #[test]
    fn finds_resources_and_tells_promotable_clones() {
        assert_eq!(promotable("pool"), Some(false));
        assert_eq!(promotable("drbd-clone"), Some(true));
        assert_eq!(promotable("other-clone"), Some(true));
        assert_eq!(promotable("dlm-clone"), Some(false));
        // Neither a constraint nor a setting is a resource.
        assert_eq!(promotable("pool-place"), None);
        assert_eq!(promotable("m"), None);
    }

    #[test]
    fn a_resource_in_a_clone_is_refused_with_the_name_of_the_clone() {
        let refused = Base::find(CIB, "drbd").unwrap().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "-s drbd: it is in drbd-clone, which runs it on several hosts: -s drbd-clone"
        );
        assert!(Base::find(CIB, "dlm").unwrap().is_err());
    }

    #[test]
    fn the_zone_runs_where_its_storage_is_promoted() {
        let drbd = found("drbd-clone").unwrap();
        let text = drbd.constraints("web");
        assert!(text.contains("with-rsc=\"drbd-clone\" with-rsc-role=\"Promoted\""));
        assert!(text.contains("first-action=\"promote\" then=\"g-web\""));
        let pool = found("pool").unwrap();
        let text = pool.constraints("web");
        assert!(!text.contains("role") && text.contains("first-action=\"start\""));
    }
}
