//! `zoneadm check`: lists leftovers of killed commands on this host.
//!
//! An object is a leftover if no zone, image or snapshot refers to it. Every command on a zone
//! removes the leftovers of this zone. [`look`] lists the leftovers of the whole host and changes
//! nothing. [`repair`] removes all of them with the same functions.
//!
//! | file | holds |
//! |---|---|
//! | `finding` | the kinds of leftovers, and the state of a search |
//! | `run` | records and sockets in `/run/zones`, networks, control groups |
//! | `moves` | moves and renames of zones |
//! | `places` | layers, copies beside zonepaths, mounts, files that were being written |

mod finding;
mod moves;
mod places;
mod run;
#[cfg(test)]
mod tests;

use store::index::Index;

use finding::Look;
use host::{Error, Host};

pub use finding::{Finding, Kind};

/// Returns the leftovers on the host, sorted by kind and path. Changes nothing. Skips the files of
/// zones that are active or that a command works on.
///
/// # Errors
/// Fails if a file or folder cannot be read.
pub fn look(host: &Host) -> Result<Vec<Finding>, Error> {
    let index = Index::load(&host.root)?;
    let mut look = Look {
        host,
        index: &index,
        found: Vec::new(),
    };
    look.layers()?;
    look.images()?;
    look.moves()?;
    look.patches()?;
    look.copies()?;
    look.asides()?;
    look.mounts()?;
    look.cgroups()?;
    look.networks()?;
    look.records()?;
    let mut found = look.found;
    // A command that used an object may have removed it meanwhile.
    found.retain(|one| {
        let path = host.root.path(&one.path);
        // The record of an interrupted move is in the index, even if the path is gone.
        matches!(one.kind, Kind::Cgroup | Kind::Move) || path.symlink_metadata().is_ok()
    });
    found.sort();
    found.dedup();
    Ok(found)
}

/// Removes or completes the findings of [`look`], except patches and findings that are kept.
/// `zonepatch` recovers patches. Returns a text for each error; an error does not stop the removal
/// of the other findings.
///
/// # Errors
/// Fails if the index cannot be read.
pub fn repair(host: &Host) -> Result<Vec<String>, Error> {
    let index = Index::load(&host.root)?;
    let found = look(host)?;
    let mut failed = Vec::new();
    moves::repair(host, &index, &found, &mut failed);
    run::repair(host, &index, &found, &mut failed);
    places::repair(host, &found, &mut failed);
    Ok(failed)
}
