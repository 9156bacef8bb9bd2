//! The output of `crm_mon --output-as=xml`.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

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
    /// The host is no member, and Pacemaker does not fear that it still runs: it was fenced or left.
    pub down: bool,
}

/// A zone that is a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNode {
    /// Name of the node.
    pub name: String,
    /// Name of the zone, from the id of its resource.
    pub zone: String,
    /// Pacemaker reaches it.
    pub online: bool,
}

/// A host that Pacemaker has fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fencing {
    /// Name of the host.
    pub host: String,
    /// Time of the end of the operation, in seconds since 1970.
    pub completed: u64,
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
    /// The zones that are nodes.
    pub guests: Vec<GuestNode>,
    /// The failover zones.
    pub zones: Vec<Place>,
    /// Fence operations that succeeded and that switched a host off.
    pub fencings: Vec<Fencing>,
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
    /// Reads the output of `crm_mon -1 -r --output-as=xml`. Times of fence operations are taken only from output that was
    /// made with `TZ=UTC`.
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
                        ("fence_event", _) => view.take_fencing(start)?,
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

    /// Returns true if Pacemaker has fenced the host at or after a time in seconds since 1970, and the host has not joined
    /// again. Without a majority or with fencing switched off, nothing is proven.
    pub fn is_fenced(&self, host: &str, since: u64) -> bool {
        let is_down = self.nodes.iter().any(|node| node.name == host && node.down);
        let mut fencings = self.fencings.iter();
        let fenced = fencings.any(|one| one.host == host && one.completed >= since);
        self.quorum && self.fencing && is_down && fenced
    }

    fn take_fencing(&mut self, start: &BytesStart<'_>) -> Result<(), BadView> {
        let action = value(start, "action")?.unwrap_or_default();
        let is_done = value(start, "status")?.as_deref() == Some("success");
        let completed = value(start, "completed")?.and_then(|text| utc(&text));
        if let (true, "off" | "reboot", Some(completed), Some(host)) =
            (is_done, action.as_str(), completed, value(start, "target")?)
        {
            self.fencings.push(Fencing { host, completed });
        }
        Ok(())
    }

    fn take_node(&mut self, start: &BytesStart<'_>) -> Result<(), BadView> {
        let kind = value(start, "type")?;
        // Guests and remote nodes are no hosts.
        match kind.as_deref() {
            None | Some("member") => {}
            Some("guest") => {
                let resource = value(start, "id_as_resource")?.unwrap_or_default();
                self.guests.push(GuestNode {
                    name: value(start, "name")?.unwrap_or_default(),
                    zone: resource
                        .strip_prefix("zone-")
                        .unwrap_or(&resource)
                        .to_owned(),
                    online: is_true(start, "online")?,
                });
                return Ok(());
            }
            Some(_) => return Ok(()),
        }
        let is_sure = !is_true(start, "unclean")? && !is_true(start, "pending")?;
        self.nodes.push(Node {
            name: value(start, "name")?.unwrap_or_default(),
            online: is_true(start, "online")? && is_sure,
            standby: is_true(start, "standby")?,
            down: value(start, "online")?.as_deref() == Some("false") && is_sure,
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

/// Reads a time in UTC, such as `2026-11-26 02:19:30Z`, with or without a part of a second. Returns the seconds since
/// 1970, or `None` for any other text.
fn utc(text: &str) -> Option<u64> {
    let text = text.trim();
    let zones = ["Z", "+00:00", "+0000", "UTC"];
    let text = zones.iter().find_map(|zone| text.strip_suffix(zone))?;
    let (date, time) = text.trim_end().split_once([' ', 'T'])?;
    let time = time.split('.').next()?;
    let numbers = |text: &str, separator: char| -> Option<[u64; 3]> {
        let parts: Vec<&str> = text.split(separator).collect();
        let parts: [&str; 3] = parts.try_into().ok()?;
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(parts) {
            let is_plain =
                (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            *number = part.parse().ok().filter(|_| is_plain)?;
        }
        Some(numbers)
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    let is_date = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years begin in March, so that the leap day is the last day of a year.
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let since_1970 = days.checked_sub(719_468)?;
    Some(since_1970 * 86_400 + hour * 3600 + minute * 60 + second)
}

fn is_true(start: &BytesStart<'_>, key: &str) -> Result<bool, BadView> {
    Ok(value(start, key)?.as_deref() == Some("true"))
}

/// Returns the value of an attribute.
pub(crate) fn value(start: &BytesStart<'_>, key: &str) -> Result<Option<String>, BadView> {
    let found = start.try_get_attribute(key)?;
    let value = found.map(|found| found.normalized_value(XmlVersion::Implicit1_0));
    Ok(value.transpose()?.map(std::borrow::Cow::into_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<pacemaker-result><summary><current_dc name="a" with_quorum="true"/>
        <cluster_options stonith-enabled="true"/></summary>
        <nodes><node name="a" online="true" unclean="false" pending="false" standby="false" type="member"/>
        <node name="b" online="false" unclean="true" pending="false" standby="false" type="member"/>
        <node name="g" online="true" unclean="false" pending="false" standby="false" type="guest" id_as_resource="zone-web"/></nodes>
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
        let guest = &view.guests[0];
        assert_eq!(
            (guest.name.as_str(), guest.zone.as_str(), guest.online),
            ("g", "web", true)
        );
    }

    /// Pacemaker 2.1.5 after it has fenced c.
    fn fenced(change: &[(&str, &str)]) -> View {
        let mut text = r#"<pacemaker-result><summary><current_dc name="a" with_quorum="true"/>
            <cluster_options stonith-enabled="true"/></summary>
            <nodes><node name="a" online="true" unclean="false" pending="false" type="member"/>
            <node name="c" online="false" unclean="false" pending="false" expected_up="false" type="member"/></nodes>
            <fence_history><fence_event action="reboot" target="c" client="pacemaker-controld.155" origin="b" status="success"
            delegate="a" completed="2026-11-26 02:19:30Z"/></fence_history></pacemaker-result>"#
            .to_owned();
        for (from, to) in change {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        View::read(&text).unwrap()
    }

    #[test]
    fn a_host_is_fenced_only_with_proof() {
        // 2026-11-26 02:19:30 UTC.
        const COMPLETED: u64 = 1_795_659_570;
        let view = fenced(&[]);
        assert!(view.is_fenced("c", COMPLETED) && view.is_fenced("c", COMPLETED - 60));
        assert!(fenced(&[("\"reboot\"", "\"off\"")]).is_fenced("c", COMPLETED));
        // Too old, or another host.
        assert!(!view.is_fenced("c", COMPLETED + 1) && !view.is_fenced("a", COMPLETED));
        for change in [
            ("success", "failed"),
            ("success", "pending"),
            ("\"reboot\"", "\"on\""),
            ("target=\"c\"", "target=\"b\""),
            // Times of another time zone, and no times.
            ("02:19:30Z", "02:19:30 +02:00"),
            ("02:19:30Z", "02:19:30"),
            ("02:19:30Z", "Z"),
            ("completed=", "done="),
            // The host is back, or may be.
            ("online=\"false\"", "online=\"true\""),
            ("online=\"false\"", ""),
            (
                "unclean=\"false\" pending=\"false\" expected",
                "unclean=\"true\" pending=\"false\" expected",
            ),
            ("pending=\"false\" expected", "pending=\"true\" expected"),
            ("with_quorum=\"true\"", "with_quorum=\"false\""),
            ("stonith-enabled=\"true\"", "stonith-enabled=\"false\""),
        ] {
            assert!(!fenced(&[change]).is_fenced("c", COMPLETED), "{change:?}");
        }
    }

    #[test]
    fn reads_times_in_utc() {
        assert_eq!(utc("1970-01-01 00:00:00Z"), Some(0));
        assert_eq!(utc("2000-02-29 23:59:59.123456 +00:00"), Some(951_868_799));
        assert_eq!(utc("2026-11-26T02:19:30+0000"), Some(1_795_659_570));
        for wrong in [
            "",
            "Z",
            "2026-11-26 02:19:30 +01:00",
            "2026-13-26 02:19:30Z",
            "2026-11-26 24:19:30Z",
            "1969-12-31 23:59:59Z",
            "2026-11 02:19:30Z",
            "99999-01-01 00:00:00Z",
            "2026-+1-01 00:00:00Z",
            "2026-11-26 02:19Z",
        ] {
            assert_eq!(utc(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn refuses_output_without_a_cluster() {
        let refused = View::read("<pacemaker-result><status code=\"102\"/></pacemaker-result>");
        assert!(matches!(refused, Err(BadView::Empty)));
        assert!(View::read("<a").is_err());
    }
}
