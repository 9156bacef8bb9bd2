//! The cached catalogues: `/var/lib/zones/catalogues/NAME`, one JSON file for each remote.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use catalogue::{Product, Remote};
use host::{Error, Host};
use serde::{Deserialize, Serialize};
use store::format::Stored;
use store::{atomic, format};

use super::chosen::refused;

/// Newest format of the file.
const FORMAT: u64 = 1;

/// Maximum size of the file, in bytes: that of all documents of one catalogue.
const MAX_FILE: u64 = 128 << 20;

/// The last catalogue that was taken from a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// The address and the trust of the remote. With another address or trust the cache is void.
    pub origin: String,
    /// The time of the download, in seconds since 1970.
    pub fetched: u64,
    /// The time that each document states, in seconds since 1970, by its path: of its signature, or
    /// its field `updated`.
    pub documents: BTreeMap<String, u64>,
    /// The products of all documents.
    pub products: Vec<Product>,
}

/// Returns the folder of the cached catalogues.
pub(super) fn folder(host: &Host) -> PathBuf {
    host.root.lib().join("catalogues")
}

/// Returns the origin of catalogues of a remote.
pub(super) fn origin(remote: &Remote) -> String {
    format!("{} {}", remote.protocol.url(), remote.trust)
}

/// Returns the cached catalogue of a remote; `None` if there is none from the same address with the
/// same trust.
pub(super) fn load(host: &Host, remote: &Remote) -> Result<Option<Cached>, Error> {
    let path = folder(host).join(&remote.name);
    let shown = host.root.shown(&path).display().to_string();
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io(format!("read {shown}")))?,
    };
    let mut text = Vec::new();
    let read = file.take(MAX_FILE).read_to_end(&mut text);
    read.map_err(Error::io(format!("read {shown}")))?;
    format::check_json(&path, &text, FORMAT)?;
    let cached: Cached = serde_json::from_slice(&text).map_err(|_| {
        refused(format!(
            "{shown}: damaged; zoneimg refresh --allow-older {} makes it again",
            remote.name
        ))
    })?;
    Ok(Some(cached).filter(|cached| cached.origin == origin(remote)))
}

/// Stores the catalogue of a remote.
pub(super) fn save(host: &Host, remote: &Remote, cached: &Cached) -> Result<(), Error> {
    let stored = Stored {
        format: FORMAT,
        content: cached,
    };
    let text = serde_json::to_vec(&stored).map_err(|error| refused(error.to_string()))?;
    let path = folder(host).join(&remote.name);
    Ok(atomic::write(&path, &text, 0o600)?)
}

/// Removes the cached catalogue of a remote.
pub(super) fn remove(host: &Host, name: &str) -> Result<(), Error> {
    Ok(atomic::remove(&folder(host).join(name))?)
}

/// Returns the time now, in seconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
