//! The fixed parts of an image: its header and its trailer. See `docs/suspend-format.md`.

use crate::Key;
use crate::key::{Cipher, Gcm, KeyError, Purpose, TAG_BYTES, nonce, random};

/// Number of bytes of memory in a chunk.
pub const CHUNK: usize = 256 << 10;
/// Size of a page in bytes, the unit of the search for zeros. One bit of a `u64` represents one
/// page of a chunk.
pub const PAGE: usize = 4096;
/// Alignment in bytes of all parts of an image, for O_DIRECT.
pub const BLOCK: usize = 4096;
/// Size in bytes of the header, the first part of an image.
pub const HEADER: usize = BLOCK;
/// Size in bytes of the trailer, the last part of an image.
pub const TRAILER: usize = 64;
/// The format version that this release writes. This release reads no other version.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"ZONESUSP";
const END_MAGIC: &[u8; 8] = b"ZONESEND";
/// The number of AES-256-GCM, the cipher that seals the image's key.
const WRAPPING: u32 = 1;

// Offsets of the fields in the header, in bytes.
const ID: usize = 16;
const CREATED: usize = 32;
const SIZES: usize = 40;
const NONCE: usize = 48;
const WRAPPED: usize = 64;
const USED: usize = WRAPPED + 32 + TAG_BYTES;

/// Returns a size as a field of the header.
const fn field(size: usize) -> u32 {
    assert!(size <= 1 << 20);
    #[allow(clippy::cast_possible_truncation, reason = "asserted above")]
    {
        size as u32
    }
}

/// The reason why bytes are not a valid header, trailer or index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes do not begin with the magic number of images.
    #[error("not a suspend image")]
    Magic,
    /// A later release wrote the image. The number is the image's format version.
    #[error("unknown version {0}")]
    Version(u32),
    /// The named field has a value that no valid image has.
    #[error("a field is out of range: {0}")]
    Field(&'static str),
}

/// The header: the part of the image that is readable without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The random id of the image. The id ties chunks to their image.
    pub id: [u8; 16],
    /// The time when the save began, in seconds since 1970.
    pub created: u64,
    nonce: [u8; 12],
    wrapped: [u8; 32 + TAG_BYTES],
}

impl Header {
    /// Returns a header for a new image, and the image's own random key.
    ///
    /// # Errors
    /// Fails with [`KeyError::Failed`] if the system has no random numbers.
    pub fn new(created: u64, key: &Key) -> Result<(Self, Key), KeyError> {
        let own = Key::random()?;
        let mut header = Self {
            id: random()?,
            created,
            nonce: random()?,
            wrapped: [0; 32 + TAG_BYTES],
        };
        let mut wrapped = *own.bytes();
        let tag = Gcm::new(key)?.seal(header.nonce, &header.bytes()[..NONCE], &mut wrapped)?;
        header.wrapped[..32].copy_from_slice(&wrapped);
        header.wrapped[32..].copy_from_slice(&tag);
        Ok((header, own))
    }

    /// Returns the image's own key, decrypted with the caller's key.
    ///
    /// # Errors
    /// Fails with [`KeyError::Broken`] if the image's key was sealed with another key, or if the
    /// header was changed.
    pub fn unwrap_key(&self, key: &Key) -> Result<Key, KeyError> {
        let mut wrapped = self.wrapped;
        let bytes = self.bytes();
        let opened = Gcm::new(key)?.open(self.nonce, &bytes[..NONCE], &mut wrapped)?;
        let mut own = [0; 32];
        own.copy_from_slice(opened);
        opened.fill(0);
        Ok(Key::from(own))
    }

    /// Returns the bytes of the header, as the file has them.
    #[must_use]
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(field(HEADER)).to_le_bytes());
        put(ID, &self.id);
        put(CREATED, &self.created.to_le_bytes());
        put(SIZES, &(field(CHUNK)).to_le_bytes());
        put(SIZES + 4, &(field(PAGE)).to_le_bytes());
        put(NONCE, &self.nonce);
        put(NONCE + 12, &WRAPPING.to_le_bytes());
        put(WRAPPED, &self.wrapped);
        bytes
    }

    /// Reads a header. The header is trusted only after it has decrypted the key and the index.
    ///
    /// # Errors
    /// Fails with a [`FormatError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut fields = Fields(bytes);
        if fields.take::<8>() != Some(*MAGIC) {
            return Err(FormatError::Magic);
        }
        let version = fields.number("version")?;
        if version != VERSION {
            return Err(FormatError::Version(version));
        }
        fields.must_be("length of the header", field(HEADER))?;
        let id = fields.array("id")?;
        let created = u64::from_le_bytes(fields.array("time")?);
        fields.must_be("size of a chunk", field(CHUNK))?;
        fields.must_be("size of a page", field(PAGE))?;
        let nonce = fields.array("nonce")?;
        fields.must_be("wrapping", WRAPPING)?;
        let wrapped = fields.array("wrapped key")?;
        let rest = bytes.get(USED..HEADER).ok_or(FormatError::Field("end"))?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(FormatError::Field("reserved"));
        }
        Ok(Self {
            id,
            created,
            nonce,
            wrapped,
        })
    }
}

/// The trailer of an image, which has the offset of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The id of the image, the same as in the header.
    pub id: [u8; 16],
    /// The offset of the sealed index.
    pub index: u64,
    /// The length of the sealed index in bytes, with its tag.
    pub length: u64,
    /// The length of the whole file in bytes.
    pub file: u64,
    /// The authentication tag of the header and of the fields above.
    pub tag: [u8; TAG_BYTES],
}

