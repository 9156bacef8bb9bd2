//! The output of `crm_mon --output-as=xml`.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Maximum size of the output, in bytes: a cluster of 32 hosts with 1000 zones has less than 2 MB.
const MAX_BYTES: usize = 16 << 20;

/// A host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the host.
    pub name: String,
    /// The host is a member and its state is known.
    pub online: bool,
    /// The host takes no resources.
    pub standby: bool,
}

/// A zone that Pacemaker runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the zone, from the id of its resource.
    pub zone: String,
    /// The role: `Started`, `Stopped`, or a change that is under way.
    pub role: String,
    /// The hosts that run it. More than one is a fault.
    pub hosts: Vec<String>,
    /// The last operation failed.
    pub failed: bool,
}

/// Pacemaker's view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// This part of the cluster has a majority.
    pub quorum: bool,
    /// Pacemaker fences hosts.
    pub fencing: bool,
    /// The hosts.
    pub nodes: Vec<Node>,
    /// The failover zones.
    pub zones: Vec<Place>,
}

/// Output that is no view.
#[derive(Debug, thiserror::Error)]
pub enum BadView {
    /// It is not XML.
    #[error("the output of Pacemaker is not XML: {0}")]
    Xml(#[from] quick_xml::Error),
    /// An attribute is damaged.
    #[error("the output of Pacemaker has a damaged attribute: {0}")]
    Attribute(#[from] quick_xml::events::attributes::AttrError),
    /// It is too long.
    #[error("the output of crm_mon has {0} bytes: expected at most {MAX_BYTES}")]
    Long(usize),
    /// It has no cluster.
    #[error("the output of crm_mon has no summary of a cluster: is Pacemaker running?")]
    Empty,
}

impl View {
    /// Reads the output of `crm_mon -1 -r --output-as=xml`.
    ///
    /// # Errors
    /// Fails if the text is too long, is not XML, or has no summary of a cluster.
    pub fn read(text: &str) -> Result<Self, BadView> {
        if text.len() > MAX_BYTES {
            return Err(BadView::Long(text.len()));
        }
        let mut view = Self::default();
        let mut reader = Reader::from_str(text);
        // Elements that are open: a node of a resource is not a host of the list of hosts.
        let mut open: Vec<String> = Vec::new();
        let mut has_summary = false;
        let mut in_zone = false;
        loop {
            let event = reader.read_event()?;
            match &event {
                Event::Start(start) | Event::Empty(start) => {
                    let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                    has_summary |= name == "summary";
                    match (name.as_str(), open.last().map(String::as_str)) {
                        ("resource", _) => in_zone = view.take_resource(start)?,
                        ("node", Some("resource")) if in_zone => view.take_place(start)?,
                        ("node", Some("nodes")) => view.take_node(start)?,
                        ("current_dc", _) => view.quorum = is_true(start, "with_quorum")?,
                        ("cluster_options", _) => {
                            view.fencing = is_true(start, "stonith-enabled")?;
                        }
                        _ => {}
                    }
                    if matches!(event, Event::Start(_)) {
                        open.push(name);
                    }
                }
                Event::End(_) => {
                    open.pop();
                }
                Event::Eof => break,
                _ => {}
            }
        }
        if has_summary {
            Ok(view)
        } else {
            Err(BadView::Empty)
        }
    }

    /// Returns the names of the hosts that are members.
    pub fn members(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// Returns the zone of this name.
    pub fn zone(&self, name: &str) -> Option<&Place> {
        self.zones.iter().find(|place| place.zone == name)
    }

    fn take_node(&mut self, start: &BytesStart<'_>) -> Result<(), BadView> {
        // Guests and remote nodes are no hosts.
        if value(start, "type")?.as_deref().unwrap_or("member") != "member" {
            return Ok(());
        }
        self.nodes.push(Node {
            name: value(start, "name")?.unwrap_or_default(),
            online: is_true(start, "online")?
                && !is_true(start, "unclean")?
                && !is_true(start, "pending")?,
            standby: is_true(start, "standby")?,
        });
        Ok(())
    }

    /// Takes a resource that is a zone. Returns whether it is one.
    fn take_resource(&mut self, start: &BytesStart<'_>) -> Result<bool, BadView> {
        if value(start, "resource_agent")?.as_deref() != Some("ocf:zones:Zone") {
            return Ok(false);
        }
        let id = value(start, "id")?.unwrap_or_default();
        self.zones.push(Place {
            zone: id.strip_prefix("zone-").unwrap_or(&id).to_owned(),
            role: value(start, "role")?.unwrap_or_default(),
            hosts: Vec::new(),
            failed: is_true(start, "failed")?,
        });
        Ok(true)
    }

    /// Takes a host of the zone that was taken last.
    fn take_place(&mut self, start: &BytesStart<'_>) -> Result<(), BadView> {
        if let (Some(place), Some(host)) = (self.zones.last_mut(), value(start, "name")?) {
            place.hosts.push(host);
        }
        Ok(())
    }
}

fn is_true(start: &BytesStart<'_>, key: &str) -> Result<bool, BadView> {
    Ok(value(start, key)?.as_deref() == Some("true"))
}

/// Returns the value of an attribute.
pub(crate) fn value(start: &BytesStart<'_>, key: &str) -> Result<Option<String>, BadView> {
    let found = start.try_get_attribute(key)?;
    Ok(found
        .map(|found| found.unescape_value().map(std::borrow::Cow::into_owned))
        .transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<pacemaker-result><summary><current_dc name="a" with_quorum="true"/>
        <cluster_options stonith-enabled="true"/></summary>
        <nodes><node name="a" online="true" unclean="false" pending="false" standby="false" type="member"/>
        <node name="b" online="false" unclean="true" pending="false" standby="false" type="member"/>
        <node name="g" online="true" unclean="false" pending="false" standby="false" type="guest"/></nodes>
        <resources><resource id="fence" resource_agent="stonith:x" role="Started"><node name="b"/></resource>
        <group id="g-web"><resource id="storage-web" resource_agent="ocf:heartbeat:Filesystem" role="Started"><node name="a"/></resource>
        <resource id="zone-web" resource_agent="ocf:zones:Zone" role="Started" failed="false"><node name="a" id="1"/></resource></group>
        <resource id="zone-db" resource_agent="ocf:zones:Zone" role="Stopped" failed="true"/></resources></pacemaker-result>"#;

    #[test]
    fn reads_hosts_and_zones() {
        let view = View::read(TEXT).unwrap();
        assert!(view.quorum && view.fencing);
        assert_eq!(view.members(), ["a", "b"]);
        assert!(view.nodes[0].online && !view.nodes[1].online);
        assert_eq!(view.zone("web").unwrap().hosts, ["a"]);
        let db = view.zone("db").unwrap();
        assert!(db.hosts.is_empty() && db.failed && db.role == "Stopped");
        assert_eq!(view.zones.len(), 2);
    }

    #[test]
    fn refuses_output_without_a_cluster() {
        let refused = View::read("<pacemaker-result><status code=\"102\"/></pacemaker-result>");
        assert!(matches!(refused, Err(BadView::Empty)));
        assert!(View::read("<a").is_err());
    }
}
