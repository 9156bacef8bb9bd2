//! The labels of the zones of one network namespace: the number of each label, and the addresses
//! that the programs of links compare. See `net::guard::label`.
//!
//! `labels.json` in the folder of the shared state lists both. The kernel's map is made from this
//! file, and made anew if no program has it any more.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use model::plan::network::{Link, Subnet};
use net::guard::label::{Addresses, MAX_NUMBER, ZONE};
use net::make::HostLabel;
use net::record::{Held, Record};
use serde::{Deserialize, Serialize};
use store::labels::network::Network;

use super::common::{Common, folder_here};
use super::error::AnyError;
use super::file::{read, save};

/// The labels of a host.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Labels {
    /// The id of the kernel's map.
    map: u32,
    /// The labels in hexadecimal. The number of a label is its place, from 1.
    labels: Vec<String>,
    /// The networks of the host and of the outside, with the numbers of their labels. An empty list
    /// is a network without a label.
    remotes: Vec<(Subnet, Vec<u8>)>,
    /// The addresses of running zones.
    zones: Vec<IpAddr>,
}

impl Labels {
    /// Returns the number of a label, which is a new one if no zone has had the label.
    fn number(&mut self, label: &str) -> Result<u8, AnyError> {
        let found = self.labels.iter().position(|known| known == label);
        let at = found.unwrap_or_else(|| {
            self.labels.push(label.to_owned());
            self.labels.len() - 1
        });
        match u8::try_from(at + 1) {
            Ok(number) if number <= MAX_NUMBER => Ok(number),
            _ => Err(format!(
                "zones with {MAX_NUMBER} other labels ran on this host since its boot, and there is no number for the label {label}: halt all zones with labels, and boot them again"
            )
            .into()),
        }
    }

    /// Gives the networks of a label this list.
    fn set_remotes(&mut self, number: u8, remotes: &[(Subnet, bool)]) {
        for (_, numbers) in &mut self.remotes {
            numbers.retain(|one| *one != number);
        }
        // The list has every network of the host, so a network that is not in it has gone.
        self.remotes
            .retain(|(known, _)| remotes.iter().any(|(wanted, _)| wanted == known));
        for (subnet, admitted) in remotes {
            let at = self.remotes.iter().position(|(known, _)| known == subnet);
            let at = at.unwrap_or_else(|| {
                self.remotes.push((*subnet, Vec::new()));
                self.remotes.len() - 1
            });
            if *admitted {
                self.remotes[at].1.push(number);
            }
        }
    }

    /// Gives every label the networks that the templates admit for it.
    fn refresh(&mut self, network: &Network) {
        for (number, label) in (1..=MAX_NUMBER).zip(self.labels.clone()) {
            // The file has only labels that were written from labels.
            let remotes = label.parse().map(|label| network.remotes(label));
            self.set_remotes(number, &remotes.unwrap_or_default());
        }
    }

