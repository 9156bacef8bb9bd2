//! Digests of blobs.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns only the hexadecimal digits, which are the file name of a blob.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the chain id (OCI image specification) of the stack that has this layer on top of
    /// the stack `below`.
    #[must_use]
    pub fn on(&self, below: Option<&Self>) -> Self {
        match below {
            None => *self,
            Some(below) => Self::of(format!("{below} {self}").as_bytes()),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a supported digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadDigest {
    /// The digest uses an algorithm other than SHA-256.
    #[error("a digest other than sha256")]
    Algorithm,
    /// The text is not a digest.
    #[error("not a digest: expected sha256: and 64 hexadecimal digits in lower case")]
    Form,
}

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let Some(digits) = text.strip_prefix("sha256:") else {
            return Err(match text.split_once(':') {
                Some(("sha384" | "sha512" | "blake3", _)) => BadDigest::Algorithm,
                _ => BadDigest::Form,
            });
        };
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 64 || !digits.bytes().all(is_digit) {
            return Err(BadDigest::Form);
        }
        let mut bytes = [0; 32];
        for (n, byte) in bytes.iter_mut().enumerate() {
            let pair = &digits[2 * n..2 * n + 2];
            *byte = u8::from_str_radix(pair, 16).map_err(|_| BadDigest::Form)?;
        }
        Ok(Self(bytes))
    }
}

/// Computes a digest of data that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds the next piece of data.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all pieces.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), digest);
        for bad in ["", "sha256:", &text[7..], &text[..70], &text.to_uppercase()] {
            assert_eq!(bad.parse::<Digest>(), Err(BadDigest::Form), "{bad}");
        }
        assert_eq!("sha512:00".parse::<Digest>(), Err(BadDigest::Algorithm));
    }

    #[test]
    fn a_stack_is_named_by_all_its_layers() {
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        assert_eq!(one.on(None), one);
        let both = two.on(Some(&one));
        assert_eq!(both, Digest::of(format!("{one} {two}").as_bytes()));
        assert_ne!(both, one.on(Some(&two)));
    }
}
