//! Network addresses in the form of `net` and `anet` resources.

use std::fmt;
use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;

/// Maximum length of a host name in bytes.
const MAX_HOST: usize = 253;

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// The length of the prefix, if the text has one. An IPv6 address always has a prefix length.
    pub prefix: Option<u8>,
}

/// The reason why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// The text does not have the form of an IP address.
    #[error("is not an address: {0}")]
    Form(#[from] AddrParseError),
    /// The prefix length is not valid for the address.
    #[error("has a prefix length that is not 0 to {longest}")]
    Prefix {
        /// The maximum prefix length of the address: 32 for IPv4, 128 for IPv6.
        longest: u8,
    },
    /// An IPv6 address has no prefix length.
    #[error("is an IPv6 address without a prefix length")]
    NoPrefix,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse()?;
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix
            .map(|prefix| {
                let plain = prefix.bytes().all(|b| b.is_ascii_digit());
                let number = prefix.parse::<u8>().ok().filter(|n| plain && *n <= longest);
                number.ok_or(BadAddress::Prefix { longest })
            })
            .transpose()?;
        if ip.is_ipv6() && prefix.is_none() {
            return Err(BadAddress::NoPrefix);
        }
        Ok(Self { ip, prefix })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(f, "{}/{prefix}", self.ip),
            None => write!(f, "{}", self.ip),
        }
    }
}

impl Address {
    /// Returns the text unchanged if it is an address or the name of a host. An address that stays
    /// unchanged makes exports read back identically.
    pub(super) fn check(text: &str) -> Result<String, BadAddress> {
        match text.parse::<Self>() {
            Ok(_) => Ok(text.to_owned()),
            Err(_) if is_host(text) => Ok(text.to_owned()),
            Err(why) => Err(why),
        }
    }
}

/// Returns true for a host name. A text without a letter is not a host name but a mistyped address.
fn is_host(text: &str) -> bool {
    let label = |part: &str| {
        (1..=63).contains(&part.len())
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !part.starts_with('-')
    };
    text.len() <= MAX_HOST
        && text.split('.').all(label)
        && text.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_they_were_read() {
        for text in ["10.0.0.1", "10.0.0.1/8", "::1/128", "fd00::5/64"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for bad in [
            "10.0.0",
            "::1",
            "::1/129",
            "10.0.0.1/+8",
            "10.0.0.1/",
            "host",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_hosts_are_no_mistyped_addresses() {
        assert!(Address::check("web-1.example").is_ok());
        for bad in ["10.0.0", "10.0.0.256", "web..x", "-a", ""] {
            assert!(Address::check(bad).is_err(), "{bad}");
        }
    }
}
