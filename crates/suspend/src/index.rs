//! The index of an image: the streams, and the location of each chunk.

use serde_json::Value;

use crate::codec::Codec;
use crate::format::{BLOCK, CHUNK, Fields, FormatError, HEADER, PAGE, TRAILER};
use crate::identity::is_exact;
use crate::key::TAG_BYTES;

/// The maximum number of streams in an image.
pub const MAX_STREAMS: usize = 64;
/// The maximum length of the name of a stream, in bytes.
pub const MAX_NAME: usize = 64;
/// The maximum length of the identity, in bytes of JSON.
pub const MAX_IDENTITY: usize = 1 << 20;
/// Size of an entry of the index, in bytes.
const ENTRY_BYTES: usize = 24;

/// A named sequence of bytes in an image, such as the memory or the state of the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// The name of the stream: letters, digits, points and hyphens.
    pub name: String,
    /// The size of the stream in bytes.
    pub size: u64,
    /// The number of the stream's first chunk.
    pub first: u64,
}

impl StreamInfo {
    /// Returns the number of chunks of the stream. The last chunk may be shorter than the others.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.size.div_ceil(CHUNK as u64)
    }
}

/// The location of a chunk in the file. A chunk that has only zeros is not stored and has no
/// location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The pages that are not zeros, one bit each; the lowest bit is the first page.
    pub pages: u64,
    /// The offset of the sealed chunk in the file, in bytes.
    pub offset: u64,
    /// The length of the sealed chunk in the file in bytes, with padding and tag.
    pub length: u32,
    /// The number of bytes of padding before the tag. The length includes the padding.
    pub padding: u16,
    /// The number of the chunk's codec.
    codec: u8,
}

impl Entry {
    /// Returns the entry of a stored chunk.
    #[must_use]
    pub const fn new(codec: Codec, pages: u64, offset: u64, length: u32, padding: u16) -> Self {
        Self {
            pages,
            offset,
            length,
            padding,
            codec: codec as u8,
        }
    }

    /// Returns the codec of the chunk.
    #[must_use]
    pub fn codec(&self) -> Codec {
        // The number of the codec was checked when the index was read.
        Codec::from_number(self.codec).unwrap_or(Codec::Raw)
    }

    /// Returns true if the chunk has only zeros.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Returns the number of bytes that the stored pages have when they are unpacked, for a chunk
    /// of this length.
    #[must_use]
    pub fn unpacked(&self, chunk: usize) -> usize {
        crate::zero::runs(self.pages, chunk).map(|run| run.1).sum()
    }

    /// Returns the offset in the file at which the sealed chunk ends.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.pages.to_le_bytes());
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(self.length.to_le_bytes());
        bytes.extend(self.padding.to_le_bytes());
        bytes.extend([self.codec, 0]);
    }

    fn take(fields: &mut Fields<'_>, chunk: usize, area: u64) -> Result<Self, FormatError> {
        let entry = Self {
            pages: u64::from_le_bytes(fields.array("entry")?),
            offset: u64::from_le_bytes(fields.array("entry")?),
            length: fields.number("entry")?,
            padding: u16::from_le_bytes(fields.array("entry")?),
            codec: fields.array::<1>("entry")?[0],
        };
        let reserved = fields.array::<1>("entry")?[0];
        if entry.is_empty() {
            return match entry == Self::default() && reserved == 0 {
                true => Ok(entry),
                false => Err(FormatError::Field("entry of zeros")),
            };
        }
        let pages = chunk.div_ceil(PAGE);
        let fits = pages >= 64 || entry.pages >> pages == 0;
        let codec = Codec::from_number(entry.codec).ok_or(FormatError::Field("codec"))?;
        // The length of the packed pages, without padding and tag.
        let around = usize::from(entry.padding) + TAG_BYTES;
        let packed = (entry.length as usize).checked_sub(around);
        let packed = packed.ok_or(FormatError::Field("length of a chunk"))?;
        let whole = entry.unpacked(chunk);
        let length = match codec {
            Codec::Raw => packed == whole,
            _ => (1..whole).contains(&packed),
        };
        let padding = usize::from(entry.padding) < BLOCK;
        let end = entry.offset.checked_add(u64::from(entry.length));
        let inside = entry.offset >= HEADER as u64 && end.is_some_and(|end| end <= area);
        if !fits || !length || !padding || !inside || reserved != 0 {
            return Err(FormatError::Field("entry"));
        }
        Ok(entry)
    }
}

/// The bytes between two chunks, which no authentication tag covers. They are zeros, and fewer than
/// a block.
pub type Gap = std::ops::Range<u64>;

/// The index of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// The facts that must be unchanged when the image is restored.
    pub identity: Value,
    /// The streams. The chunks of all streams are numbered in one sequence.
    pub streams: Vec<StreamInfo>,
    /// The entry of each chunk, by its number.
    pub entries: Vec<Entry>,
}

