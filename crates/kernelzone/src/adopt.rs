//! Gives this host a kernel zone whose disks are all on shared storage, after the host that had the
//! zone is off.
//!
//! Everything of such a zone that is in its zonepath can be made anew: the record of the machine and
//! the variables of the firmware. All disks must be files. QEMU locks a file, so a host that comes
//! back cannot start the zone while it runs here; a block device has no such lock.

use std::fs::{self, File};
use std::path::Path;

use model::Config;
use vm::Model;

use crate::disks::{self, Place, is_own};
use crate::record::{Record, Start};
use crate::{facts, install, loader, ports, uefi};
use host::{Error, Host, flatten};

/// Returns true if all disks of a kernel zone are files outside the zonepath.
#[must_use]
pub fn is_elsewhere(host: &Host, config: &Config, zonepath: &Path) -> bool {
    let places = disks::places(host, config);
    let is_file = |place: &Place| {
        let meta = fs::symlink_metadata(&place.path);
        !is_own(place, zonepath) && meta.is_ok_and(|meta| meta.is_file())
    };
    !places.is_empty() && places.iter().all(is_file)
}

/// Writes a new record of the zone into its zonepath. The disks are not changed.
///
/// # Errors
/// Fails with [`Error::Refused`] if the record cannot be made.
pub fn make_record(host: &Host, config: &Config, zonepath: &Path) -> Result<(), Error> {
    let places = disks::places(host, config);
    let qemu = facts::qemu(host).map_err(|error| refused(&error))?;
    let model = Model::of_version(&qemu.version);
    let measured = places
        .iter()
        .map(|place| install::further(place, zonepath))
        .collect::<Result<Vec<_>, _>>();
    let nvram = match needs_uefi(config, &places) {
        true => Some(uefi::make(config, &model, zonepath).map_err(|error| refused(&error))?),
        false => None,
    };
    let mut record = Record {
        model,
        start: Start::Firmware,
        disks: measured.map_err(|error| refused(&*error))?,
        nvram,
        ports: vm::machine::PORTS,
        room: None,
        cards: None,
        boots: 0,
    };
    ports::first(&mut record);
    record.save(zonepath)
}

/// Returns true if the first disk starts with UEFI firmware only, or verified boot wants it.
fn needs_uefi(config: &Config, places: &[Place]) -> bool {
    let first = places.iter().min_by_key(|place| place.order());
    let ways = first
        .and_then(|place| File::open(&place.path).ok())
        .and_then(|file| loader::ways(&file).ok());
    config.verified_boot().is_some_and(|one| one.enforced)
        || ways.is_some_and(|ways| ways.uefi && !ways.bios)
}

fn refused(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Refused(format!("{}.", flatten(error)))
}
