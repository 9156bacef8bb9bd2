//! Finds the active zones, and the zone of each process; see [`store::groups`].

use std::collections::{BTreeMap, BTreeSet};

use cli::CurrentZone;
use model::ZoneName;
use store::groups::Groups;
use store::index::Index;
use store::labels::{Shown, UNREADABLE};
use store::{Root, groups};

use crate::process::Process;

/// A zone that can have processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The name of the zone.
    pub name: String,
    /// The numeric id of the zone; 0 for the global zone.
    pub id: u32,
    /// The host's id of the zone's user 0.
    pub first_id: u32,
    /// The sensitivity label as text; `None` for a zone without a label, for the global zone, and
    /// inside a zone.
    pub label: Option<String>,
}

impl Zone {
    /// Returns a user or group id as the zone sees it; the host's id if it is outside of the zone's
    /// range.
    pub fn own_id(&self, host_id: u32) -> u32 {
        match host_id.checked_sub(self.first_id) {
            Some(id) if id < store::index::IDS_PER_ZONE => id,
            _ => host_id,
        }
    }
}

/// The zones that this process can see.
#[derive(Debug)]
pub struct Zones {
    /// The zone of all other processes: the zone in which zps runs.
    own: Zone,
    /// The other zones by their cgroup: the processes of a zone are in it or below it.
    groups: BTreeMap<String, Zone>,
    /// The root whose configurations are searched for names; `None` in a zone.
    root: Option<Root>,
    /// The zones that could not be read.
    pub warnings: Vec<String>,
}

impl Zones {
    /// Returns the zones that a process in a zone sees: only this zone.
    pub fn inside(zone: CurrentZone) -> Self {
        Self {
            own: Zone {
                name: zone.name,
                id: zone.id.unwrap_or_default(),
                first_id: 0,
                label: None,
            },
            groups: BTreeMap::new(),
            root: None,
            warnings: Vec::new(),
        }
    }

    /// Returns the zones that a process on the host sees: the global zone and all active zones.
    pub fn of_host(root: Root) -> Result<Self, String> {
        let (active, unreadable) = groups::of_host(&root)
            .map_err(|error| format!("could not read /proc/self/mountinfo: {error}"))?;
        let labels = Shown::of_host(&root);
        let warning = |(name, error)| format!("zone '{name}': {error}");
        let mut warnings: Vec<String> = unreadable.into_iter().map(warning).collect();
        let (groups, damaged) = with_labels(active, |zone| labels.of_zone(zone));
        warnings.extend(damaged.into_iter().map(warning));
        Ok(Self {
            own: Zone {
                name: cli::GLOBAL.to_owned(),
                id: 0,
                first_id: 0,
                label: None,
            },
            groups,
            root: Some(root),
            warnings,
        })
    }

    /// Returns the zone of a process.
    pub fn of(&self, process: &Process) -> &Zone {
        groups::nearest(&self.groups, &process.cgroup).unwrap_or(&self.own)
    }

    /// Returns true if an active zone has a label.
    pub fn is_labeled(&self) -> bool {
        self.groups.values().any(|zone| zone.label.is_some())
    }

    /// Returns the ids of the zones that -z selects; `None` without -z. A zone that is not active
    /// has no id and no processes.
    pub fn choose(&self, words: &[String]) -> Result<Option<BTreeSet<u32>>, String> {
        if words.is_empty() {
            return Ok(None);
        }
        let known = self.known()?;
        let mut chosen = BTreeSet::new();
        for word in words {
            let unknown = || format!("unknown zone '{word}'");
            let number: Option<u32> = word.parse().ok();
            if *word == self.own.name || number == Some(self.own.id) {
                chosen.insert(self.own.id);
                continue;
            }
            if self.root.is_none() {
                return Err(unknown());
            }
            let is_name = known.iter().any(|name| name.as_str() == word);
            if let (false, Some(id)) = (is_name, number) {
                let zone = self.groups.values().find(|zone| zone.id == id);
                chosen.insert(zone.ok_or_else(unknown)?.id);
                continue;
            }
            let names =
                cli::select::resolve([word.as_str()], &known).map_err(|error| match error {
                    cli::select::Error::Range(_) => error.to_string(),
                    _ => unknown(),
                })?;
            for name in names {
                if !known.contains(&name) {
                    return Err(format!("unknown zone '{name}'"));
                }
                let zone = self.groups.values().find(|zone| zone.name == name.as_str());
                chosen.extend(zone.map(|zone| zone.id));
            }
        }
        Ok(Some(chosen))
    }

