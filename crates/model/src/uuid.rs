//! The UUID that a zone gets when it is installed. Renames and moves keep the UUID.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A 128-bit identifier (RFC 9562), printed in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uuid([u8; 16]);

/// The error for a text that is not a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: invalid uuid: expected 8-4-4-4-12 hexadecimal digits")]
pub struct BadUuid(pub String);

impl Uuid {
    /// Makes a version 4 UUID from 16 random bytes.
    #[must_use]
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Returns the 32 hexadecimal digits without hyphens, in the form of machine-id(5).
    #[must_use]
    pub fn simple(&self) -> String {
        self.to_string().replace('-', "")
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each change prints the index, which may have a thousand zones. To be fast, this code
        // allocates no memory.
        let mut text = [b'-'; LENGTH];
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let places = (0..LENGTH).filter(|place| !HYPHENS.contains(place));
        for (place, digit) in places.zip(digits) {
            text[place] = b"0123456789abcdef"[usize::from(digit)];
        }
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Number of characters of a printed UUID, and below it the positions of the hyphens.
const LENGTH: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(text: &str) -> Result<Self, BadUuid> {
        let bad = || BadUuid(text.to_owned());
        let text = text.as_bytes();
        if text.len() != LENGTH || HYPHENS.iter().any(|&place| text[place] != b'-') {
            return Err(bad());
        }
        let mut digits = (0..LENGTH)
            .filter(|place| !HYPHENS.contains(place))
            .map(|place| char::from(text[place]).to_digit(16));
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            let (high, low) = (digits.next().flatten(), digits.next().flatten());
            let value = high.zip(low).map(|(high, low)| high << 4 | low);
            *byte = value
                .and_then(|value| u8::try_from(value).ok())
                .ok_or_else(bad)?;
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
            "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f-",
            "0f1e2d3c+4b5a-4978-8695-a4b3c2d1e0ff",
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
