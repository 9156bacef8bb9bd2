//! The owner of a zonepath: the host that last installed or attached the zone. The file that says
//! so, see [`store::identity`], is in the zonepath, so hosts that mount the same storage read the
//! same owner. Every other host refuses to use the zonepath.
//!
//! A command that changes the owner, or removes the root, holds a lock on a file in the zonepath.
//! NFS and file systems of clusters know the locks of all hosts. The owner is read again under the
//! lock.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{Config, State, Uuid};
use store::atomic::{self, Durability};
use store::identity::Configuration;
pub use store::identity::{FILE, Identity};
use store::index::Entry;
use store::{Root, xml};

use host::Error;
use host::uuid::new_uuid;

/// The file in the zonepath that is locked while its owner changes.
pub const LOCK: &str = ".owner-lock";

/// Timeout for the lock on [`LOCK`]. It is held for a few writes, or while a root is removed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes that are read of the file with the host's id.
const MAX_HOST_ID: u64 = 256;

/// Another host that owns a zonepath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    name: String,
    since: Option<u64>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.since {
            Some(since) => write!(f, " since {}", control::log::timestamp(since)),
            None => Ok(()),
        }
    }
}

/// The identity file of a zonepath, read once, and the id of the host that read it.
#[derive(Debug)]
pub(crate) struct Known {
    file: Identity,
    here: Option<Uuid>,
}

impl Known {
    /// Reads the file and the host's id.
    ///
    /// # Errors
    /// Fails with [`store::Error::Newer`] if a newer program wrote the file.
    pub(crate) fn of(root: &Root, zonepath: &Path) -> Result<Self, Error> {
        let file = store::identity::read(zonepath)?;
        // The host's id is read only if the file names an owner: a host need not have an id.
        let here = file.owner.and_then(|_| known_host_id(&root.host_id()));
        Ok(Self { file, here })
    }

    /// See [`other_owner`].
    pub(crate) fn other_owner(&self) -> Option<Owner> {
        let owner = self.file.owner.filter(|owner| self.here != Some(*owner))?;
        let name = self.file.host.clone();
        Some(Owner {
            name: name.unwrap_or_else(|| owner.to_string()),
            since: self.file.since,
        })
    }

    /// Returns the owner that keeps this host from attaching the zone. Programs that wrote format 1
    /// left their host as the owner at a detach; the manifest tells that the zone is detached.
    pub(crate) fn owner_against_attach(&self, zonepath: &Path) -> Option<Owner> {
        let is_detached = !self.file.is_current() && zonepath.join(crate::DETACHED).exists();
        self.other_owner().filter(|_| !is_detached)
    }

    /// Returns the name of the host that used the zonepath last.
    pub(crate) fn last_host(&self) -> Option<&str> {
        self.file.host.as_deref()
    }

    /// Returns whether the file says that this host owns the zone with this uuid.
    pub(crate) fn is_of(&self, uuid: Uuid) -> bool {
        let file = &self.file;
        file.is_current()
            && file.uuid == Some(uuid)
            && file.owner.is_some()
            && file.owner == self.here
            && file.host == host_name()
    }
}

/// The lock on a zonepath that other hosts may have mounted, until this value is dropped.
#[derive(Debug)]
pub struct Hold {
    _file: Option<File>,
}

/// Locks a zonepath against other hosts that change its owner.
///
/// # Errors
/// Fails with [`Error::Refused`] if another host holds the lock.
pub fn hold(zonepath: &Path) -> Result<Hold, Error> {
    if !zonepath.is_dir() {
        return Ok(Hold { _file: None });
    }
    let path = zonepath.join(LOCK);
    match store::lock::exclusive_within(&path, LOCK_TIMEOUT)? {
        Some(file) => Ok(Hold { _file: Some(file) }),
        None => Err(Error::Refused(format!(
            "another host changes the owner of the zonepath, or died meanwhile: {} is locked: try again; storage releases the lock of a dead host after some time.",
            path.display()
        ))),
    }
}

/// As [`hold`], but only if the owner of the zonepath has changed before: a zonepath that always
/// had the same owner has no file for the lock.
///
/// # Errors
/// See [`hold`].
pub fn hold_if_shared(zonepath: &Path) -> Result<Hold, Error> {
    match zonepath.join(LOCK).exists() {
        true => hold(zonepath),
        false => Ok(Hold { _file: None }),
    }
}

