//! Carries out the changes of a running kernel zone's machine. zoneadmd has the connection to QEMU,
//! so zoneadmd changes the machine, and this process the record in the zonepath.

use super::change::Running;
use control::client;
use control::protocol::{Part, Request};
use host::Error;
use kernelzone::disk_size;

/// Grows a disk. The file is long enough before the record says so: a second attempt after a crash
/// finds the former size in the record, and grows the disk to the size that it has already.
pub(super) fn grow_disk(running: &Running, id: u32, size: u64) -> Result<(), Error> {
    change(running, Part::GrowDisk { id, size })?;
    disk_size::note(&running.zonepath, id, size)
}

fn change(running: &Running, part: Part) -> Result<(), Error> {
    let socket = client::connect_or_adopt(&running.host, &running.zone)?;
    client::ask(&socket, &Request::Part(part))?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}