impl Index {
    /// Returns the streams for these names and sizes in bytes.
    ///
    /// # Errors
    /// Fails if there are too many streams, or if a name is invalid.
    pub fn streams<'a>(
        given: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Vec<StreamInfo>, FormatError> {
        let mut streams: Vec<StreamInfo> = Vec::new();
        let mut first = 0u64;
        for (name, size) in given {
            let known = streams.iter().any(|stream| stream.name == name);
            if !is_name(name) || known || streams.len() == MAX_STREAMS {
                return Err(FormatError::Field("stream"));
            }
            let stream = StreamInfo {
                name: name.to_owned(),
                size,
                first,
            };
            first = first
                .checked_add(stream.chunks())
                .ok_or(FormatError::Field("size of a stream"))?;
            streams.push(stream);
        }
        Ok(streams)
    }

    /// Returns the number of chunks of all these streams.
    #[must_use]
    pub fn chunks(streams: &[StreamInfo]) -> u64 {
        streams.last().map_or(0, |last| last.first + last.chunks())
    }

    /// Returns the stream to which a chunk belongs.
    #[must_use]
    pub fn stream_of(&self, chunk: u64) -> Option<&StreamInfo> {
        let behind = self.streams.partition_point(|stream| stream.first <= chunk);
        // An empty stream has no chunk, and its `first` is the first chunk of the next stream.
        let streams = self.streams.get(..behind)?.iter().rev();
        streams
            .take_while(|stream| chunk >= stream.first)
            .find(|stream| chunk < stream.first + stream.chunks())
    }

    /// Returns the bytes of the index before they are sealed. Padding makes the index, its tag and
    /// the trailer together end at the end of a block.
    ///
    /// # Errors
    /// Fails if the identity is too long or contains fractions.
    pub fn bytes(&self) -> Result<Vec<u8>, FormatError> {
        let identity = self.identity.to_string();
        let mut bytes =
            Vec::with_capacity(self.entries.len() * ENTRY_BYTES + identity.len() + BLOCK);
        let short = u32::try_from(identity.len()).unwrap_or(u32::MAX);
        if identity.len() > MAX_IDENTITY || !is_exact(&self.identity) {
            return Err(FormatError::Field("identity"));
        }
        let count = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        bytes.extend(count.to_le_bytes());
        bytes.extend(short.to_le_bytes());
        for stream in &self.streams {
            bytes.extend(stream.size.to_le_bytes());
            // The length of the name was checked when the stream was made.
            bytes.push(u8::try_from(stream.name.len()).unwrap_or(u8::MAX));
            bytes.extend(stream.name.as_bytes());
        }
        bytes.extend(identity.as_bytes());
        for entry in &self.entries {
            entry.put(&mut bytes);
        }
        let end = (bytes.len() + TAG_BYTES + TRAILER).next_multiple_of(BLOCK);
        bytes.resize(end - TAG_BYTES - TRAILER, 0);
        Ok(bytes)
    }

    /// Reads a decrypted index. `area` is the offset of the index in the file; all chunks must end
    /// before this offset.
    ///
    /// # Errors
    /// Fails with a [`FormatError`].
    pub fn parse(bytes: &[u8], area: u64) -> Result<Self, FormatError> {
        let mut fields = Fields(bytes);
        let count = fields.number("streams")? as usize;
        let identity = fields.number("identity")? as usize;
        if count > MAX_STREAMS || identity > MAX_IDENTITY {
            return Err(FormatError::Field("streams"));
        }
        let mut given = Vec::with_capacity(count);
        for _ in 0..count {
            let size = u64::from_le_bytes(fields.array("stream")?);
            let length = fields.array::<1>("stream")?[0];
            let name = fields.bytes("stream", usize::from(length))?;
            let name = std::str::from_utf8(name).map_err(|_| FormatError::Field("stream"))?;
            given.push((name, size));
        }
        let identity = fields.bytes("identity", identity)?;
        let identity =
            serde_json::from_slice(identity).map_err(|_| FormatError::Field("identity"))?;
        if !is_exact(&identity) {
            return Err(FormatError::Field("identity"));
        }
        let streams = Self::streams(given)?;
        let chunks = Self::chunks(&streams);
        // The number of chunks is limited by the length of the index, so a damaged number cannot
        // reserve too much memory.
        if chunks > (fields.0.len() / ENTRY_BYTES) as u64 {
            return Err(FormatError::Field("entries"));
        }
        let mut entries = Vec::with_capacity(fields.0.len() / ENTRY_BYTES);
        for stream in &streams {
            for number in 0..stream.chunks() {
                let chunk = length_of(stream, number);
                entries.push(Entry::take(&mut fields, chunk, area)?);
            }
        }
        if fields.0.len() >= BLOCK || fields.0.iter().any(|byte| *byte != 0) {
            return Err(FormatError::Field("padding"));
        }
        Ok(Self {
            identity,
            streams,
            entries,
        })
    }

