//! The errors of requests from inside a zone.

use std::io;

/// The reason why `zoneadm beadm` or `clzonecluster --fence` was not started for a zone.
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
