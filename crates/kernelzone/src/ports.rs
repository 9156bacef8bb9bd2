//! The ports of a kernel zone's machine: places for disks and network cards that come and go while
//! the guest runs.
//!
//! The record in the zonepath keeps the port of each part, so that the guest finds the part in the
//! same place after a reboot. Parts without a port, such as those of zones that an earlier release
//! installed, keep their places on the machine's own bus, and stay until the guest ends.

use std::path::Path;

use model::Config;
use model::live::Places;
use vm::Format;
use vm::machine::{PORTS, Room};

use crate::disks::{self, Place, own_name};
use crate::image;
use crate::record::{self, Card, Record};
use host::{Error, Host};

/// Maximum number of a new zone's disks that get a port at the install. The other ports stay free
/// for later disks.
const MAX_FIRST: usize = PORTS as usize / 2;

/// Gives the disks of a new zone their ports. The first disk needs none, because the guest's system
/// is on it. Linux counts the disks on the machine's own bus before those in ports, so either all
/// further disks have a port, or none.
pub(crate) fn first(record: &mut Record) {
    let mut further: Vec<_> = record.disks.iter_mut().collect();
    further.sort_by_key(|disk| disk.id);
    if further.len() > MAX_FIRST + 1 {
        return;
    }
    for (disk, port) in further.into_iter().skip(1).zip(0..) {
        disk.port = Some(port);
    }
}

/// Gives the machine of a zone its ports and its room for more processors and memory before a cold
/// boot, if it has none yet, and ports to new network cards. The devices that the guest knows stay
/// where they are.
///
/// # Errors
/// Fails as [`Record::load`] and [`Record::save`] do.
pub fn adopt(config: &Config, zonepath: &Path) -> Result<(), Error> {
    let mut record = Record::load(zonepath)?;
    let before = record.clone();
    // The guest of a zone of an earlier release knows its cards already.
    let is_new = record.ports > 0 && record.boots == 0;
    record.ports = PORTS;
    record.room = record.room.or_else(room_of_host);
    let links: Vec<String> = config.anet_names().collect();
    adopt_cards(&mut record, links, is_new);
    match record == before {
        true => Ok(()),
        false => record.save(zonepath),
    }
}

/// Number of ports that stay free for later parts when a boot gives ports to network cards.
const SPARE: usize = 2;

/// Records the network cards of a machine, and gives ports to those that the guest does not know.
/// The first card of a new zone needs none. Linux counts the cards on the machine's own bus before
/// those in ports, so either all further cards of a new zone have a port, or none.
fn adopt_cards(record: &mut Record, links: Vec<String>, is_new: bool) {
    let known = record.cards.take();
    let is_first_boot = known.is_none();
    let known: Vec<Card> = known.unwrap_or_default();
    let (mut cards, mut further) = (Vec::new(), Vec::new());
    for link in links {
        match known.iter().find(|card| card.link == link) {
            Some(card) => cards.push(card.clone()),
            None if is_first_boot && (!is_new || cards.is_empty()) => {
                cards.push(Card { link, port: None });
            }
            None => further.push(link),
        }
    }
    record.cards = Some(cards);
    let used: Vec<u32> = record.used_ports().collect();
    let free: Vec<u32> = (0..record.ports)
        .filter(|port| !used.contains(port))
        .collect();
    let has_room = free.len() >= further.len() + SPARE;
    let ports = free.into_iter().map(|port| has_room.then_some(port));
    let ports = ports.chain(std::iter::repeat(None));
    let further = further.into_iter().zip(ports);
    let further = further.map(|(link, port)| Card { link, port });
    record.cards.get_or_insert_default().extend(further);
}

/// Maximum number of processors that a machine has room for. A larger number is configured and
/// needs a boot.
const MAX_ROOM_CPUS: u32 = 64;

/// Returns the processors and the memory of this host, in whole GiB. A machine with more would only
/// be slower.
fn room_of_host() -> Option<Room> {
    let cpus = std::thread::available_parallelism().ok()?.get();
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Room {
        cpus: u32::try_from(cpus).ok()?.min(MAX_ROOM_CPUS),
        memory: (kib << 10).next_multiple_of(1 << 30),
    })
}

