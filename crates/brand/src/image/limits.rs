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

/// Far above any distribution, far below what would fill a file system's inodes
/// or run for days.
pub const LIMITS: Limits = Limits {
    members: 20_000_000,
    bytes: 1 << 40,
    path: 4096,
};
