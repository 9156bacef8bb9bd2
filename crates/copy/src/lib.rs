//! Copies files and folders from one root to another, as a tar stream between two processes.
//!
//! One process packs files of its root into the stream ([`pack()`]), the other unpacks the stream
//! into its root ([`unpack()`]). Each process has only the rights that its side needs. Either side
//! may be hostile:
//!
//! | danger | rule |
//! |---|---|
//! | a path leads out of the root by `..` or a link | paths of the caller are opened with openat2(RESOLVE_IN_ROOT); below them no link is followed |
//! | a file is replaced during the copy | the opened file is compared with the listed one |
//! | a FIFO or device has the name of a file | it is never opened; the new file replaces its name |
//! | the stream names a path outside the destination | the member is refused |
//! | the stream or a folder has no end | memory and descriptors are bounded, whatever the input |
//!
//! | file | holds |
//! |---|---|
//! | `pack`, `sparse` | from a tree to a stream |
//! | `unpack`, `folders` | from a stream to a tree |
//! | `target` | the destination: an existing folder, or a new name |
//! | `header`, `read`, `write` | the tar format: ustar, pax, sparse files of GNU tar |
//! | `owner` | the owner of new files |
//! | `name` | names that may have any bytes, for messages |

mod folders;
mod header;
pub mod name;
pub mod owner;
pub mod pack;
mod read;
mod sparse;
pub mod target;
pub mod unpack;
mod write;

use rustix::io::Errno;

pub use owner::Owner;
pub use pack::{pack, pack_for};
pub use target::Target;
pub use unpack::{Existing, Restore, Rules, unpack};

/// Maximum depth of folders below a copied folder. One descriptor is open for each level.
pub const MAX_DEPTH: usize = 400;

/// The attributes of files that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// `user.*`. The other side may be hostile.
    User,
    /// Also access control lists and capabilities: both sides are one zone.
    Own,
}

impl Attributes {
    pub(crate) fn admits(self, name: &str) -> bool {
        let own = [
            "security.capability",
            "system.posix_acl_access",
            "system.posix_acl_default",
        ];
        name.starts_with("user.") || self == Self::Own && own.contains(&name)
    }
}

/// The reason why a whole copy ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path that the caller named cannot be used.
    #[error("{0}: {1}")]
    Path(String, std::io::Error),
    /// The destination does not fit the sources.
    #[error("{0}")]
    Target(String),
    /// The stream is not a tar archive that this crate reads.
    #[error("{0}")]
    Stream(&'static str),
    /// The stream has no bytes. A process that packs always writes some, unless it was killed.
    #[error("the stream is empty or too short: expected an uncompressed tar archive")]
    Empty,
    /// No further file can be written: the file system is full or read-only.
    #[error("{0}: {1}")]
    Full(String, std::io::Error),
    /// The other side no longer reads the stream. It has reported the reason.
    #[error("the other side has ended the copy")]
    Closed,
    /// The stream cannot be read or written.
    #[error("could not copy the stream: {0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    fn path(path: &std::path::Path) -> impl FnOnce(Errno) -> Self {
        let shown = name::shown(path);
        move |errno| Self::Path(shown, errno.into())
    }
}

/// A file that could not be copied. The copy of the other files continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file, escaped for a terminal.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

/// The counts of one side of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The number of files, folders and links that were copied.
    pub members: u64,
    /// The number of files that could not be copied.
    pub problems: u64,
}
