//! The kinds of property values: the accepted values of each and their canonical form.

mod check;
mod forms;

pub use check::is_known_rctl;
pub use forms::{cpu_range, port_range};

/// Longest value of any property in bytes.
pub const MAX_VALUE: usize = 2048;

/// Longest path in bytes (PATH_MAX less the terminating NUL and room for a
/// name below the zone's root).
pub const MAX_PATH: usize = 1023;

/// The kind of values that a property takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// An absolute path without `.` and `..`.
    Path,
    /// An absolute path that is not `/`.
    ZonePath,
    /// A whole number within these bounds, both included.
    Int {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// Bytes, with an optional suffix K, M, G or T (powers of 1024); canonical is the
    /// plain number.
    Size,
    /// CPUs to the hundredth, such as `1.5` or `.75`; canonical has both decimals.
    Cpus,
    /// A number of CPUs, or a range of such numbers: `2`, `1-4`.
    CpuRange,
    /// A word of this list.
    Enum(&'static [&'static str]),
    /// At least one of these words, with commas between them.
    Words(&'static [&'static str]),
    /// A word of this list, or a value of another kind.
    OneOf(&'static [&'static str], &'static Self),
    /// A list of texts.
    List,
    /// A list of complex values, each with these fields.
    Complex(&'static [&'static str]),
    /// A zone name.
    ZoneName,
    /// A brand name.
    Brand,
    /// A host id: hexadecimal, 0 to fffffffe, `0x` optional.
    HostId,
    /// A file system type: a word without `/`.
    FsType,
    /// The name of an attr resource.
    AttrName,
    /// An IP address with its prefix length (optional for IPv4), or the name of a host.
    Address,
    /// The same without names, one or more, with commas between them.
    Addresses,
    /// An IP address without a prefix length.
    Router,
    /// An Ethernet address, six hexadecimal numbers; canonical has two digits each.
    Mac,
    /// The name of a network link: up to 15 bytes.
    Link,
    /// The name of a ZFS dataset.
    Dataset,
    /// A resource control of a zone.
    RctlName,
    /// The name of a user.
    User,
    /// Bits a second, with an optional suffix K, M or G (powers of 1000); M when none.
    Bandwidth,
    /// A port from 1 to 65535, or a range of ports: `80`, `8000-8010`.
    Ports,
}

/// A value that its property does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// Not one of the few words that are allowed.
    #[error("{property} value must be {choices}.")]
    Choice {
        /// The property.
        property: String,
        /// The words, quoted and joined.
        choices: String,
    },
    /// Anything else.
    #[error("{property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The property.
        property: String,
        /// The value, shortened when it is very long.
        value: String,
        /// The description of the problem.
        why: String,
    },
}

impl BadValue {
    pub(crate) fn new(property: &str, value: &str, why: impl Into<String>) -> Self {
        let mut shown: String = value.chars().take(80).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        Self::Invalid {
            property: property.to_owned(),
            value: shown.escape_debug().to_string(),
            why: why.into(),
        }
    }
}

#[cfg(test)]
mod tests;