    /// Returns the content of the kernel's map.
    fn map(&self) -> BTreeMap<(IpAddr, u8), u128> {
        let mut map = BTreeMap::new();
        for (subnet, numbers) in &self.remotes {
            let set = numbers
                .iter()
                .fold(0, |set, number| set | 1_u128 << (number % 128));
            map.insert((subnet.ip, subnet.prefix), set);
        }
        // The address of a zone is no other host's, whatever a network says.
        for ip in &self.zones {
            let longest = if ip.is_ipv4() { 32 } else { 128 };
            map.insert((*ip, longest), 1 << ZONE);
        }
        map
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("labels.json")
}

/// Takes a number for the label of a zone, and adds the addresses of its links to the map. Returns
/// `None` for a zone without a label.
pub(super) fn join(
    common: &Common,
    links: &[Link],
    held: &mut [Held],
) -> Result<Option<HostLabel>, AnyError> {
    let Some(label) = links.iter().find_map(|link| link.label.as_ref()) else {
        return Ok(None);
    };
    let path = path(common.folder());
    let mut labels: Labels = read(&path)?.unwrap_or_default();
    let number = labels.number(&label.label)?;
    labels.set_remotes(number, &label.remotes);
    for one in &mut *held {
        one.label = Some(number);
        let own = one.addresses.iter().map(|one| one.ip);
        labels
            .zones
            .retain(|known| own.clone().all(|ip| ip != *known));
        labels.zones.extend(own);
    }
    // While an address is in the map, a packet to it must not follow the host's default route, also
    // if the zone has been killed and its own route is gone.
    net::hold(&routed(held), true).map_err(|errors| errors.join("; "))?;
    let addresses = Addresses::open_or_make(labels.map)?;
    labels.map = addresses.id();
    addresses.replace(&labels.map())?;
    save(&path, &labels)?;
    Ok(Some(HostLabel { number, addresses }))
}

/// Removes the addresses of links from the map. With the last link that has a label the file goes, and
/// the numbers are free again. `record` is the file with the links of the zone, and `records` are those
/// of all zones.
pub(super) fn leave(
    folder: &Path,
    records: &[PathBuf],
    record: &Path,
    gone: &[Held],
) -> Result<(), AnyError> {
    let path = path(folder);
    if gone.iter().all(|held| held.label.is_none()) {
        return Ok(());
    }
    let Some(mut labels) = read::<Labels>(&path)? else {
        return Ok(());
    };
    let ended = gone.iter().flat_map(|held| &held.addresses);
    labels
        .zones
        .retain(|ip| ended.clone().all(|one| one.ip != *ip));
    // A link without an address may have a label, too.
    let is_gone =
        |at: &Path, held: &Held| at == record && gone.iter().any(|one| one.name == held.name);
    let has_label = |at: &PathBuf| match read::<Record>(at) {
        Ok(Some(other)) => {
            let mut links = other.links.iter();
            links.any(|held| held.label.is_some() && !is_gone(at, held))
        }
        Ok(None) => false,
        Err(_) => true,
    };
    if labels.zones.is_empty() && !records.iter().any(has_label) {
        return Ok(fs::remove_file(&path)?);
    }
    if let Ok(addresses) = Addresses::open(labels.map) {
        addresses.replace(&labels.map())?;
    }
    save(&path, &labels)
}

/// Returns the addresses to which the host routes.
fn routed(held: &[Held]) -> Vec<IpAddr> {
    let links = held.iter().filter(|held| held.routed);
    links
        .flat_map(|held| held.addresses.iter().map(|one| one.ip))
        .collect()
}

/// Removes the file.
pub(super) fn remove(folder: &Path) {
    let _ = fs::remove_file(path(folder));
}

/// Gives the running zones with labels the networks that the stored templates now admit. Must be
/// called in the host's namespaces, with the lock of labels held: a zone that boots meanwhile would
/// bring the former networks back.
///
/// # Errors
/// Fails if a file cannot be read or written, or with the error of bpf(2).
pub fn refresh(network: &Network) -> Result<(), AnyError> {
    let Some(common) = Common::open_existing()? else {
        return Ok(());
    };
    let path = path(common.folder());
    let Some(mut labels) = read::<Labels>(&path)? else {
        return Ok(());
    };
    labels.refresh(network);
    Addresses::open(labels.map)?.replace(&labels.map())?;
    save(&path, &labels)
}

/// Returns true if a zone with a label runs in the calling thread's network namespace.
#[must_use]
pub fn are_there() -> bool {
    folder_here().is_ok_and(|folder| path(&folder).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str, prefix: u8) -> Subnet {
        Subnet {
            ip: text.parse().unwrap(),
            prefix,
        }
    }

    #[test]
    fn a_label_keeps_its_number_and_a_network_has_the_labels_of_all_zones() {
        let mut labels = Labels::default();
        assert_eq!(labels.number("0x0004").unwrap(), 1);
        assert_eq!(labels.number("0x0005").unwrap(), 2);
        assert_eq!(labels.number("0x0004").unwrap(), 1);
        let (near, far) = (subnet("192.0.2.0", 24), subnet("0.0.0.0", 0));
        labels.set_remotes(1, &[(near, true), (far, false)]);
        labels.set_remotes(2, &[(near, true), (far, true)]);
        labels.zones.push("192.0.2.9".parse().unwrap());
        let set = |labels: &Labels, ip: &str, prefix| {
            labels.map().get(&(ip.parse().unwrap(), prefix)).copied()
        };
        assert_eq!(set(&labels, "192.0.2.0", 24), Some(0b110));
        assert_eq!(set(&labels, "0.0.0.0", 0), Some(0b100));
        assert_eq!(set(&labels, "192.0.2.9", 32), Some(1));
        // The network lost the label, and another network has gone.
        labels.set_remotes(2, &[(near, false)]);
        assert_eq!(set(&labels, "192.0.2.0", 24), Some(0b010));
        assert_eq!(set(&labels, "0.0.0.0", 0), None);
    }

    #[test]
    fn every_label_gets_the_networks_of_the_templates_and_loses_the_former_ones() {
        let mut labels = Labels::default();
        let (low, high) = ("0x0001-08-00", "0x0004-08-60");
        for label in [low, high] {
            let number = labels.number(label).unwrap();
            labels.set_remotes(number, &[(subnet("192.0.2.0", 24), true)]);
        }
        let text = format!("template a def_label={high} host=10.0.0.0/8");
        labels.refresh(&Network::parse(&text, "tncfg".as_ref()).unwrap());
        let map: Vec<_> = labels.map().into_iter().collect();
        assert_eq!(map, [(("10.0.0.0".parse().unwrap(), 8), 0b100)]);
        labels.refresh(&Network::default());
        assert!(labels.map().is_empty());
    }

    /// Another zone with the next label would otherwise get the number of the zone that still runs.
    #[test]
    fn numbers_are_kept_while_a_zone_with_a_label_and_no_address_runs() {
        let dir = tempfile::tempdir().unwrap();
        let held = |name: &str, addresses: Vec<Subnet>| Held {
            name: name.to_owned(),
            addresses,
            label: Some(1),
            ..Held::default()
        };
        let records = ["web.json", "db.json"].map(|name| dir.path().join(name));
        let links = [
            held("net0", vec![subnet("192.0.2.9", 32)]),
            held("net1", Vec::new()),
        ];
        for (at, link) in records.iter().zip(&links) {
            let record = Record {
                links: vec![link.clone()],
                ..Record::default()
            };
            save(at, &record).unwrap();
        }
        let mut labels = Labels::default();
        labels.number("0x0004").unwrap();
        labels.zones.push("192.0.2.9".parse().unwrap());
        save(&path(dir.path()), &labels).unwrap();

        leave(dir.path(), &records, &records[0], &links[..1]).unwrap();
        let kept: Labels = read(&path(dir.path())).unwrap().unwrap();
        assert_eq!(kept.labels, ["0x0004"]);
        fs::remove_file(&records[0]).unwrap();
        leave(dir.path(), &records, &records[1], &links[1..]).unwrap();
        assert!(!path(dir.path()).exists());
    }

    #[test]
    fn refuses_more_labels_than_the_mark_has_numbers() {
        let mut labels = Labels::default();
        for number in 1..=MAX_NUMBER {
            assert_eq!(labels.number(&format!("0x{number:04x}")).unwrap(), number);
        }
        let error = labels.number("0xffff").unwrap_err().to_string();
        assert!(error.contains("halt all zones with labels"), "{error}");
    }
}
