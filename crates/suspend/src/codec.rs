//! Packs the pages of a chunk.

use lz4::block::{self, CompressionMode};
use zstd_safe::{CCtx, CParameter, DCtx};

use crate::format::CHUNK;

/// A way to pack a chunk; the numbers stand in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// As it is.
    Raw = 0,
    /// An LZ4 block.
    Lz4 = 1,
    /// A Zstandard frame.
    Zstd = 2,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Lz4, Self::Zstd];

    /// The codec with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| *codec as u8 == number)
    }

    /// Its name, as in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// The most that packing may leave to be worth unpacking: a chunk that only gets this
/// much smaller is stored as it is.
const fn worthwhile(length: usize) -> usize {
    length - length / 32
}

/// LZ4's acceleration: the higher, the less it searches for repeated bytes. Measured on files of
/// /usr, a second of CPU time packs 1.2 times as much as with 8, to images that are a tenth larger;
/// nearly all of the time that a sealed chunk takes is this.
const LZ4_ACCELERATION: i32 = 16;

/// Packs one chunk after another. One for each thread.
pub struct Packer {
    zstd: CCtx<'static>,
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// Makes a packer that has packed nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let mut zstd = CCtx::create();
        // These are known to every release of the library; without them frames are
        // a few bytes longer.
        let _ = zstd.set_parameter(CParameter::CompressionLevel(1));
        let _ = zstd.set_parameter(CParameter::ContentSizeFlag(false));
        Self { zstd }
    }

    /// Packs pages into `out`, which has [`PACK_ROOM`]; `None` when it is not worth it, for
    /// this codec.
    pub fn pack(&mut self, codec: Codec, pages: &[u8], out: &mut [u8]) -> Option<usize> {
        let most = worthwhile(pages.len());
        let packed = match codec {
            Codec::Raw => None,
            // Quicker with room for the worst case: it need not look for the end.
            Codec::Lz4 => {
                let mode = CompressionMode::FAST(LZ4_ACCELERATION);
                block::compress_to_buffer(pages, Some(mode), false, out).ok()
            }
            Codec::Zstd => self.zstd.compress2(out.get_mut(..most)?, pages).ok(),
        };
        packed.filter(|length| *length <= most)
    }
}

/// Room that [`Packer::pack`] needs for a chunk.
pub const PACK_ROOM: usize = CHUNK + CHUNK / 255 + 16;

/// Unpacks one chunk after another. One for each thread.
pub(crate) struct Unpacker {
    zstd: DCtx<'static>,
    pages: Vec<u8>,
}

impl Unpacker {
    pub(crate) fn new() -> Self {
        Self {
            zstd: DCtx::create(),
            pages: vec![0; CHUNK],
        }
    }

    /// The pages of a chunk, which must be exactly `length` bytes; `None` when they
    /// are not.
    pub(crate) fn unpack<'a>(
        &'a mut self,
        codec: Codec,
        packed: &'a [u8],
        length: usize,
    ) -> Option<&'a [u8]> {
        let out = self.pages.get_mut(..length)?;
        let got = match codec {
            Codec::Raw => return (packed.len() == length).then_some(packed),
            // Checks every length: it never reads or writes beyond the two.
            Codec::Lz4 => {
                let most = i32::try_from(length).ok();
                block::decompress_to_buffer(packed, most, out).ok()?
            }
            Codec::Zstd => self.zstd.decompress(out, packed).ok()?,
        };
        (got == length).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        let words = (0u32..).flat_map(|number| format!("line {} ", number % 999).into_bytes());
        words.take(CHUNK).collect()
    }

    #[test]
    fn packed_chunks_unpack_to_the_original() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
        let mut out = vec![0; PACK_ROOM];
        for codec in [Codec::Lz4, Codec::Zstd] {
            let length = packer.pack(codec, &text(), &mut out).unwrap();
            assert!(length < CHUNK / 3, "{codec:?}");
            let packed = &out[..length];
            assert_eq!(unpacker.unpack(codec, packed, CHUNK).unwrap(), text());
            // Neither more nor less than the index says.
            assert!(unpacker.unpack(codec, packed, CHUNK - 4096).is_none());
            assert!(
                unpacker
                    .unpack(codec, &packed[..length - 1], CHUNK)
                    .is_none()
            );
            assert!(unpacker.unpack(codec, b"nonsense", CHUNK).is_none());
        }
        assert_eq!(packer.pack(Codec::Raw, &text(), &mut out), None);
        assert_eq!(unpacker.unpack(Codec::Raw, b"abc", 3).unwrap(), b"abc");
        assert!(unpacker.unpack(Codec::Raw, b"abc", 4).is_none());
    }

    #[test]
    fn incompressible_chunks_are_stored_unpacked() {
        let mut random = 1u64;
        let mut byte = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.to_le_bytes()[3]
        };
        let noise: Vec<u8> = (0..CHUNK).map(|_| byte()).collect();
        let mut out = vec![0; PACK_ROOM];
        for codec in Codec::ALL {
            assert_eq!(Packer::new().pack(codec, &noise, &mut out), None);
        }
        for number in 0..=255 {
            let known = Codec::from_number(number).map(|codec| codec as u8);
            assert_eq!(known, (number < 3).then_some(number));
        }
    }
}