/// Returns the disks and network cards of a configuration that can be removed while the guest runs,
/// the number of free ports, and the room for processors and memory. `init` is the pid of QEMU.
///
/// # Errors
/// Fails as [`Record::load`] does.
pub fn places(
    host: &Host,
    config: &Config,
    zonepath: &Path,
    init: Option<i32>,
) -> Result<Places, Error> {
    let record = Record::load(zonepath)?;
    let places = disks::places(host, config);
    let in_ports = places
        .iter()
        .filter(|place| port_of(&record, place).is_some());
    let removable: Vec<u32> = in_ports.map(|place| place.id).collect();
    let links = config.anet_names();
    let removable_cards: Vec<String> = links
        .filter(|link| record.card_port(link).is_some())
        .collect();
    let all = usize::try_from(record.ports).unwrap_or(0);
    // If the arguments of QEMU cannot be read, the processors and the memory stay as they are.
    let words = init.and_then(|pid| image::words_of(pid).ok());
    let most = words.and_then(|words| vm::more::room(words.iter().map(String::as_str)));
    Ok(Places {
        free: all.saturating_sub(removable.len() + removable_cards.len()),
        removable,
        removable_cards,
        most_cpus: most.map_or(0, |room| room.cpus),
        most_memory: most.map_or(0, |room| room.memory),
    })
}

fn port_of(record: &Record, place: &Place) -> Option<u32> {
    record.disk(place.id)?.port
}

/// Records a port for a disk of the configuration that has none, and takes the ports of disks that
/// are no longer configured.
///
/// # Errors
/// Fails with [`Error::Refused`] if no port is free, and as [`Record::save`] does.
pub fn take(host: &Host, config: &Config, zonepath: &Path, id: u32) -> Result<(), Error> {
    let mut record = Record::load(zonepath)?;
    let places = disks::places(host, config);
    let Some(place) = places.iter().find(|place| place.id == id) else {
        return Err(Error::Refused(format!("has no disk {id}.")));
    };
    if port_of(&record, place).is_some() {
        return Ok(());
    }
    let free = free_port(&mut record, &places, config);
    let port = Some(free.ok_or_else(|| Error::Refused("has no free port for a disk.".to_owned()))?);
    let file = own_name(place, zonepath);
    // The record of a disk that was moved into or out of the zonepath is of another file.
    record
        .disks
        .retain(|disk| disk.id != id || disk.file.is_some() == file.is_some());
    match record.disks.iter_mut().find(|disk| disk.id == id) {
        Some(disk) => disk.port = port,
        None => record.disks.push(record::Disk {
            id,
            size: disks::length(&place.path)
                .map_err(Error::io(format!("open {}", place.path.display())))?,
            file,
            format: Format::Raw,
            bases: Vec::new(),
            port,
        }),
    }
    record.save(zonepath)
}

/// Takes the ports of parts that are no longer configured, and returns the first free port.
fn free_port(record: &mut Record, places: &[Place], config: &Config) -> Option<u32> {
    for disk in &mut record.disks {
        if places.iter().all(|place| place.id != disk.id) {
            disk.port = None;
        }
    }
    let links: Vec<String> = config.anet_names().collect();
    if let Some(cards) = &mut record.cards {
        cards.retain(|card| links.contains(&card.link));
    }
    let used: Vec<u32> = record.used_ports().collect();
    (0..record.ports).find(|port| !used.contains(port))
}

/// Records a port for a network card of the configuration that has none, and takes the ports of parts
/// that are no longer configured. Returns the port of the card.
///
/// # Errors
/// Fails with [`Error::Refused`] if no port is free, and as [`Record::save`] does.
pub fn take_card(host: &Host, config: &Config, zonepath: &Path, link: &str) -> Result<u32, Error> {
    let mut record = Record::load(zonepath)?;
    if let Some(port) = record.card_port(link) {
        return Ok(port);
    }
    let free = free_port(&mut record, &disks::places(host, config), config);
    let port =
        free.ok_or_else(|| Error::Refused("has no free port for a network card.".to_owned()))?;
    let cards = record.cards.get_or_insert_default();
    cards.retain(|card| card.link != link);
    cards.push(Card {
        link: link.to_owned(),
        port: Some(port),
    });
    record.save(zonepath)?;
    Ok(port)
}

