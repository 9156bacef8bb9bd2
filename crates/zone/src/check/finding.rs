//! The kinds of leftovers, and the state of a search for them.

use std::path::{Path, PathBuf};

use model::ZoneName;
use serde::Serialize;
use store::index::Index;
use store::lock;

use host::{Error, Host};

/// The kind of a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A layer that no dataset and no snapshot uses.
    Layer,
    /// A reference to a layer from a dataset that no longer uses the layer.
    Reference,
    /// A folder tree whose removal was interrupted.
    Dead,
    /// A zonepath in which a snapshot, a rollback or a switch was interrupted.
    Unfinished,
    /// A layer that is kept for a missing zonepath. The zonepath was moved or deleted by hand, or
    /// its file system is not mounted.
    Lost,
    /// A zonepath or configuration that an interrupted move or rename of a zone left.
    Move,
    /// The journal of an interrupted patch.
    Patch,
    /// An image whose fetch or import was interrupted.
    Image,
    /// A copy of a zone's root, in which a command worked.
    Copy,
    /// A temporary file of an interrupted write.
    Aside,
    /// A mount in the zonepath of a zone without a root.
    Mount,
    /// A control group of a zone that is not active.
    Cgroup,
    /// The record of the links, addresses and routes of an inactive zone.
    Network,
    /// A state file, socket or lock of an inactive or unknown zone.
    Record,
}

impl Kind {
    /// Returns the name of this kind in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Layer => "layer",
            Self::Reference => "reference",
            Self::Dead => "dead",
            Self::Unfinished => "unfinished",
            Self::Lost => "lost",
            Self::Move => "move",
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

/// A leftover that [`super::look`] has found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The kind of the leftover.
    pub kind: Kind,
    /// The path of the leftover, as users name it.
    pub path: PathBuf,
    /// The zone for which the leftover was made, if it is known.
    pub zone: Option<String>,
    /// The reason why [`super::repair`] does not remove the leftover; `None` if it does.
    pub kept: Option<String>,
}

/// The use of a path that belongs to a zone name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The zone is active, or a command works on it.
    InUse,
    /// The zone is in the index and not active.
    Rests,
    /// The zone is not in the index.
    Unknown,
}

/// The state of a search for leftovers.
pub(super) struct Look<'a> {
    pub(super) host: &'a Host,
    pub(super) index: &'a Index,
    pub(super) found: Vec<Finding>,
}

impl Look<'_> {
    pub(super) fn note(
        &mut self,
        kind: Kind,
        zone: Option<&str>,
        path: &Path,
        kept: Option<String>,
    ) {
        self.found.push(Finding {
            kind,
            path: self.host.root.shown(path),
            zone: zone.map(str::to_owned),
            kept,
        });
    }

    pub(super) fn life(&self, zone: &ZoneName) -> Result<Life, Error> {
        let root = &self.host.root;
        for path in [root.lock(zone), root.root_lock(zone), root.adopt_lock(zone)] {
            if lock::is_held(&path)? {
                return Ok(Life::InUse);
            }
        }
        let Some(entry) = self.index.find(zone) else {
            // A running process is no leftover, even if its zone is not in the index.
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
