//! The remotes of a host: `/etc/zones/catalogues/NAME`, one text file for each.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use catalogue::remote::{FORMAT, MAX_FILE, is_name};
use catalogue::{Remote, Trust};
use host::{Error, Host};
use store::{atomic, format};

use super::chosen::refused;
use super::{cache, signature};

/// The folder of the configurations of remotes, relative to the alternate root.
pub(super) fn folder(host: &Host) -> PathBuf {
    host.root.etc().join("catalogues")
}

/// Returns all remotes, sorted by name.
///
/// # Errors
/// Fails if a file cannot be read, or with the first line of a file that is not valid.
pub fn list(host: &Host) -> Result<Vec<Remote>, Error> {
    let folder = folder(host);
    let fail = || Error::io(format!("read {}", host.root.shown(&folder).display()));
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(fail())?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(fail())?.file_name();
        // Other names are temporary files, or copies that an editor keeps.
        names.extend(name.into_string().ok().filter(|name| is_name(name)));
    }
    names.sort();
    names.iter().map(|name| read(host, name)).collect()
}

fn read(host: &Host, name: &str) -> Result<Remote, Error> {
    let path = folder(host).join(name);
    let shown = host.root.shown(&path).display().to_string();
    let mut text = String::new();
    let mut file = File::open(&path).map_err(Error::io(format!("read {shown}")))?;
    let read = Read::by_ref(&mut file)
        .take(MAX_FILE + 1)
        .read_to_string(&mut text);
    read.map_err(Error::io(format!("read {shown}")))?;
    if text.len() as u64 > MAX_FILE {
        return Err(refused(format!("{shown}: more than {MAX_FILE} bytes")));
    }
    format::check_lines(&path, &text, FORMAT)?;
    Remote::read(name, &text).map_err(|error| refused(format!("{shown}: {error}")))
}

/// Stores a new remote.
///
/// # Errors
/// Fails if a remote of this name exists, or if its keyring is not a keyring that only root can
/// change.
pub fn add(host: &Host, remote: &Remote) -> Result<(), Error> {
    if let Trust::Keyring(path) = &remote.trust {
        signature::check_keyring(path)?;
    }
    let path = folder(host).join(&remote.name);
    match atomic::create(&path, remote.text().as_bytes(), 0o644)? {
        true => Ok(()),
        false => Err(refused(format!(
            "{name}: a remote of this name exists; remove it first: zoneimg remote remove {name}",
            name = remote.name
        ))),
    }
}

/// Removes a remote and its cached catalogue. The images that came from it stay.
///
/// # Errors
/// Fails if there is no such remote, or if a file cannot be removed.
pub fn remove(host: &Host, name: &str) -> Result<(), Error> {
    let path = folder(host).join(name);
    if !is_name(name) || !path.is_file() {
        let known = list(host).unwrap_or_default();
        return Err(refused(unknown_of(name, &known)));
    }
    // The configuration is removed last, so that no cache is left without its remote.
    cache::remove(host, name)?;
    Ok(atomic::remove(&path)?)
}

/// Returns the names of remotes for a message.
pub(super) fn names(remotes: &[Remote]) -> String {
    let names: Vec<&str> = remotes.iter().map(|remote| remote.name.as_str()).collect();
    names.join(", ")
}

/// Returns the message for a name that is not the name of one of these remotes.
#[must_use]
pub fn unknown_of(name: &str, remotes: &[Remote]) -> String {
    let name = oci::shown(name);
    match names(remotes).as_str() {
        "" => format!("no remote {name} is configured, and no other; see zoneimg help remote"),
        known => format!("no remote {name} is configured; configured: {known}"),
    }
}
