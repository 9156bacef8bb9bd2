//! SHA-256 digests.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of a chain of layers, made from the digests of the layers.
    #[must_use]
    pub fn of_chain(parts: &[Self]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"zones-chain 1\n");
        parts.iter().for_each(|part| hash.update(part.0));
        Self(hash.finalize().into())
    }

    pub(crate) const fn from_hash(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Returns the digest of these bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the hexadecimal digits without the prefix, as in the names of image folders.
    pub(crate) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
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

impl FromStr for Digest {
    type Err = BadDigest;

    /// Parses a digest. The prefix `sha256:` may be missing, as in lists of checksums.
    fn from_str(text: &str) -> std::result::Result<Self, BadDigest> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadDigest);
        }
        let mut bytes = [0; 32];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).map_err(|_| BadDigest)?;
        }
        Ok(Self(bytes))
    }
}

/// The error for a text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected sha256: and 64 hexadecimal digits")]
pub struct BadDigest;
