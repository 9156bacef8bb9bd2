//! Grows the disks of a kernel zone to the sizes of its configuration. A disk never shrinks: data of
//! the guest would be lost.
//!
//! A boot grows the disks of a halted zone. `zoneadm apply` and `zonecfg -r` grow those of a running
//! one. In both cases the file grows first and the record follows, so that a second attempt after a
//! crash completes the growth.

use std::path::{Path, PathBuf};

use model::Config;
use model::table::{exact_size, short_size};
use vm::Format;

use crate::disks::{self, Place, known};
use crate::record::Record;
use host::{Error, Host};

/// A disk with a configured size, as it is at present.
struct Present {
    place: Place,
    /// The configured size in bytes.
    wanted: u64,
    /// The size in bytes that the guest sees, or will see at its next boot.
    size: u64,
    format: Format,
    /// The file or device to which the guest writes.
    path: PathBuf,
    is_device: bool,
}

/// Returns the disks whose configuration sets a size. Missing disks are left out: another check
/// reports them, or the next boot makes them.
fn all(host: &Host, config: &Config, record: &Record, zonepath: &Path) -> Vec<Present> {
    let places = disks::places(host, config).into_iter();
    places
        .filter_map(|place| {
            let wanted = place.size?;
            let known = known(&place, record, zonepath);
            let file = known.and_then(|disk| disk.file.as_ref());
            let path = file.map_or_else(|| place.path.clone(), |name| zonepath.join(name));
            let format = known.map_or(Format::Raw, |disk| disk.format);
            let is_device = !std::fs::metadata(&path).ok()?.is_file();
            let length = disks::length(&path).ok()?;
            let size = match (format, known) {
                (Format::Qcow2, Some(disk)) => disk.size,
                _ => length,
            };
            (length > 0).then_some(Present {
                place,
                wanted,
                size,
                format,
                path,
                is_device,
            })
        })
        .collect()
}

/// Returns a problem for each configured size that a disk cannot get: a size below the present one,
/// or above the size of a block device, which only the host can grow.
///
/// # Errors
/// Fails as [`Record::load`] does.
pub fn problems(host: &Host, config: &Config, zonepath: &Path) -> Result<Vec<String>, Error> {
    let record = Record::load(zonepath)?;
    let all = all(host, config, &record, zonepath).into_iter();
    Ok(all.filter_map(|disk| why_not(&disk)).collect())
}

fn why_not(disk: &Present) -> Option<String> {
    let say = |why: String| {
        Some(format!(
            "could not verify device id={} size={}: {why}",
            disk.place.id,
            exact_size(disk.wanted)
        ))
    };
    if disk.is_device && disk.wanted > disk.size {
        return say(format!(
            "{} has {}: grow the device first",
            disk.path.display(),
            exact_size(disk.size)
        ));
    }
    if !disk.is_device && disk.wanted < disk.size {
        return say(format!(
            "the disk has {}, and a disk never shrinks: set this size or more, or clear size",
            exact_size(disk.size)
        ));
    }
    None
}

/// Grows the disks of a halted zone to their configured sizes. Returns a sentence for each disk that
/// has grown. A device of the host is already as large as it must be ([`problems`]).
///
/// # Errors
/// Fails with [`Error::Refused`] if a file cannot grow, and as [`Record::save`] does.
pub fn grow(host: &Host, config: &Config, zonepath: &Path) -> Result<Vec<String>, Error> {
    let record = Record::load(zonepath)?;
    let mut grown = Vec::new();
    for disk in all(host, config, &record, zonepath) {
        if disk.is_device || disk.wanted <= disk.size {
            continue;
        }
        let shown = disk.path.display().to_string();
        let file = disks::open(&disk.path, true).map_err(Error::io(format!("open {shown}")))?;
        // The first bytes of a raw disk belong to the guest and tell nothing about the format.
        match disk.format {
            Format::Raw => file
                .set_len(disk.wanted)
                .and_then(|()| file.sync_all())
                .map_err(Error::io(format!("grow {shown}")))?,
            Format::Qcow2 => vm::image::grow(&file, disk.wanted, &shown)
                .map_err(|error| Error::Refused(format!("{error}.")))?,
        }
        note(zonepath, disk.place.id, disk.wanted)?;
        grown.push(format!(
            "the disk {shown} has grown from {} to {}",
            short_size(disk.size),
            short_size(disk.wanted)
        ));
    }
    Ok(grown)
}

/// Records the new size of a disk.
///
/// # Errors
/// Fails as [`Record::load`] and [`Record::save`] do.
pub fn note(zonepath: &Path, id: u32, size: u64) -> Result<(), Error> {
    let mut record = Record::load(zonepath)?;
    let disk = record.disks.iter_mut().find(|disk| disk.id == id);
    match disk.filter(|disk| disk.size != size) {
        Some(disk) => disk.size = size,
        None => return Ok(()),
    }
    record.save(zonepath)
}

/// Returns a running configuration in which each disk has at most its present size: a resumed guest
/// still has the disks of the time before its suspend, and a change that was interrupted may have
/// grown no disk.
///
/// # Errors
/// Fails as [`Record::load`] does.
pub fn present(host: &Host, running: &Config, zonepath: &Path) -> Result<Config, Error> {
    let record = Record::load(zonepath)?;
    let mut config = running.clone();
    for disk in all(host, running, &record, zonepath) {
        if disk.is_device || disk.wanted <= disk.size {
            continue;
        }
        let id = disk.place.id.to_string();
        let found = running.resources_of("device");
        let found = found.filter(|one| one.get("id") == id).cloned();
        for old in found.collect::<Vec<_>>() {
            let mut new = old.clone();
            // The size of a disk is always a valid size, and the resource had its place before.
            let _ = new.set("size", &disk.size.to_string());
            config.remove(&old);
            let _ = config.add_stored(new);
        }
    }
    Ok(config)
}
