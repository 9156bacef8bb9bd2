//! The errors of requests about boot environments.

use std::io;

/// The reason why `zoneadm beadm` was not started for a zone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeadmError {
    /// The file in memory for the program's output could not be made.
    #[error("make a file in memory")]
    File(#[source] io::Error),
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] host::Error),
}
