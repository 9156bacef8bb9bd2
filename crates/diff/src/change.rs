//! The output of a comparison.

use rustix::fs::FileType;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The path exists only before.
    Removed,
    /// The path exists only after.
    Added,
    /// The path exists in both moments, with another content or other attributes.
    Modified,
    /// A folder has another path than before.
    Renamed,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
}

impl Kind {
    /// Returns the word for this type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::BlockDevice => "block-device",
            Self::CharacterDevice => "character-device",
        }
    }

    /// Returns the type in the mode of a file.
    #[must_use]
    pub const fn of_mode(mode: u32) -> Self {
        match FileType::from_raw_mode(mode) {
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharacterDevice,
            _ => Self::File,
        }
    }
}

/// The aspects in which a file differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct What {
    /// The bytes of a file, or the target of a link.
    pub content: bool,
    /// The owner or the group.
    pub owner: bool,
    /// The permissions.
    pub mode: bool,
    /// The extended attributes, which include access control lists and capabilities.
    pub attributes: bool,
    /// The numbers of a device.
    pub device: bool,
}

impl What {
    /// Returns true if nothing differs.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// Returns the words for the aspects that differ.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.content, "content"),
            (self.owner, "owner"),
            (self.mode, "mode"),
            (self.attributes, "attributes"),
            (self.device, "device"),
        ];
        all.into_iter()
            .filter_map(|(differs, word)| differs.then_some(word))
    }
}

/// A change. Paths begin with a slash, and may have any other bytes but zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The kind of the change.
    pub action: Action,
    /// The path: before for a removed file, otherwise after.
    pub path: &'a [u8],
    /// The path before, if it is another one.
    pub from: Option<&'a [u8]>,
    /// The type of the file.
    pub kind: Kind,
    /// The aspects in which a modified file differs.
    pub what: What,
}

/// A part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A change.
    Change(Change<'a>),
    /// A path that could not be compared, and the reason.
    Problem {
        /// The path, after if it exists after.
        path: &'a [u8],
        /// The reason.
        why: &'a str,
    },
}
