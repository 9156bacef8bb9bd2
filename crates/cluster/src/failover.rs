//! The resources and constraints of a failover zone.

use std::fmt::Write as _;

use quick_xml::escape::escape;

use crate::base::Base;
use crate::guest::Guest;

/// Interval of the monitor that looks at the state of the zone, in seconds. The watcher of the agent
/// tells of the end of a zone at once; this monitor is for a lost watcher.
const MONITOR_SECONDS: u32 = 10;
/// Interval of the monitor that runs the probe in the zone, in seconds. Pacemaker demands that two
/// monitors of a resource have different intervals.
const PROBE_SECONDS: u32 = 31;
/// Faults of a zone on a host after which Pacemaker takes another host.
const MAX_FAULTS: u32 = 5;
/// Seconds after which Pacemaker forgets a fault, and tries the host again.
const FAULT_SECONDS: u32 = 600;
/// Timeout of a live migration, in seconds: the memory of a large guest crosses a slow network.
pub const MIGRATION_SECONDS: u32 = 600;
/// Preference of a running zone for the host that it is on. A host that returns does not get it back.
const STICKINESS: u32 = 100;

/// A zone with the file system of its zonepath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// Name of the zone.
    pub zone: String,
    /// Mount point of the storage: the zonepath.
    pub path: String,
    /// Device of the file system; empty if `base` mounts it.
    pub device: String,
    /// The resource that provides the storage, if it is no device that each host can mount.
    pub base: Option<Base>,
    /// Type of the file system.
    pub fstype: String,
    /// Options of the mount; may be empty.
    pub options: String,
    /// Command that tells the health of the zone; may be empty.
    pub probe: String,
    /// Hosts on which the zone may run, the preferred first. Empty: all hosts.
    pub hosts: Vec<String>,
    /// The guest node that the zone makes, if it makes one.
    pub guest: Option<Guest>,
    /// The file with the configuration of a kernel zone whose disks every host reaches. It migrates
    /// live, and has neither `device` nor `base`. `None` for other zones: their file is in the zonepath.
    pub shared_config: Option<String>,
}

/// Returns the id of the group of a zone.
pub fn group_id(zone: &str) -> String {
    format!("g-{zone}")
}

/// Returns the id of the file system of a zone.
pub fn storage_id(zone: &str) -> String {
    format!("storage-{zone}")
}

/// Returns the id of the resource of a zone.
pub fn zone_id(zone: &str) -> String {
    format!("zone-{zone}")
}

impl Failover {
    /// Returns the group of the storage and the zone, as XML.
    pub fn resources(&self) -> String {
        let (group, zone) = (group_id(&self.zone), zone_id(&self.zone));
        let in_zonepath = format!("{}/cluster.cfg", self.path);
        let is_shared = self.shared_config.is_some();
        let config = self.shared_config.as_ref().unwrap_or(&in_zonepath);
        let mut text = format!("<group id=\"{group}\">");
        text += &meta(&group, &[("resource-stickiness", &STICKINESS.to_string())]);
        if !self.device.is_empty() {
            text += &self.file_system();
        }
        text +=
            &format!("<primitive id=\"{zone}\" class=\"ocf\" provider=\"zones\" type=\"Zone\">");
        let mut values = vec![("zone", self.zone.as_str()), ("config", config.as_str())];
        if is_shared {
            values.push(("shared_disks", "true"));
        }
        if !self.probe.is_empty() {
            values.push(("probe", &self.probe));
        }
        text += &set("instance_attributes", &format!("{zone}-params"), &values);
        text += &faults(&zone, self.guest.as_ref(), is_shared);
        text += "<operations>";
        text += &operation(&zone, "monitor", MONITOR_SECONDS, 20);
        if !self.probe.is_empty() {
            let id = format!("{zone}-monitor-{PROBE_SECONDS}");
            let _ = write!(
                text,
                "<op id=\"{id}\" name=\"monitor\" interval=\"{PROBE_SECONDS}s\" timeout=\"30s\">{}</op>",
                set(
                    "instance_attributes",
                    &format!("{id}-level"),
                    &[("OCF_CHECK_LEVEL", "10")]
                )
            );
        }
        text += &operation(&zone, "start", 0, if is_shared { 240 } else { 120 });
        text += &operation(&zone, "stop", 0, 120);
        if is_shared {
            text += &operation(&zone, "migrate_to", 0, MIGRATION_SECONDS);
            text += &operation(&zone, "migrate_from", 0, 120);
        }
        text += "</operations></primitive></group>";
        text
    }

    /// Returns the primitive that mounts the file system.
    fn file_system(&self) -> String {
        let storage = storage_id(&self.zone);
        let mut text = format!(
            "<primitive id=\"{storage}\" class=\"ocf\" provider=\"heartbeat\" type=\"Filesystem\">"
        );
        let mut values = vec![
            ("device", self.device.as_str()),
            ("directory", &self.path),
            ("fstype", &self.fstype),
        ];
        if !self.options.is_empty() {
            values.push(("options", &self.options));
        }
        text += &set("instance_attributes", &format!("{storage}-params"), &values);
        text += &faults(&storage, None, false);
        text += "<operations>";
        text += &operation(&storage, "monitor", MONITOR_SECONDS, 40);
        text += &operation(&storage, "start", 0, 60);
        text += &operation(&storage, "stop", 0, 60);
        text + "</operations></primitive>"
    }

