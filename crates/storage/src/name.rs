//! Names of snapshots and images.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A name that is also the name of a folder: letters, digits, `_`, `-`, `.`, `:`,
/// beginning with a letter or digit, at most 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn parse(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }
}

impl AsRef<OsStr> for Name {
    fn as_ref(&self) -> &OsStr {
        self.0.as_ref()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The error for a text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?}: a name has up to {MAX_NAME_BYTES} letters, digits, '_', '-', '.' and ':' and begins with a letter or digit"
)]
pub struct BadName(String);

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b);
        let begins = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        if begins && text.len() <= MAX_NAME_BYTES && text.bytes().all(legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(BadName(text.chars().take(MAX_NAME_BYTES).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        for good in ["a", "before-patch", "2026-11-20_21:30", "v1.2"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        let long = "a".repeat(65);
        for bad in [
            "", ".", "..", ".half", "-f", "a/b", "a b", "ä", "a\n", &long,
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }
}
