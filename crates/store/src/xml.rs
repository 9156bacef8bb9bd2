//! Configurations as XML files in the shape of the Solaris zones DTD.
//!
//! The table defines which elements and attributes exist ([`model::table`]). A file may come from
//! another host, so its size and depth are bounded, entities other than the five of XML itself are
//! refused, and an unknown element or attribute is an error that names it: a zone must not boot
//! with a configuration that is only partly understood.

pub mod manifest;
mod read;
mod write;

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use model::{Config, ZoneName};

use crate::atomic::{self, Durability};
use crate::{Damage, Error, Root};

pub use read::{parse, parse_any};
pub use write::render;

/// Largest file that is read or written, in bytes.
pub const MAX_SIZE: u64 = 4 << 20;

/// Reads the configuration of a zone.
///
/// # Errors
/// [`Error::NoSuchZone`] when there is none; [`Error::Damaged`] names the line.
pub fn load(root: &Root, zone: &ZoneName) -> Result<Config, Error> {
    let path = root.xml(zone);
    match read_bounded(&path)? {
        Some(text) => parse(&text, &path, zone.as_str(), zone),
        None => Err(Error::NoSuchZone(zone.clone())),
    }
}

/// Reads the configuration that an active zone runs with.
///
/// # Errors
/// [`Error::NoSuchZone`] when none is known; [`Error::Damaged`] names the line.
pub fn load_running(root: &Root, zone: &ZoneName) -> Result<Config, Error> {
    let path = root.running(zone);
    match read_bounded(&path)? {
        Some(text) => parse(&text, &path, zone.as_str(), zone),
        None => Err(Error::NoSuchZone(zone.clone())),
    }
}

/// Stores the configuration that an active zone runs with; it is gone after a boot of the host, as
/// the zone is. For root only: no other program needs it.
///
/// # Errors
/// [`Error::File`]; the old file is then in place.
pub fn save_running(root: &Root, config: &Config) -> Result<(), Error> {
    let path = root.running(config.name());
    let text = render(config);
    atomic::replace(&path, text.as_bytes(), 0o600, Durability::Volatile)
}

/// Stores the configuration of its zone, durably.
///
/// # Errors
/// [`Error::File`]; the old file is then in place.
pub fn save(root: &Root, config: &Config) -> Result<(), Error> {
    save_as(root, config, Durability::Stable)
}

/// Stores the configuration of a new zone: it is durable once the zone's entry in
/// the index is, which must be written next. Without that entry it does not count.
///
/// # Errors
/// See [`save`].
pub fn save_before_index(root: &Root, config: &Config) -> Result<(), Error> {
    save_as(root, config, Durability::Content)
}

/// Stores the configuration of a new zone that [`settle`] makes durable, with others.
///
/// # Errors
/// See [`save`].
pub fn save_before_settle(root: &Root, config: &Config) -> Result<(), Error> {
    save_as(root, config, Durability::Volatile)
}

/// Makes the configurations of new zones durable, as far as [`save_before_index`] does:
/// the index must be written next. For several it is one sync of their file system,
/// which takes as long as that of one file.
///
/// # Errors
/// [`Error::File`].
pub fn settle(root: &Root, zones: &[&ZoneName]) -> Result<(), Error> {
    let Some(first) = zones.first() else {
        return Ok(());
    };
    let path = root.xml(first);
    let file = fs::File::open(&path).map_err(Error::file("open", &path))?;
    match zones.len() {
        1 => file.sync_all(),
        _ => rustix::fs::syncfs(&file).map_err(Into::into),
    }
    .map_err(Error::file("sync", &path))
}

fn save_as(root: &Root, config: &Config, durability: Durability) -> Result<(), Error> {
    let path = root.xml(config.name());
    let text = render(config);
    if text.len() as u64 > MAX_SIZE {
        let why = format!("the configuration would be larger than {MAX_SIZE} bytes");
        return Err(Error::file("write", &path)(std::io::Error::other(why)));
    }
    let mode = if config.has_secrets() { 0o600 } else { 0o644 };
    atomic::replace(&path, text.as_bytes(), mode, durability)
}

/// Removes the configuration of a zone that is in the index no more; that there is none is fine.
/// Not durable: a zone exists by its entry in the index, and the next zone of that name overwrites
/// a file that a power cut brings back.
///
/// # Errors
/// [`Error::File`].
pub fn remove(root: &Root, zone: &ZoneName) -> Result<(), Error> {
    let path = root.xml(zone);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::file("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// The content of a file; `None` when there is no such file.
pub(crate) fn read_bounded(path: &Path) -> Result<Option<String>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    // Most are read at once into this.
    let mut bytes = Vec::with_capacity(4096);
    file.take(MAX_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", path))?;
    let damaged = |reason| Error::Damaged {
        path: path.to_owned(),
        line: 1,
        reason: Box::new(reason),
    };
    if bytes.len() as u64 > MAX_SIZE {
        return Err(damaged(Damage::TooLarge { max: MAX_SIZE }));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| damaged(Damage::NotUtf8))
}

#[cfg(test)]
mod tests;
