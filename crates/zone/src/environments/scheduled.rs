//! The marks of automatic snapshots. Only a snapshot with such a mark is ever removed by a
//! schedule, whatever its name.

use std::collections::BTreeSet;
use std::path::Path;

use model::ZoneName;
use storage::{Name, Snapshot};
use store::index::Index;

use super::marks::Marks;
use super::{By, seconds};
use host::{Error, Host};

/// Returns the names of the automatic snapshots of a zone. A name may belong to no snapshot any
/// longer.
///
/// # Errors
/// Fails if the marks cannot be read.
pub fn scheduled(zonepath: &Path) -> Result<BTreeSet<Name>, Error> {
    Ok(Marks::at(zonepath).all_scheduled()?.into_iter().collect())
}

/// Marks the snapshot that is going to have this name as automatic, or removes the mark.
///
/// # Errors
/// Fails if the mark cannot be written.
pub fn set_scheduled(zonepath: &Path, name: &Name, is_scheduled: bool) -> Result<(), Error> {
    Marks::at(zonepath).set_scheduled(name, is_scheduled)
}

/// Refuses the request of a zone to activate an automatic snapshot. The schedule would not remove it
/// any longer, so a hostile zone could keep any number of them.
///
/// # Errors
/// Fails with [`Error::Refused`] and the remedy, and if the index or the marks cannot be read.
pub fn refuse_automatic(host: &Host, zone: &ZoneName, name: &Name, by: By) -> Result<(), Error> {
    if by == By::Host {
        return Ok(());
    }
    let index = Index::load(&host.root)?;
    let zonepath = host.root.path(&index.get(zone)?.zonepath);
    if !scheduled(&zonepath)?.contains(name) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "boot environment {name} is an automatic snapshot: beadm create -a -e {name} NAME makes and activates a copy."
    )))
}

/// Returns true if the zone needs a snapshot: it is the next boot environment, is mounted, or was
/// made by the zone itself.
///
/// # Errors
/// Fails if the marks cannot be read.
pub fn is_needed(zonepath: &Path, snapshot: &Snapshot) -> Result<bool, Error> {
    let marks = Marks::at(zonepath);
    let name = &snapshot.name;
    let switch = marks.switch()?;
    Ok(marks.next()?.as_ref() == Some(name)
        || marks.mounted(name)?.is_some()
        || marks.inside(name)? == Some(seconds(snapshot.created))
        || switch.is_some_and(|one| one.from == *name || one.to == *name))
}