/// Refuses to use a zonepath that another host owns. The caller holds its lock.
///
/// # Errors
/// Fails with [`Error::Owner`].
pub fn refuse_other(root: &Root, entry: &Entry, zonepath: &Path) -> Result<(), Error> {
    match Known::of(root, zonepath)?.other_owner() {
        Some(owner) => Err(Error::Owner(root_of_other(entry, &owner))),
        None => Ok(()),
    }
}

/// The rule by which [`claim`] treats a zonepath that another host owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The zonepath stays with its owner.
    Free,
    /// This host becomes the owner: the administrator says that the other host no longer uses it.
    TakeOver,
}

/// The file of a zonepath before [`claim`] or [`release`] changed it.
#[derive(Debug)]
#[must_use]
pub struct Former {
    path: PathBuf,
    before: Option<Identity>,
}

impl Former {
    /// Writes the former file again, after an error of a later step.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn restore(self) -> Result<(), Error> {
        let Some(before) = self.before else {
            return Ok(());
        };
        let _hold = self.path.parent().map(hold).transpose()?;
        match before.format {
            0 => Ok(atomic::remove(&self.path)?),
            _ => put(&self.path, &before, Durability::Stable),
        }
    }
}

/// Makes this host the owner of the zonepath of a zone that is being attached.
///
/// # Errors
/// Fails with [`Error::Owner`] if another host owns the zonepath, unless the claim is
/// [`Claim::TakeOver`].
pub fn claim(
    root: &Root,
    entry: &Entry,
    zonepath: &Path,
    uuid: Uuid,
    claim: Claim,
) -> Result<Former, Error> {
    let here = host_id(root)?;
    let _hold = hold(zonepath)?;
    let known = Known::of(root, zonepath)?;
    match known.owner_against_attach(zonepath) {
        Some(owner) if claim == Claim::Free => {
            return Err(Error::Owner(root_of_other(entry, &owner)));
        }
        _ => {}
    }
    let path = zonepath.join(FILE);
    if known.is_of(uuid) {
        return Ok(Former { path, before: None });
    }
    put(
        &path,
        &owned_by(&known.file, here, uuid),
        Durability::Stable,
    )?;
    Ok(Former {
        path,
        before: Some(known.file),
    })
}

/// Stores that no host owns the zonepath, so that every host may attach its zone.
///
/// # Errors
/// Fails with [`Error::Owner`] if another host owns the zonepath.
pub fn release(root: &Root, entry: &Entry, zonepath: &Path) -> Result<Former, Error> {
    let _hold = hold(zonepath)?;
    refuse_other(root, entry, zonepath)?;
    let before = store::identity::read(zonepath)?;
    let path = zonepath.join(FILE);
    let free = Identity {
        uuid: before.uuid.or(entry.uuid),
        slot: entry.slot,
        owner: None,
        since: Some(now()),
        host: host_name(),
        ..before.clone()
    };
    put(&path, &free, Durability::Stable)?;
    Ok(Former {
        path,
        before: Some(before),
    })
}

/// Returns the identity of a zone whose zonepath this host owns from now on.
fn owned_by(before: &Identity, here: Uuid, uuid: Uuid) -> Identity {
    let is_new = before.owner != Some(here) || before.since.is_none();
    Identity {
        uuid: Some(uuid),
        host: host_name(),
        owner: Some(here),
        generation: before.generation.saturating_add(u64::from(is_new)),
        since: before.since.filter(|_| !is_new).or_else(|| Some(now())),
        ..before.clone()
    }
}

/// Writes the file for a zone that this host has installed. If a power cut loses the file, the next
/// boot of the zone writes it again.
///
/// # Errors
/// Fails if the file cannot be written, and with [`Error::Owner`] if another host has become the
/// owner.
pub fn write(root: &Root, entry: &Entry, zonepath: &Path, uuid: Uuid) -> Result<(), Error> {
    if !zonepath.is_dir() || Known::of(root, zonepath)?.is_of(uuid) {
        return Ok(());
    }
    let here = host_id(root)?;
    let _hold = hold_if_shared(zonepath)?;
    refuse_other(root, entry, zonepath)?;
    let before = store::identity::read(zonepath)?;
    let after = owned_by(&before, here, uuid);
    put(&zonepath.join(FILE), &after, Durability::Volatile)
}

/// Stores the configuration with which a zone of this host boots, if it is not the stored one. The
/// caller holds the lock of the zonepath. Nothing is written if nothing has changed.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn store_configuration(entry: &Entry, zonepath: &Path, config: &Config) -> Result<(), Error> {
    let before = store::identity::read(zonepath)?;
    let text = xml::render(config);
    let stored = before.configuration.as_ref();
    if before.slot == entry.slot && stored.is_some_and(|stored| stored.text == text) {
        return Ok(());
    }
    let generation = stored.map_or(0, |stored| stored.generation);
    let is_new = stored.is_none_or(|stored| stored.text != text);
    let after = Identity {
        slot: entry.slot,
        configuration: Some(Configuration {
            generation: generation.saturating_add(u64::from(is_new)),
            text,
        }),
        ..before
    };
    put(&zonepath.join(FILE), &after, Durability::Volatile)
}

