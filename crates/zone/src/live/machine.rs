//! Carries out the changes of a running kernel zone's machine. zoneadmd has the connection to QEMU,
//! so zoneadmd changes the machine, and this process the record in the zonepath.

use super::change::Running;
use crate::live::{Tell, Told};
use control::client;
use control::protocol::{Part, Request};
use host::{Error, flatten};
use kernelzone::disks::{self, Added, Files};
use kernelzone::record::Record;
use kernelzone::{disk_size, login, ports};
use model::Config;
use model::plan::MachineFile;

/// Grows a disk. The file is long enough before the record says so: a second attempt after a crash
/// finds the former size in the record, and grows the disk to the size that it has already.
pub(super) fn grow_disk(running: &Running, id: u32, size: u64) -> Result<(), Error> {
    change(running, Part::GrowDisk { id, size })?;
    disk_size::note(&running.zonepath, id, size)
}

/// Adds a disk of the configuration. A disk in the zonepath that does not exist is made. The record
/// has the port of the disk before the machine has the disk, so that a second attempt after a crash
/// takes the same port.
/// Returns a sentence for each file that was made.
pub(super) fn add_disk(running: &Running, config: &Config, id: u32) -> Result<Vec<String>, Error> {
    let (host, zonepath) = (&running.host, running.zonepath.as_path());
    let made = disks::make_added(host, config, zonepath)?;
    ports::take(host, config, zonepath, id)?;
    let mut places = disks::places(host, config);
    places.retain(|place| place.id == id);
    let record = Record::load(zonepath)?;
    let files = disks::files(&places, &record, zonepath, Added::Refused)?;
    for Files { disk, paths } in files {
        let parts = disk.parts.iter().zip(paths).enumerate();
        let files = parts.map(|(place, (part, path))| MachineFile {
            path,
            read_only: place > 0,
            direct: part.direct,
        });
        let files = files.collect();
        let disk = Box::new(disk);
        change(running, Part::AddDisk { disk, files })?;
    }
    Ok(made)
}

/// Removes a disk. Its port is free after the guest has released the disk.
pub(super) fn remove_disk(running: &Running, id: u32) -> Result<(), Error> {
    change(running, Part::RemoveDisk(id))?;
    ports::give_back(&running.zonepath, id)
}

/// Makes the link of a network card, and adds the card to the machine. The record has the port of the
/// card before the machine has the card, so that a second attempt after a crash takes the same port.
pub(super) fn add_card(
    running: &mut Running,
    after: &Config,
    link: &str,
    tell: Tell<'_>,
) -> Result<(), Error> {
    let links = running.change_links(after, tell)?;
    let mac = links.iter().find(|one| one.name == link);
    let mac = mac.and_then(|one| one.mac).ok_or_else(|| {
        Error::Refused(format!("link {link} has no Ethernet address for a card."))
    })?;
    let port = ports::take_card(&running.host, after, &running.zonepath, link)?;
    let card = vm::Nic {
        mac: mac.to_string(),
        port: Some(port),
    };
    let link = link.to_owned();
    change(running, Part::AddCard { card, link })
}

/// Removes a network card, and its link. The port is free after the guest has released the card.
pub(super) fn remove_card(
    running: &mut Running,
    after: &Config,
    link: &str,
    tell: Tell<'_>,
) -> Result<(), Error> {
    if let Some(port) = ports::of_card(&running.zonepath, link)? {
        change(running, Part::RemoveCard(port))?;
    }
    let _ = running.change_links(after, tell)?;
    ports::give_back_card(&running.zonepath, link)
}

/// Adds processors until the machine has this number.
pub(super) fn processors(running: &Running, number: u32) -> Result<(), Error> {
    change(running, Part::Processors(number))
}

/// Changes the size of the memory.
pub(super) fn memory(running: &Running, bytes: u64) -> Result<(), Error> {
    change(running, Part::Memory(bytes))
}

/// Makes the guest use new processors and memory. A guest without an agent is told to the user,
/// because its administrator must do it there.
pub(super) fn switch_on(running: &Running, tell: Tell<'_>) {
    if let Err(why) = login::run_script(&running.host, &running.zone, vm::more::SWITCH_ON) {
        tell(Told::Warning(format!(
            "the guest was not told to use its new processors and memory ({}): switch them on in the guest",
            flatten(&why)
        )));
    }
}

fn change(running: &Running, part: Part) -> Result<(), Error> {
    let socket = client::connect_or_adopt(&running.host, &running.zone)?;
    client::ask(&socket, &Request::Part(part))?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}
