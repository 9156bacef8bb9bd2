//! The system calls that read and write images.

use std::fmt;

/// The system calls that read and write files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Use io_uring if the kernel and the sandbox allow it, and plain calls otherwise.
    #[default]
    Auto,
    /// Use io_uring, and fail if this is not possible.
    Uring,
    /// Use plain calls from separate threads.
    Plain,
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "io_uring",
            Self::Plain => "plain",
        })
    }
}
