//! The errors of requests about boot environments.

use std::io;

/// Why `zoneadm beadm` was not started for a zone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeadmError {
    /// No file in memory for its output.
    #[error("make a file in memory")]
    File(#[source] io::Error),
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] host::Error),
}
