//! The uuid a zone gets when it is installed; it survives renames and moves.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A 128-bit identifier (RFC 9562), printed in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uuid([u8; 16]);

/// The text is not a uuid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: invalid uuid: expected 8-4-4-4-12 hexadecimal digits")]
pub struct BadUuid(pub String);

impl Uuid {
    /// Makes a version 4 uuid of 16 random bytes.
    #[must_use]
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The 32 hexadecimal digits without hyphens, as machine-id(5) wants them.
    #[must_use]
    pub fn simple(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.simple();
        f.pad(&format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        ))
    }
}

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(text: &str) -> Result<Self, BadUuid> {
        let bad = || BadUuid(text.to_owned());
        let groups: Vec<&str> = text.split('-').collect();
        let hex = groups.concat();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        if lengths != [8, 4, 4, 4, 12] || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Uuid {
    type Error = BadUuid;

    fn try_from(text: String) -> Result<Self, BadUuid> {
        text.parse()
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_it_reads() {
        let text = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        assert_eq!(
            Uuid::from_random([0xff; 16]).to_string(),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
    }

    #[test]
    fn refuses_malformed_text() {
        for bad in [
            "",
            "0f1e2d3c4b5a49788695a4b3c2d1e0ff",
            "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f",
            "xf1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff",
            "é1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff",
        ] {
            assert!(bad.parse::<Uuid>().is_err(), "{bad}");
        }
    }
}
