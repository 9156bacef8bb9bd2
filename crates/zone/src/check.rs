//! `zoneadm check`: lists leftovers of killed commands on this host.
//!
//! One rule defines garbage: objects that no zone, image or snapshot refers to. Every command on a
//! zone removes the leftovers of that zone; [`look`] lists those of the whole host and changes
//! nothing, and [`repair`] calls the same collectors for all of them.
//!
//! | file | holds |
//! |---|---|
//! | `run` | records and sockets in `/run/zones`, networks, control groups |
//! | `places` | layers, copies beside zonepaths, mounts, files that were being written |

mod places;
mod run;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use model::ZoneName;
use serde::Serialize;
use store::index::Index;
use store::lock;

use host::{Error, Host};

/// The kind of something that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A layer that no dataset and no snapshot stands on.
    Layer,
    /// A reference on a layer whose user stands elsewhere.
    Reference,
    /// A tree whose removal was cut off.
    Dead,
    /// A zonepath whose snapshot, rollback or switch was cut off.
    Unfinished,
    /// A layer that is kept for a zonepath which is not there: it was moved or deleted by
    /// hand, or is not mounted.
    Lost,
    /// The journal of a patch that was cut off.
    Patch,
    /// An image whose fetch or import was cut off.
    Image,
    /// A copy of a root that a command works in.
    Copy,
    /// A file that was being written.
    Aside,
    /// A mount in the zonepath of a zone that has no root.
    Mount,
    /// A control group of a zone that is not active.
    Cgroup,
    /// The record of the links, addresses and routes of a zone that is not active.
    Network,
    /// A state file, socket or lock of a zone that is not active or not known.
    Record,
}

impl Kind {
    /// The name in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Layer => "layer",
            Self::Reference => "reference",
            Self::Dead => "dead",
            Self::Unfinished => "unfinished",
            Self::Lost => "lost",
            Self::Patch => "patch",
            Self::Image => "image",
            Self::Copy => "copy",
            Self::Aside => "aside",
            Self::Mount => "mount",
            Self::Cgroup => "cgroup",
            Self::Network => "network",
            Self::Record => "record",
        }
    }
}

/// Something that is left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The path, as users name it.
    pub path: PathBuf,
    /// The zone that it was made for, as far as that is known.
    pub zone: Option<String>,
    /// Why [`repair`] does not remove it; nothing where it does.
    pub kept: Option<String>,
}

/// The use of a path that was made for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// The zone is active, or a command works on it.
    InUse,
    /// It is in the index and not active.
    Rests,
    /// It is not in the index.
    Unknown,
}

/// A look at a host.
struct Look<'a> {
    host: &'a Host,
    index: &'a Index,
    found: Vec<Finding>,
}

impl Look<'_> {
    fn note(&mut self, kind: Kind, zone: Option<&str>, path: &Path, kept: Option<String>) {
        self.found.push(Finding {
            kind,
            path: self.host.root.shown(path),
            zone: zone.map(str::to_owned),
            kept,
        });
    }

    fn life(&self, zone: &ZoneName) -> Result<Life, Error> {
        let root = &self.host.root;
        for path in [root.lock(zone), root.root_lock(zone), root.adopt_lock(zone)] {
            if lock::is_held(&path)? {
                return Ok(Life::InUse);
            }
        }
        let Some(entry) = self.index.find(zone) else {
            // Whatever the index says, a process that lives is no garbage.
            let known = store::runtime::load_any(root, zone)?;
            let lives = known.is_some_and(|one| one.init.is_alive() || one.daemon.is_alive());
            return Ok(if lives { Life::InUse } else { Life::Unknown });
        };
        match subject::state(self.host, entry)?.1 {
            Some(_) => Ok(Life::InUse),
            None => Ok(Life::Rests),
        }
    }
}

/// Returns the leftovers on the host, sorted by kind and path, and changes nothing. Skips zones
/// that are active or that a command works on, with their files.
///
/// # Errors
/// When something cannot be read.
pub fn look(host: &Host) -> Result<Vec<Finding>, Error> {
    let index = Index::load(&host.root)?;
    let mut look = Look {
        host,
        index: &index,
        found: Vec::new(),
    };
    look.layers()?;
    look.images()?;
    look.patches()?;
    look.copies()?;
    look.asides()?;
    look.mounts()?;
    look.cgroups()?;
    look.networks()?;
    look.records()?;
    let mut found = look.found;
    // The command that has it may have ended meanwhile.
    found.retain(|one| {
        let path = host.root.path(&one.path);
        one.kind == Kind::Cgroup || path.symlink_metadata().is_ok()
    });
    found.sort();
    found.dedup();
    Ok(found)
}

/// Removes or completes the findings of [`look`], except patches, which `zonepatch` recovers, and
/// objects that are kept. Returns a text for each error; an error does not stop the rest.
///
/// # Errors
/// When the index cannot be read.
pub fn repair(host: &Host) -> Result<Vec<String>, Error> {
    let index = Index::load(&host.root)?;
    let found = look(host)?;
    let mut failed = Vec::new();
    run::repair(host, &index, &found, &mut failed);
    places::repair(host, &found, &mut failed);
    Ok(failed)
}
