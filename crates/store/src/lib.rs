//! Stores zones in plain files below an alternate root.
//!
//! `/etc/zones` holds the index and one XML file per zone, `/run/zones` the state that
//! ends with the next host boot (locks, the state of running zones, sockets). Every write
//! is atomic ([`atomic`]); one lock per zone serialises changes ([`lock`]), a further one
//! guards the index ([`index`]).

pub mod atomic;
mod damage;
pub mod format;
pub mod index;
pub mod lock;
pub mod root;
pub mod runtime;
pub mod template;
pub mod xml;

use std::io;
use std::path::{Path, PathBuf};

use model::ZoneName;

pub use damage::{Damage, Part};
pub use root::Root;

/// The errors of stored state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file holds something that is not ours or is damaged.
    #[error("{}:{line}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        reason: Box<Damage>,
    },
    /// A file has a format that only newer programs know.
    #[error("{} has format {found}, and these programs know formats up to {known}: use newer programs", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is known here.
        known: u64,
    },
    /// The zone is in no index.
    #[error("{0}: No such zone configured")]
    NoSuchZone(ZoneName),
    /// Another process works on the zone.
    #[error("{0}")]
    Locked(lock::Busy),
    /// No id range is left for one more zone.
    #[error(
        "no range of {} user ids is left for one more zone: delete zones that are not needed",
        index::IDS_PER_ZONE
    )]
    NoIdsLeft,
}

impl Error {
    /// Fails with [`Error::Newer`] when a file has a format that is not known here.
    pub(crate) fn unless_known(path: &Path, found: u64, known: u64) -> Result<(), Self> {
        match found <= known {
            true => Ok(()),
            false => Err(Self::Newer {
                path: path.to_owned(),
                found,
                known,
            }),
        }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}