    /// Returns the constraints, as XML: the storage, the hosts, and no guest or remote nodes. Pacemaker does not
    /// look for the zone on the nodes that are excluded.
    pub fn constraints(&self, members: &[String]) -> String {
        let group = group_id(&self.zone);
        let mut text = format!(
            "<rsc_location id=\"{group}-hosts-only\" rsc=\"{group}\" resource-discovery=\"never\">\
             <rule id=\"{group}-hosts-only-rule\" score=\"-INFINITY\">\
             <expression id=\"{group}-hosts-only-kind\" attribute=\"#kind\" operation=\"ne\" value=\"cluster\"/>\
             </rule></rsc_location>"
        );
        if let Some(base) = &self.base {
            text += &base.constraints(&self.zone);
        }
        for host in members {
            let place = self.hosts.iter().position(|name| name == host);
            let score = match place {
                Some(0) => "score=\"50\"".to_owned(),
                None if !self.hosts.is_empty() => {
                    "score=\"-INFINITY\" resource-discovery=\"never\"".to_owned()
                }
                _ => continue,
            };
            let host = escape(host);
            let _ = write!(
                text,
                "<rsc_location id=\"{group}-on-{host}\" rsc=\"{group}\" node=\"{host}\" {score}/>"
            );
        }
        text
    }
}

/// Returns the settings of faults for a resource, of the guest node that it makes, and of its migration.
fn faults(id: &str, guest: Option<&Guest>, migrates: bool) -> String {
    let (threshold, timeout) = (MAX_FAULTS.to_string(), format!("{FAULT_SECONDS}s"));
    let mut values = vec![
        ("migration-threshold", threshold.as_str()),
        ("failure-timeout", &timeout),
    ];
    if migrates {
        values.push(("allow-migrate", "true"));
    }
    if let Some(guest) = guest {
        values.push(("remote-node", &guest.name));
        if !guest.address.is_empty() {
            values.push(("remote-addr", &guest.address));
        }
    }
    meta(id, &values)
}

fn meta(id: &str, values: &[(&str, &str)]) -> String {
    set("meta_attributes", &format!("{id}-meta"), values)
}

fn set(element: &str, id: &str, values: &[(&str, &str)]) -> String {
    let mut text = format!("<{element} id=\"{id}\">");
    for (name, value) in values {
        let _ = write!(
            text,
            "<nvpair id=\"{id}-{name}\" name=\"{name}\" value=\"{}\"/>",
            escape(*value)
        );
    }
    text + &format!("</{element}>")
}

fn operation(id: &str, name: &str, interval: u32, timeout: u32) -> String {
    format!(
        "<op id=\"{id}-{name}-{interval}\" name=\"{name}\" interval=\"{interval}s\" timeout=\"{timeout}s\"/>"
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn web() -> Failover {
        Failover {
            zone: "web".into(),
            path: "/zones/web".into(),
            device: "/dev/lun1".into(),
            base: None,
            fstype: "ext4".into(),
            options: String::new(),
            probe: "test -s /run/a && true".into(),
            hosts: vec![],
            guest: None,
            shared_config: None,
        }
    }

    #[test]
    fn the_storage_comes_before_the_zone() {
        let text = web().resources();
        assert!(text.find("\"storage-web\"") < text.find("\"zone-web\""));
        assert!(text.starts_with("<group id=\"g-web\">") && text.ends_with("</group>"));
    }

    #[test]
    fn a_resource_that_mounts_the_zonepath_replaces_the_file_system() {
        let mut zone = web();
        zone.device.clear();
        zone.base = Some(Base {
            id: "pool".into(),
            promotable: false,
        });
        assert!(!zone.resources().contains("Filesystem"));
        assert!(zone.constraints(&[]).contains("with-rsc=\"pool\""));
    }

    #[test]
    fn a_zone_with_shared_disks_migrates_and_has_no_storage() {
        let mut zone = web();
        assert!(!zone.resources().contains("migrate"));
        zone.device.clear();
        zone.shared_config = Some("/nfs/web.cluster.cfg".into());
        let text = zone.resources();
        assert_eq!(text.matches("<primitive").count(), 1);
        for part in [
            "name=\"config\" value=\"/nfs/web.cluster.cfg\"",
            "name=\"shared_disks\" value=\"true\"",
            "name=\"allow-migrate\" value=\"true\"",
            "name=\"migrate_to\" interval=\"0s\" timeout=\"600s\"",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn values_are_escaped() {
        assert!(
            web()
                .resources()
                .contains("value=\"test -s /run/a &amp;&amp; true\"")
        );
    }

    #[test]
    fn without_a_probe_there_is_no_second_monitor() {
        let mut zone = web();
        assert_eq!(zone.resources().matches("name=\"monitor\"").count(), 3);
        zone.probe.clear();
        assert_eq!(zone.resources().matches("name=\"monitor\"").count(), 2);
    }

    #[test]
    fn hosts_that_are_not_named_are_excluded() {
        let members: Vec<String> = ["a", "b", "c"].map(String::from).into();
        let mut zone = web();
        assert_eq!(zone.constraints(&members).matches("node=").count(), 0);
        zone.hosts = vec!["b".into(), "a".into()];
        let text = zone.constraints(&members);
        assert!(text.contains("node=\"b\" score=\"50\""));
        assert!(text.contains("node=\"c\" score=\"-INFINITY\" resource-discovery=\"never\""));
        assert!(!text.contains("node=\"a\""));
    }
}
