//! The options of a migration.

/// The options of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The other host as `[user@]host`, the form that ssh takes.
    pub host: String,
    /// Options for ssh, each in the form that `ssh -o` takes.
    pub ssh: Vec<String>,
    /// The ciphers for `ssh -c`; `None` for the defaults of ssh.
    pub cipher: Option<String>,
    /// True if a zone that shares the host's programs may be updated to the programs of the other
    /// host.
    pub update: bool,
    /// The kind of migration that is allowed for a running kernel zone.
    pub kind: Kind,
}

/// The kind of migration of a running kernel zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Live migration, or suspended migration if live migration is impossible.
    #[default]
    Auto,
    /// Live migration only.
    Live,
    /// Suspended migration only.
    Warm,
}
