//! The way in which images are read and written.

use std::fmt;

/// The way in which files are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// By io_uring where the kernel and the sandbox allow it.
    #[default]
    Auto,
    /// By io_uring, or not at all.
    Uring,
    /// By plain calls, from threads of their own.
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