/// Returns a warning if a zone that comes from another host ran there with another configuration.
#[must_use]
pub fn other_configuration(entry: &Entry, file: &Identity, config: &Config) -> Option<String> {
    let stored = file.configuration.as_ref()?;
    if stored.text == xml::render(config) {
        return None;
    }
    Some(format!(
        "WARNING: the configuration of zone {0} is not the one with which host {1} booted it (generation {2}). 'zonecfg create -a {3}' reads that one.",
        entry.name,
        file.host.as_deref().unwrap_or("unknown"),
        stored.generation,
        entry.zonepath.display()
    ))
}

/// Turns the mark of a complete clone into the identity file, by a rename in its zonepath: this
/// creates one file less than [`write()`] does. The mark is gone afterwards in any case.
pub fn write_over_mark(root: &Root, zonepath: &Path, mark: &str, uuid: Uuid) {
    let mark = zonepath.join(mark);
    let written = || -> Result<(), Error> {
        let text = owned_by(&Identity::default(), host_id(root)?, uuid).text();
        let shown = mark.display();
        sys::crash::point();
        std::fs::write(&mark, text).map_err(Error::io(format!("write {shown}")))?;
        sys::crash::point();
        let file = zonepath.join(FILE);
        std::fs::rename(&mark, file).map_err(Error::io(format!("rename {shown}")))
    };
    // Both are tried again by each later command that looks at the zone.
    if written().is_err() {
        let _ = std::fs::remove_file(&mark);
    }
}

fn put(path: &Path, identity: &Identity, durability: Durability) -> Result<(), Error> {
    let text = identity.text();
    Ok(atomic::replace(path, text.as_bytes(), 0o600, durability)?)
}

fn host_name() -> Option<String> {
    let host = rustix::system::uname();
    store::identity::plain_name(&host.nodename().to_string_lossy())
}

/// Returns the present time in seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Returns the id of this host, and creates it when it is first needed. The id belongs to the
/// index: both are in /etc/zones, so that the host's name and machine-id may change.
fn host_id(root: &Root) -> Result<Uuid, Error> {
    let path = root.host_id();
    if let Some(known) = known_host_id(&path) {
        return Ok(known);
    }
    let made = format!("{}\n", new_uuid()?);
    // Another command may have created it at the same time.
    atomic::create(&path, made.as_bytes(), 0o644)?;
    known_host_id(&path)
        .ok_or_else(|| Error::Refused(format!("{}: expected a uuid", path.display())))
}

fn known_host_id(path: &Path) -> Option<Uuid> {
    let mut text = String::with_capacity(64);
    let file = File::open(path).ok()?;
    file.take(MAX_HOST_ID).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns the other host that owns the zonepath. Returns `None` if this host owns it, or if no
/// owner is known.
///
/// # Errors
/// Fails with [`store::Error::Newer`] if a newer program wrote the file.
pub fn other_owner(root: &Root, zonepath: &Path) -> Result<Option<Owner>, Error> {
    Ok(Known::of(root, zonepath)?.other_owner())
}

/// Returns the owner that keeps this host from attaching the zone of a zonepath.
///
/// # Errors
/// See [`other_owner`].
pub fn owner_against_attach(root: &Root, zonepath: &Path) -> Result<Option<Owner>, Error> {
    Ok(Known::of(root, zonepath)?.owner_against_attach(zonepath))
}

/// Reads the file. Returns an empty identity if the file does not exist, is damaged, or was written
/// by a newer program.
#[must_use]
pub fn read(zonepath: &Path) -> Identity {
    store::identity::read(zonepath).unwrap_or_default()
}

/// Returns the message about a zonepath that another host owns.
pub fn root_of_other(entry: &Entry, owner: &Owner) -> String {
    let (zone, path) = (&entry.name, entry.zonepath.display());
    let forget = match entry.state {
        State::Configured => String::new(),
        _ => format!("'zoneadm -z {zone} detach --lost' forgets the zone here, "),
    };
    format!(
        "{path} belongs to host {owner}: {forget}'zoneadm -z {zone} attach --take-over' takes it; do that only when that host is off, fenced, or has lost its storage."
    )
}

#[cfg(test)]
mod tests;
