//! The options of a migration.

/// The options of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `[user@]host`, as ssh takes it.
    pub host: String,
    /// Options for ssh, as behind its `-o`.
    pub ssh: Vec<String>,
    /// The ciphers of ssh.
    pub cipher: Option<String>,
    /// Let a zone that shares the host's programs follow the other host.
    pub update: bool,
    /// The kind of migration that is allowed for a machine that runs.
    pub kind: Kind,
}

/// The kind of migration of a machine that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// While it runs; suspended where that cannot be.
    #[default]
    Auto,
    /// While it runs, or not at all.
    Live,
    /// Suspended.
    Warm,
}