    /// Returns the names of all zones, active or not.
    fn known(&self) -> Result<Vec<ZoneName>, String> {
        let Some(root) = &self.root else {
            return Ok(Vec::new());
        };
        let index = Index::load(root).map_err(|error| error.to_string())?;
        let names = index.entries().iter().map(|entry| entry.name.clone());
        Ok(names.collect())
    }
}

/// Returns the active zones with their labels, and the zones whose label could not be read.
fn with_labels(
    active: Groups,
    label_of: impl Fn(&ZoneName) -> Result<Option<String>, store::Error>,
) -> (BTreeMap<String, Zone>, Vec<(ZoneName, store::Error)>) {
    let mut zones = BTreeMap::new();
    let mut damaged = Vec::new();
    for (group, one) in active {
        let name = one.name.to_string();
        let label = label_of(&one.name).unwrap_or_else(|error| {
            damaged.push((one.name, error));
            Some(UNREADABLE.to_owned())
        });
        let zone = Zone {
            name,
            id: one.id,
            first_id: one.first_id,
            label,
        };
        zones.insert(group, zone);
    }
    (zones, damaged)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn zone(name: &str, id: u32) -> Zone {
        Zone {
            name: name.to_owned(),
            id,
            first_id: 0x1000_0000,
            label: None,
        }
    }

    fn zones() -> Zones {
        let groups = [
            ("/zones/web".to_owned(), zone("web", 7)),
            ("/zones/web2".to_owned(), zone("web2", 8)),
        ];
        Zones {
            own: Zone {
                first_id: 0,
                ..zone("global", 0)
            },
            groups: groups.into_iter().collect(),
            root: Some(Root::new(Path::new("/nowhere"))),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_control_group_decides_the_zone_of_a_process() {
        let zones = zones();
        for (group, name) in [
            ("/zones/web/zone", "web"),
            ("/zones/web/zone/deep/zones/web2", "web"),
            ("/zones/web", "web"),
            ("/zones/web2/login", "web2"),
            ("/zones/web3", "global"),
            ("/zones/.zoneadmd", "global"),
            ("/", "global"),
            ("", "global"),
        ] {
            let process = Process {
                cgroup: group.to_owned(),
                ..Process::default()
            };
            assert_eq!(zones.of(&process).name, name, "{group}");
        }
    }

    #[test]
    fn a_label_that_cannot_be_read_is_not_shown_as_no_label() {
        let active = |name: &str| store::groups::Active {
            name: name.parse().unwrap(),
            id: 7,
            first_id: 0,
        };
        let groups = ["bad", "high", "plain"].map(|name| (format!("/{name}"), active(name)));
        let (found, damaged) = with_labels(groups.into(), |zone| match zone.as_str() {
            "high" => Ok(Some("PUBLIC".to_owned())),
            "bad" => Err(store::Error::NoSuchZone(zone.clone())),
            _ => Ok(None),
        });
        let labels: Vec<_> = found.values().map(|zone| zone.label.as_deref()).collect();
        assert_eq!(labels, [Some("?"), Some("PUBLIC"), None]);
        assert_eq!(damaged.len(), 1);
        assert_eq!(damaged[0].0.as_str(), "bad");
        assert!(!zones().is_labeled());
        let groups = found;
        assert!(Zones { groups, ..zones() }.is_labeled());
    }

    #[test]
    fn ids_in_a_zone_are_its_own() {
        let web = zone("web", 7);
        assert_eq!(web.own_id(0x1000_0000), 0);
        assert_eq!(web.own_id(0x1000_03e8), 1000);
        assert_eq!(web.own_id(0x1001_0000), 0x1001_0000);
        assert_eq!(web.own_id(5), 5);
    }

    #[test]
    fn zones_are_chosen_by_name_and_by_id() {
        let zones = zones();
        let chosen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            zones.choose(&words)
        };
        assert_eq!(chosen(&[]), Ok(None));
        assert_eq!(chosen(&["global", "8"]), Ok(Some([0, 8].into())));
        assert_eq!(chosen(&["0"]), Ok(Some([0].into())));
        for unknown in ["9", "web", "a/b", "nobody*"] {
            assert_eq!(chosen(&[unknown]), Err(format!("unknown zone '{unknown}'")));
        }
    }
}
