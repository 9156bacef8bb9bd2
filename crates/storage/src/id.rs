//! The ids of layers and datasets: 64 random bits, written as 16 hexadecimal digits.
//!
//! An id is short, so that the text of a dataset's link has fewer than 60 bytes. ext4 stores so
//! short a text inside the inode.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};

/// The id of a sealed layer or of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

impl Id {
    /// Returns a new random id.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0_u8; 8];
        // getrandom(2) returns up to 256 bytes completely or fails.
        getrandom(&mut bytes, GetRandomFlags::empty())
            .map_err(|e| Error::io("getrandom", "8 bytes", e))?;
        Ok(Self(u64::from_ne_bytes(bytes)))
    }

    pub(crate) fn parse(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The error for a text that is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of 16 hexadecimal digits")]
pub struct BadId;

impl FromStr for Id {
    type Err = BadId;

    fn from_str(text: &str) -> std::result::Result<Self, BadId> {
        let legal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 16 || !text.bytes().all(legal) {
            return Err(BadId);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| BadId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_exact() {
        let id = Id(0xab);
        assert_eq!(id.to_string(), "00000000000000ab");
        assert_eq!("00000000000000ab".parse(), Ok(id));
        for bad in [
            "",
            "ab",
            "00000000000000AB",
            "+0000000000000ab",
            "000000000000000ab",
            "..",
            "0000000000000/ab",
        ] {
            assert_eq!(bad.parse::<Id>(), Err(BadId), "{bad}");
        }
    }
}
