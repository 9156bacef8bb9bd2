//! Packs the pages of a chunk.

use lz4::block::{self, CompressionMode};
use zstd_safe::{CCtx, CParameter, DCtx};

use crate::format::CHUNK;

/// The compression of a chunk. The index of an image stores the number of the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The chunk is stored without compression.
    Raw = 0,
    /// The chunk is stored as an LZ4 block.
    Lz4 = 1,
    /// The chunk is stored as a Zstandard frame.
    Zstd = 2,
}

impl Codec {
    /// All codecs, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Lz4, Self::Zstd];

    /// Returns the codec with this number; `None` if no codec has the number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| *codec as u8 == number)
    }

    /// Returns the name of the codec, as options have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Returns the maximum packed length of a chunk, in bytes. A chunk that compression does not make
/// smaller than this is stored raw.
const fn worthwhile(length: usize) -> usize {
    length - length / 32
}

/// LZ4's acceleration factor. With a higher factor, LZ4 searches less for repeated bytes. Measured
/// on files of /usr: compared with factor 8, one second of CPU time packs 1.2 times as much, and
/// the images are a tenth larger. LZ4 takes nearly all of the CPU time of a packed and sealed
/// chunk.
const LZ4_ACCELERATION: i32 = 16;

/// Packs one chunk after another. Each thread has its own packer.
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
    /// Returns a packer. The packer has packed no chunk yet.
    #[must_use]
    pub fn new() -> Self {
        let mut zstd = CCtx::create();
        // Every release of the library knows these parameters. If a parameter is refused, the
        // frames are only a few bytes longer.
        let _ = zstd.set_parameter(CParameter::CompressionLevel(1));
        let _ = zstd.set_parameter(CParameter::ContentSizeFlag(false));
        Self { zstd }
    }

    /// Packs pages into `out`, which has the length [`PACK_ROOM`]. Returns `None` if this codec
    /// does not make the pages sufficiently smaller.
    pub fn pack(&mut self, codec: Codec, pages: &[u8], out: &mut [u8]) -> Option<usize> {
        let most = worthwhile(pages.len());
        let packed = match codec {
            Codec::Raw => None,
            // LZ4 is faster with an output buffer for the worst case, because LZ4 then need not
            // check for the end of the buffer.
            Codec::Lz4 => {
                let mode = CompressionMode::FAST(LZ4_ACCELERATION);
                block::compress_to_buffer(pages, Some(mode), false, out).ok()
            }
            Codec::Zstd => self.zstd.compress2(out.get_mut(..most)?, pages).ok(),
        };
        packed.filter(|length| *length <= most)
    }
}

/// Bytes of the output buffer that [`Packer::pack`] needs for a chunk.
pub const PACK_ROOM: usize = CHUNK + CHUNK / 255 + 16;

/// Unpacks one chunk after another. Each thread has its own unpacker.
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

    /// Returns the unpacked pages of a chunk; `None` if they are not exactly `length` bytes.
    pub(crate) fn unpack<'a>(
        &'a mut self,
        codec: Codec,
        packed: &'a [u8],
        length: usize,
    ) -> Option<&'a [u8]> {
        let out = self.pages.get_mut(..length)?;
        let got = match codec {
            Codec::Raw => return (packed.len() == length).then_some(packed),
            // LZ4 checks every length, so LZ4 never reads beyond the input or writes beyond the
            // output.
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
            // The unpacked length must be exactly the length in the index.
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
