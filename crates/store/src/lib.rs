//! Stores zones in plain files below an alternate root.
//!
//! `/etc/zones` holds the index and one XML file per zone. `/run/zones` holds state that ends with
//! the next boot of the host: locks, sockets, and the state of running zones. Every write is atomic
//! ([`atomic`]). One lock per zone serialises changes ([`lock`]), and one further lock protects the
//! index ([`index`]).

pub mod atomic;
mod damage;
pub mod format;
pub mod groups;
pub mod identity;
pub mod index;
pub mod label_network;
pub mod labels;
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

/// The errors in reading and writing stored state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file is damaged, or was written by another program.
    #[error("{}:{line}: {reason}", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The number of the damaged line, from 1.
        line: usize,
        /// The problem in the line.
        reason: Box<Damage>,
    },
    /// A file has a format that only newer programs know.
    #[error("{} has format {found}, and these programs know formats up to {known}: use newer programs", path.display())]
    Newer {
        /// The path of the file.
        path: PathBuf,
        /// The format number of the file.
        found: u64,
        /// The newest format number that this program knows.
        known: u64,
    },
    /// The index has no zone of that name.
    #[error("{0}: No such zone configured")]
    NoSuchZone(ZoneName),
    /// Another process holds the lock of the zone.
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
    /// Fails with [`Error::Newer`] if the format `found` is newer than `known`.
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