impl Trailer {
    /// Returns the bytes of the trailer, as the file has them.
    #[must_use]
    pub fn bytes(&self) -> [u8; TRAILER] {
        let mut bytes = [0; TRAILER];
        bytes[..8].copy_from_slice(END_MAGIC);
        bytes[8..24].copy_from_slice(&self.id);
        bytes[24..32].copy_from_slice(&self.index.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.length.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.file.to_le_bytes());
        bytes[48..].copy_from_slice(&self.tag);
        bytes
    }

    /// Authenticates the header and the trailer with the image's key: writes the tag.
    ///
    /// # Errors
    /// Fails with the error of the cipher.
    pub fn sign(&mut self, header: &Header, cipher: &dyn Cipher) -> Result<(), KeyError> {
        let aad = self.signed(header);
        self.tag = cipher.seal(nonce(Purpose::End, 0), &aad, &mut [])?;
        Ok(())
    }

    /// Checks the tag. After a successful check, the header and the trailer are authentic.
    ///
    /// # Errors
    /// Fails with [`KeyError::Broken`] if the tag does not match the header, the trailer and the
    /// key.
    pub fn check(&self, header: &Header, cipher: &dyn Cipher) -> Result<(), KeyError> {
        let aad = self.signed(header);
        let mut tag = self.tag;
        cipher
            .open(nonce(Purpose::End, 0), &aad, &mut tag)
            .map(|_| ())
    }

    fn signed(&self, header: &Header) -> Vec<u8> {
        [&header.bytes()[..], &self.bytes()[..TRAILER - TAG_BYTES]].concat()
    }

    /// Reads the trailer of a file with `file` bytes. The index must be between the header and the
    /// trailer.
    ///
    /// # Errors
    /// Fails with a [`FormatError`].
    pub fn parse(bytes: &[u8], file: u64) -> Result<Self, FormatError> {
        let mut fields = Fields(bytes);
        if fields.take::<8>() != Some(*END_MAGIC) {
            return Err(FormatError::Magic);
        }
        let id = fields.array("id")?;
        let mut number = |name| fields.array(name).map(u64::from_le_bytes);
        let trailer = Self {
            id,
            index: number("index")?,
            length: number("length of the index")?,
            file: number("length of the file")?,
            tag: fields.array("tag")?,
        };
        if trailer.file != file {
            return Err(FormatError::Field("length of the file"));
        }
        let aligned = trailer.index % BLOCK as u64 == 0 && file % BLOCK as u64 == 0;
        let end = trailer.index.checked_add(trailer.length);
        let inside = trailer.index >= HEADER as u64 && trailer.length >= TAG_BYTES as u64;
        if !aligned || !inside || end != file.checked_sub(TRAILER as u64) {
            return Err(FormatError::Field("index"));
        }
        match fields.0.is_empty() {
            true => Ok(trailer),
            false => Err(FormatError::Field("end")),
        }
    }
}

/// Reads fields from the beginning of a slice, and shortens the slice.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        name: &'static str,
    ) -> Result<[u8; N], FormatError> {
        self.take().ok_or(FormatError::Field(name))
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<u32, FormatError> {
        self.array(name).map(u32::from_le_bytes)
    }

    pub(crate) fn bytes(
        &mut self,
        name: &'static str,
        length: usize,
    ) -> Result<&'a [u8], FormatError> {
        let (first, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(FormatError::Field(name))?;
        self.0 = rest;
        Ok(first)
    }

    fn must_be(&mut self, name: &'static str, value: u32) -> Result<(), FormatError> {
        match self.number(name)? == value {
            true => Ok(()),
            false => Err(FormatError::Field(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_every_byte_counts() {
        let key = Key::random().unwrap();
        let (header, own) = Header::new(1_790_000_000, &key).unwrap();
        let bytes = header.bytes();
        assert_eq!(Header::parse(&bytes).unwrap(), header);
        assert_eq!(header.unwrap_key(&key).unwrap().bytes(), own.bytes());
        let other = Key::random().unwrap();
        assert_eq!(header.unwrap_key(&other).unwrap_err(), KeyError::Broken);
        for at in 0..HEADER {
            let mut changed = bytes;
            changed[at] ^= 1 << (at % 8);
            let refused = match Header::parse(&changed) {
                Err(_) => true,
                Ok(header) => header.unwrap_key(&key).is_err(),
            };
            assert!(refused, "byte {at}");
        }
        for length in [0, 7, 8, 11, 111, 4095] {
            assert!(Header::parse(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn the_end_knows_where_it_is() {
        let trailer = Trailer {
            id: [7; 16],
            index: 8192,
            length: 4096 - 64,
            file: 12288,
            tag: [9; 16],
        };
        assert_eq!(Trailer::parse(&trailer.bytes(), 12288).unwrap(), trailer);
        let wrong = [
            Trailer {
                index: 0,
                length: 12224,
                ..trailer
            },
            Trailer {
                index: 8191,
                length: 4033,
                ..trailer
            },
            Trailer {
                length: u64::MAX,
                ..trailer
            },
            Trailer {
                index: 12288,
                length: 0,
                ..trailer
            },
        ];
        for wrong in wrong {
            assert!(Trailer::parse(&wrong.bytes(), 12288).is_err(), "{wrong:?}");
        }
        assert!(Trailer::parse(&trailer.bytes(), 16384).is_err());
        assert!(Trailer::parse(&[], 12288).is_err());

        let (header, own) = Header::new(1, &Key::random().unwrap()).unwrap();
        let cipher = Gcm::new(&own).unwrap();
        let mut signed = trailer;
        signed.sign(&header, &cipher).unwrap();
        signed.check(&header, &cipher).unwrap();
        let other = Header::new(1, &Key::random().unwrap()).unwrap().0;
        assert!(signed.check(&other, &cipher).is_err());
        signed.file += 1;
        assert!(signed.check(&header, &cipher).is_err());
    }
}