/// Returns the port of the network card on a link; `None` if the card has no port.
///
/// # Errors
/// Fails as [`Record::load`] does.
pub fn of_card(zonepath: &Path, link: &str) -> Result<Option<u32>, Error> {
    Ok(Record::load(zonepath)?.card_port(link))
}

/// Makes the port of a removed network card free.
///
/// # Errors
/// Fails as [`Record::load`] and [`Record::save`] do.
pub fn give_back_card(zonepath: &Path, link: &str) -> Result<(), Error> {
    let mut record = Record::load(zonepath)?;
    let Some(cards) = &mut record.cards else {
        return Ok(());
    };
    let before = cards.len();
    cards.retain(|card| card.link != link);
    match cards.len() == before {
        true => Ok(()),
        false => record.save(zonepath),
    }
}

/// Makes the port of a removed disk free.
///
/// # Errors
/// Fails as [`Record::load`] and [`Record::save`] do.
pub fn give_back(zonepath: &Path, id: u32) -> Result<(), Error> {
    let mut record = Record::load(zonepath)?;
    let disk = record.disks.iter_mut().find(|disk| disk.id == id);
    match disk.and_then(|disk| disk.port.take()) {
        Some(_) => record.save(zonepath),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use store::Root;
    use vm::Model;

    use super::*;
    use crate::record::Start;

    fn record(ids: &[u32], ports: u32) -> Record {
        let disk = |id: &u32| record::Disk {
            id: *id,
            size: 1 << 20,
            file: Some(format!("disk{id}")),
            format: Format::Raw,
            bases: Vec::new(),
            port: None,
        };
        Record {
            model: Model {
                qemu: "7.2.22".to_owned(),
                machine: "pc-q35-7.2".to_owned(),
                cpu: "max".to_owned(),
            },
            start: Start::Firmware,
            disks: ids.iter().map(disk).collect(),
            nvram: None,
            ports,
            room: None,
            cards: None,
            boots: 0,
        }
    }

    fn ports(record: &Record) -> Vec<(u32, Option<u32>)> {
        record
            .disks
            .iter()
            .map(|disk| (disk.id, disk.port))
            .collect()
    }

    #[test]
    fn the_first_disk_of_a_new_zone_stays_on_the_bus() {
        let mut few = record(&[2, 0, 1], PORTS);
        first(&mut few);
        assert_eq!(ports(&few), [(2, Some(1)), (0, None), (1, Some(0))]);
        let mut many = record(&[0, 1, 2, 3, 4, 5], PORTS);
        first(&mut many);
        assert!(many.disks.iter().all(|disk| disk.port.is_none()));
    }

    /// Returns a host below `dir`, and the configuration and the zonepath of a kernel zone on it.
    fn kernel_zone(dir: &Path) -> (Host, Config, PathBuf) {
        let host = Host::new(Root::new(dir), "/none".into(), None);
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "kz").unwrap();
        config.set_zonepath("/k1").unwrap();
        let zonepath = host.root.path(Path::new("/k1"));
        std::fs::create_dir(&zonepath).unwrap();
        (host, config, zonepath)
    }

    #[test]
    fn a_port_is_taken_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let (host, mut config, zonepath) = kernel_zone(dir.path());
        let mut add = |id: &str| {
            let mut one = model::config::Resource::new(model::table::resource("device").unwrap());
            one.set("id", id).unwrap();
            one.set("storage", &format!("file:///k1/disk{id}")).unwrap();
            config.add(one).unwrap();
            config.clone()
        };
        let _ = add("0");
        let config = add("1");
        std::fs::write(zonepath.join("disk1"), [0; 512]).unwrap();
        // Disk 7 is no longer configured, and its port can be taken.
        let mut old = record(&[0, 7], 1);
        old.disks[1].port = Some(0);
        old.save(&zonepath).unwrap();
        assert_eq!(places(&host, &config, &zonepath, None).unwrap().free, 1);
        take(&host, &config, &zonepath, 1).unwrap();
        take(&host, &config, &zonepath, 1).unwrap();
        let now = Record::load(&zonepath).unwrap();
        assert_eq!(ports(&now), [(0, None), (7, None), (1, Some(0))]);
        let found = places(&host, &config, &zonepath, None).unwrap();
        assert_eq!((found.free, found.removable), (0, vec![1]));
        let full = take(&host, &config, &zonepath, 0).unwrap_err().to_string();
        assert!(full.contains("no free port"), "{full}");
        give_back(&zonepath, 1).unwrap();
        assert_eq!(places(&host, &config, &zonepath, None).unwrap().free, 1);
    }

    /// Returns the ports of the cards of a record after a cold boot with these links.
    fn booted(record: &mut Record, links: &[&str], is_new: bool) -> Vec<Option<u32>> {
        let names = links.iter().map(|&link| link.to_owned()).collect();
        adopt_cards(record, names, is_new);
        assert_eq!(record.cards.as_ref().map_or(0, Vec::len), links.len());
        links.iter().map(|link| record.card_port(link)).collect()
    }

    #[test]
    fn network_cards_get_ports_and_keep_them() {
        let mut new = record(&[0, 1], PORTS);
        new.disks[1].port = Some(0);
        let first = booted(&mut new, &["net0", "net1", "net2"], true);
        assert_eq!(first, [None, Some(1), Some(2)]);
        let same = booted(&mut new, &["net0", "net2"], false);
        assert_eq!(same, [None, Some(2)]);
        let later = booted(&mut new, &["net0", "net2", "net3"], false);
        assert_eq!(later, [None, Some(2), Some(1)]);
        // The guest of an earlier release finds its cards where they were.
        let mut old = record(&[0], PORTS);
        assert_eq!(booted(&mut old, &["net0", "net1"], false), [None, None]);
        assert_eq!(
            booted(&mut old, &["net0", "net1", "net2"], false),
            [None, None, Some(0)]
        );
        // If not all cards get a port, none gets one.
        let mut full = record(&[0], 3);
        let links = ["net0", "net1", "net2", "net3"];
        assert_eq!(booted(&mut full, &links, true), [None; 4]);
    }

    #[test]
    fn the_port_of_a_network_card_is_taken_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let (host, mut config, zonepath) = kernel_zone(dir.path());
        let mut anet = model::config::Resource::new(model::table::resource("anet").unwrap());
        anet.set("linkname", "net7").unwrap();
        config.add(anet).unwrap();
        let mut stored = record(&[], 1);
        // The link net3 is no longer configured, and its port can be taken.
        stored.cards = Some(vec![Card {
            link: "net3".to_owned(),
            port: Some(0),
        }]);
        stored.save(&zonepath).unwrap();
        let free = || places(&host, &config, &zonepath, None).unwrap();
        assert_eq!((free().free, free().removable_cards), (1, vec![]));
        for _ in 0..2 {
            assert_eq!(take_card(&host, &config, &zonepath, "net7").unwrap(), 0);
        }
        assert_eq!(of_card(&zonepath, "net7").unwrap(), Some(0));
        assert_eq!(
            (free().free, free().removable_cards),
            (0, vec!["net7".to_owned()])
        );
        let full = take_card(&host, &config, &zonepath, "net8").unwrap_err();
        assert!(full.to_string().contains("no free port"), "{full}");
        give_back_card(&zonepath, "net7").unwrap();
        assert_eq!(of_card(&zonepath, "net7").unwrap(), None);
        assert_eq!(free().free, 1);
    }

    #[test]
    fn a_zone_of_an_earlier_release_gets_ports_at_a_cold_boot() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = record(&[0, 1], 0);
        old.save(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join(record::FILE)).unwrap();
        assert!(!text.contains("port"), "{text}");
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "kz").unwrap();
        adopt(&config, dir.path()).unwrap();
        old.ports = PORTS;
        old.cards = Some(Vec::new());
        let now = Record::load(dir.path()).unwrap();
        let room = now.room.unwrap();
        assert!(room.cpus > 0 && room.memory >= 1 << 30);
        old.room = Some(room);
        assert_eq!(now, old);
        old.disks[1].port = Some(PORTS);
        assert!(old.check().is_err());
    }
}
