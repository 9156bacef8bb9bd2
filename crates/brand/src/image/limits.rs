//! The limits for a source of a root.

/// The limits for a source of a root.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of members of all kinds.
    pub members: u64,
    /// Maximum number of bytes in regular files.
    pub bytes: u64,
    /// Maximum number of bytes in the name of a member.
    pub path: usize,
}

/// These numbers are far above any distribution, and far below a number that would use up the
/// inodes of a file system or take days.
pub const LIMITS: Limits = Limits {
    members: 20_000_000,
    bytes: 1 << 40,
    path: 4096,
};
