//! The start of a deletion, which takes zones in more states than an uninstall does.

use model::{State, Verb, ZoneName};
use store::lock::ZoneLock;

use crate::{Cuts, Start, Subject, lock_cutting, pending, with_entry};
use host::{Error, Host};

/// A zone that may be deleted, locked against other commands.
#[derive(Debug)]
pub enum Deletion {
    /// The zone has files, which an uninstall removes first.
    Installed(Box<Subject>),
    /// The zone is configured. The root of a detached zone stays in its zonepath.
    Configured(ZoneLock),
    /// The zone is not in the index, but a deletion that was killed left its configuration file.
    Unlisted(ZoneLock),
}

/// The treatment of a configuration file that the index does not name: what a killed deletion left, or a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// It is deleted. The user named it.
    Deleted,
    /// It stays. A pattern happens to match its name.
    Kept,
}

impl Deletion {
    /// Takes the zone's lock and checks whether the zone's state permits a deletion: any state that
    /// permits an uninstall, and `configured`. A file that the index does not name is no zone, unless `unlisted` says so.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit(host: &Host, zone: &ZoneName, unlisted: Unlisted) -> Result<Self, Error> {
        let (lock, _) = lock_cutting(host, zone, Cuts::Reboots)?;
        let mut index = host.index.load(&host.root)?;
        if !host.plan_only && pending::recover(&host.root, zone, &index)? {
            index = host.index.load(&host.root)?;
        }
        let is_listed = index.find(zone).is_some();
        if !is_listed && unlisted == Unlisted::Deleted && host.root.xml(zone).exists() {
            return Ok(Self::Unlisted(lock));
        }
        let (lock, entry, index) = with_entry(host, zone, lock)?;
        let found = crate::state(host, &entry)?;
        if found.0 == State::Configured {
            return Ok(Self::Configured(lock));
        }
        match Subject::start(host, Verb::Uninstall, lock, entry, index, found)? {
            Start::Go(subject) => Ok(Self::Installed(subject)),
            Start::Already(notice) => Err(Error::State(notice.to_owned())),
        }
    }
}