    /// Returns the numbers of the stored chunks in their order in the file, and the gaps between
    /// the chunks up to `area`.
    ///
    /// # Errors
    /// Fails if two chunks overlap, or if a gap is at least as long as a block.
    pub fn layout(&self, area: u64) -> Result<(Vec<u64>, Vec<Gap>), FormatError> {
        let somewhere = self.entries.iter().enumerate();
        let somewhere = somewhere.filter(|(_, entry)| !entry.is_empty());
        let mut order: Vec<(u64, usize)> = somewhere
            .map(|(number, entry)| (entry.offset, number))
            .collect();
        order.sort_unstable();
        let mut gaps = Vec::new();
        let mut end = HEADER as u64;
        let mut gap = |from: u64, to: u64| {
            let length = to.checked_sub(from).filter(|length| *length < BLOCK as u64);
            match length {
                None => return Err(FormatError::Field("order of chunks")),
                Some(0) => {}
                Some(_) => gaps.push(from..to),
            }
            Ok(())
        };
        for (offset, number) in &order {
            gap(end, *offset)?;
            end = self.entries[*number].end();
        }
        gap(end, area)?;
        Ok((
            order.iter().map(|(_, number)| *number as u64).collect(),
            gaps,
        ))
    }
}

/// Returns the number of bytes in a chunk of a stream. The number of the chunk counts from the
/// stream's first chunk.
pub(crate) fn length_of(stream: &StreamInfo, number: u64) -> usize {
    let left = stream
        .size
        .saturating_sub(number.saturating_mul(CHUNK as u64));
    usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))
}

/// Returns true if the name is valid for a stream.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Index {
        let streams = Index::streams([
            ("memory", 3 * CHUNK as u64 - 5000),
            ("empty", 0),
            ("cpu", 9),
        ]);
        let short = 10 + 16;
        Index {
            identity: json!({"machine": "pc-q35-7.2"}),
            streams: streams.unwrap(),
            entries: vec![
                Entry::new(Codec::Lz4, u64::MAX, 4096, short, 0),
                Entry::default(),
                // In the last chunk of the memory, the last page is short and has only zeros; the
                // page before it is whole and stored.
                Entry::new(Codec::Raw, 1 << 61, 4096 + 26, 4096 + 16, 0),
                Entry::new(Codec::Raw, 1, 8192 + 42, 4096 - 42, 4096 - 42 - 25),
            ],
        }
    }

    #[test]
    fn an_index_reads_back() {
        let index = sample();
        let bytes = index.bytes().unwrap();
        assert_eq!((bytes.len() + TAG_BYTES + TRAILER) % BLOCK, 0);
        assert_eq!(Index::parse(&bytes, 12288).unwrap(), index);
        assert_eq!(index.layout(12288).unwrap(), (vec![0, 2, 3], vec![]));
        assert_eq!(index.stream_of(2).unwrap().name, "memory");
        assert_eq!(index.stream_of(3).unwrap().name, "cpu");
        assert_eq!(index.stream_of(4), None);
        // With this area, the last chunk ends behind the area.
        assert!(Index::parse(&bytes, 8192).is_err());
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for length in 0..used {
            assert!(Index::parse(&bytes[..length], 12288).is_err(), "{length}");
        }
    }

    #[test]
    fn malformed_indexes_are_refused() {
        let parse = |change: &dyn Fn(&mut Index)| {
            let mut index = sample();
            change(&mut index);
            Index::parse(&index.bytes().unwrap(), 12288)
        };
        assert!(parse(&|_| ()).is_ok());
        assert!(parse(&|index| index.entries[0].codec = 3).is_err());
        assert!(parse(&|index| index.entries[0].length = 15).is_err());
        assert!(parse(&|index| index.entries[0].length = u32::MAX).is_err());
        assert!(parse(&|index| index.entries[0].offset = u64::MAX).is_err());
        assert!(parse(&|index| index.entries[0].offset = 0).is_err());
        assert!(parse(&|index| index.entries[1].offset = 1).is_err());
        // This entry names a page that its chunk does not have.
        assert!(parse(&|index| index.entries[3].pages = 2).is_err());
        assert!(parse(&|index| index.entries[2].length += 1).is_err());
        assert!(parse(&|index| index.entries[3].padding = 4096).is_err());
        assert!(parse(&|index| index.streams[1].name = "memory".to_owned()).is_err());
        assert!(parse(&|index| index.streams[1].name = String::new()).is_err());
        assert!(parse(&|index| index.streams[0].size = u64::MAX).is_err());
        assert!(Index::streams([("../x", 1)]).is_err());
    }

    #[test]
    fn chunks_neither_overlap_nor_lie_apart() {
        let mut index = sample();
        index.entries[2].offset -= 1;
        assert!(index.layout(12288).is_err());
        index.entries[2].offset += 10;
        assert!(index.layout(12288).is_err());
        index.entries[3].offset += 9;
        let gaps = index.layout(12297).unwrap().1;
        assert_eq!((gaps.len(), gaps[0].clone()), (1, 4122..4131));
        assert!(index.layout(12297 + 4096).is_err());
    }
}
