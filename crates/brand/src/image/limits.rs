//! The limits of a source.

/// The limits of a source.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Members, of all kinds.
    pub members: u64,
    /// Bytes in regular files.
    pub bytes: u64,
    /// Bytes in the name of a member.
    pub path: usize,
}

/// Far above the size of any distribution, and far below a number that would use up the
/// inodes of a file system or run for days.
pub const LIMITS: Limits = Limits {
    members: 20_000_000,
    bytes: 1 << 40,
    path: 4096,
};
