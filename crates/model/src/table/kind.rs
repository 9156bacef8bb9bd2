//! The kinds of property values: the values that each kind accepts, and their canonical form.

mod check;
mod forms;

pub use check::is_known_rctl;
pub use forms::{cpu_range, port_range};

/// Maximum length of a property's value in bytes.
pub const MAX_VALUE: usize = 2048;

/// Maximum length of a path in bytes (PATH_MAX less the terminating NUL and room for a name below
/// the zone's root).
pub const MAX_PATH: usize = 1023;

/// The kind of values that a property takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text is legal.
    Text,
    /// A boolean: `true` or `false`.
    Bool,
    /// An absolute path without `.` and `..`.
    Path,
    /// An absolute path that is not `/`.
    ZonePath,
    /// A whole number between two bounds, which are legal values too.
    Int {
        /// The minimum value.
        min: u64,
        /// The maximum value.
        max: u64,
    },
    /// A number of bytes, with an optional suffix K, M, G or T (powers of 1024). The canonical form
    /// of a size is the plain number.
    Size,
    /// A number of CPUs with up to two decimals, such as `1.5` or `.75`. The canonical form of a
    /// number of CPUs has two decimals.
    Cpus,
    /// A number of CPUs, or a range of such numbers: `2`, `1-4`.
    CpuRange,
    /// A word of this list.
    Enum(&'static [&'static str]),
    /// Words of this list, separated by commas.
    Words(&'static [&'static str]),
    /// A word of this list, or a value of another kind.
    OneOf(&'static [&'static str], &'static Self),
    /// A list of texts.
    List,
    /// A list of complex values, each of which has exactly these fields.
    Complex(&'static [&'static str]),
    /// A zone name.
    ZoneName,
    /// A brand name.
    Brand,
    /// A host id: hexadecimal, 0 to fffffffe, with or without `0x`.
    HostId,
    /// A sensitivity label in hexadecimal, such as `0x0004-08-68`. The programs turn text into this
    /// form, because the names of labels are in a file of the host.
    Label,
    /// A file system type: a word without `/`.
    FsType,
    /// The name of an attr resource.
    AttrName,
    /// An IP address with its prefix length (optional for IPv4), or a host name.
    Address,
    /// A list of IP addresses with their prefix lengths, separated by commas. Host names are not
    /// legal in the list.
    Addresses,
    /// An IP address without a prefix length.
    Router,
    /// An Ethernet address: six hexadecimal numbers. The canonical form of an Ethernet address has
    /// two digits for each number.
    Mac,
    /// The name of a network link, up to 15 bytes long.
    Link,
    /// The name of a ZFS dataset.
    Dataset,
    /// A resource control of a zone.
    RctlName,
    /// The name of a user.
    User,
    /// Bits per second, with an optional suffix K, M or G (powers of 1000). A bandwidth without a
    /// suffix is in M.
    Bandwidth,
    /// A port from 1 to 65535, or a range of ports: `80`, `8000-8010`.
    Ports,
}

/// The error for a value that its property does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// The value is not one of the allowed words.
    #[error("{property} value must be {choices}.")]
    Choice {
        /// The name of the property.
        property: String,
        /// The allowed words, quoted and joined.
        choices: String,
    },
    /// The value is wrong for another reason.
    #[error("{property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The name of the property.
        property: String,
        /// The value. A very long value is shortened for the message.
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
