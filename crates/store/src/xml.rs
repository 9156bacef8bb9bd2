//! Reads and writes configurations as XML files that follow the DTD of Solaris zones.
//!
//! The table defines the legal elements and attributes ([`model::table`]). A file may come from
//! another host. Therefore the size and depth of a file are limited, and only the five entities of
//! XML itself are allowed. An unknown element or attribute is an error that names it, because a
//! zone must not boot with a configuration that is only partly understood.

pub mod manifest;
mod read;
mod write;

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use model::{Config, ZoneName};

use crate::atomic::{self, Durability};
use crate::label_network as network;
use crate::{Damage, Error, Root};

pub use read::{parse, parse_any};
pub use write::render;

/// Maximum size of a configuration file, in bytes.
pub const MAX_SIZE: u64 = 4 << 20;

/// Reads the configuration of a zone.
///
/// # Errors
/// Fails with [`Error::NoSuchZone`] if the file does not exist, or with [`Error::Damaged`], which
/// names the line.
pub fn load(root: &Root, zone: &ZoneName) -> Result<Config, Error> {
    let path = root.xml(zone);
    match read_bounded(&path)? {
        Some(text) => parse(&text, &path, zone.as_str(), zone),
        None => Err(Error::NoSuchZone(zone.clone())),
    }
}

/// Returns the text of a zone's configuration, or `None` if the file does not exist.
///
/// # Errors
/// Fails with [`Error::File`].
pub(crate) fn text(root: &Root, zone: &ZoneName) -> Result<Option<String>, Error> {
    read_bounded(&root.xml(zone))
}

/// Reads the configuration with which an active zone runs.
///
/// # Errors
/// Fails with [`Error::NoSuchZone`] if the file does not exist, or with [`Error::Damaged`], which
/// names the line.
pub fn load_running(root: &Root, zone: &ZoneName) -> Result<Config, Error> {
    let path = root.running(zone);
    match read_bounded(&path)? {
        Some(text) => parse(&text, &path, zone.as_str(), zone),
        None => Err(Error::NoSuchZone(zone.clone())),
    }
}

/// Stores the configuration with which an active zone runs. The file of a running zone ends with
/// the next boot of the host, like the zone itself. Only root can read the file, because programs
/// of other users do not need it.
///
/// # Errors
/// Fails with [`Error::File`]. If the write fails, the old file stays.
pub fn save_running(root: &Root, config: &Config) -> Result<(), Error> {
    let path = root.running(config.name());
    let text = render(config);
    atomic::replace(&path, text.as_bytes(), 0o600, Durability::Volatile)
}

/// Stores the configuration of a zone, durably.
///
/// # Errors
/// Fails with [`Error::File`]. If the write fails, the old file stays.
pub fn save(root: &Root, config: &Config) -> Result<(), Error> {
    save_as(root, config, Durability::Stable)
}

/// Stores the configuration of a new zone. The configuration file becomes durable together with the
/// zone's entry in the index, which the caller must write next. A configuration file without an
/// entry in the index has no effect.
///
/// # Errors
/// Fails like [`save`].
pub fn save_before_index(root: &Root, config: &Config) -> Result<(), Error> {
    save_as(root, config, Durability::Content)
}

/// Stores the configuration of a new zone. [`settle`] makes the configuration files of several new
/// zones durable together.
///
/// # Errors
/// Fails like [`save`].
pub fn save_before_settle(root: &Root, config: &Config) -> Result<(), Error> {
    save_as(root, config, Durability::Volatile)
}

/// Makes the configurations of new zones as durable as [`save_before_index`] does, so the caller
/// must write the index next. For several zones, one sync of the file system suffices, which takes
/// as long as the sync of one file.
///
/// # Errors
/// Fails with [`Error::File`].
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

/// Removes the configuration of a zone that is no longer in the index, and its multilevel ports.
/// Returns the change of these ports, if the zone had any. A missing file is no error.
/// The removal is not durable, because a zone exists only if it is in the index. If the file
/// reappears after a power cut, the next zone of that name overwrites the file.
///
/// # Errors
/// Fails with [`Error::File`], or with the error of the file of multilevel ports.
pub fn remove(root: &Root, zone: &ZoneName) -> Result<Option<network::Change>, Error> {
    let ports = network::forget(root, zone)?;
    let path = root.xml(zone);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::file("remove", &path)(error))
        }
        _ => Ok(ports),
    }
}

/// Returns the content of a file, or `None` if the file does not exist.
pub(crate) fn read_bounded(path: &Path) -> Result<Option<String>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    // One read into this buffer is enough for most files.
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
