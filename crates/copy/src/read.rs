//! Reads a tar stream of any origin. Names, records and maps are bounded.

use std::io::{self, Read};

use crate::header::{BLOCK, Kind, Member, Piece, checksum, number, padding, records, time};
use crate::{Attributes, Error};

/// Maximum size of the pax records of a member, in bytes: the kernel allows 64 KiB for one
/// attribute, and a file rarely has more than a few.
const MAX_PAX_BYTES: u64 = 1 << 20;

/// Maximum number of pieces of a sparse file.
pub(crate) const MAX_PIECES: usize = 16_384;

/// Maximum length of a line in the map of a sparse file: a number of 64 bits.
const MAX_DIGITS: usize = 20;

/// A tar stream that is being read.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    from: R,
    attributes: Attributes,
    /// The number of bytes of the present member's content that were not read.
    left: u64,
    padding: usize,
    /// True if a block was read.
    has_begun: bool,
}

/// The records that come before the header of a member.
#[derive(Debug, Default)]
struct Extra {
    records: Vec<(String, Vec<u8>)>,
}

impl Extra {
    fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.records.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_slice())
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Error> {
        let parse = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        match self.get(key) {
            Some(value) => parse(value).map(Some).ok_or(MALFORMED),
            None => Ok(None),
        }
    }
}

const MALFORMED: Error = Error::Stream("the stream has a malformed header");
const CUT: Error = Error::Stream("the stream ends too early: its last file was not copied");

impl<R: Read> Reader<R> {
    pub(crate) const fn new(from: R) -> Self {
        Self::with(from, Attributes::User)
    }

    pub(crate) const fn with(from: R, attributes: Attributes) -> Self {
        Self {
            from,
            attributes,
            left: 0,
            padding: 0,
            has_begun: false,
        }
    }

    /// Returns the next member, or `None` after the end mark. Skips unread content of the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, Error> {
        let mut extra = Extra::default();
        loop {
            self.skip()?;
            let mut block = [0; BLOCK];
            match self.fill(&mut block) {
                Err(Error::Stream(_)) if !self.has_begun => return Err(Error::Empty),
                other => other?,
            }
            self.has_begun = true;
            if block == [0; BLOCK] {
                return Ok(None);
            }
            if number(&block[148..156]) != Some(checksum(&block)) {
                return Err(Error::Stream(
                    "the stream is not an uncompressed tar archive",
                ));
            }
            let size = number(&block[124..136]).ok_or(MALFORMED)?;
            let mut begin = |size: u64| {
                self.left = size;
                self.padding = padding(size);
            };
            match block[156] {
                b'x' => {
                    begin(size);
                    let text = self.text()?;
                    extra.records.extend(records(&text).ok_or(MALFORMED)?);
                }
                kind @ (b'L' | b'K') => {
                    begin(size);
                    let mut text = self.text()?;
                    text.truncate(
                        text.iter()
                            .position(|&byte| byte == 0)
                            .unwrap_or(text.len()),
                    );
                    let key = if kind == b'L' { "path" } else { "linkpath" };
                    extra.records.push((key.to_owned(), text));
                }
                // Records for all members, and the label of an archive.
                b'g' | b'V' => begin(size),
                _ => {
                    let size = extra.number("size")?.unwrap_or(size);
                    let mut member = member(&block, &extra, size, self.attributes)?;
                    begin(match member.kind {
                        Kind::File | Kind::Other(_) => size,
                        // A folder, a link or a device has no content, even if it has a size.
                        _ => 0,
                    });
                    if extra.get("GNU.sparse.major").is_some() {
                        self.sparse(&mut member, &extra)?;
                    }
                    return Ok(Some(member));
                }
            }
            if extra.records.len() > 4096 {
                return Err(MALFORMED);
            }
        }
    }

    /// Reads content of the present member; 0 at its end.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(to.len());
        if most == 0 {
            return Ok(0);
        }
        let length = retry(|| self.from.read(&mut to[..most]))?;
        if length == 0 {
            return Err(CUT);
        }
        self.left -= length as u64;
        Ok(length)
    }

    /// Reads the stream up to its end, so that its writer can finish.
    pub(crate) fn drain(mut self) -> Result<(), Error> {
        let mut rest = [0; 8192];
        while retry(|| self.from.read(&mut rest))? > 0 {}
        Ok(())
    }

    fn fill(&mut self, to: &mut [u8]) -> Result<(), Error> {
        match self.from.read_exact(to) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CUT),
            other => Ok(other?),
        }
    }

    fn skip(&mut self) -> Result<(), Error> {
        let mut rest = [0; 8192];
        while self.read(&mut rest)? > 0 {}
        let padding = std::mem::take(&mut self.padding);
        self.fill(&mut rest[..padding])
    }

    /// Reads all content of a header that extends the next one.
    fn text(&mut self) -> Result<Vec<u8>, Error> {
        if self.left > MAX_PAX_BYTES {
            return Err(Error::Stream("the stream has a header of more than 1 MiB"));
        }
        let mut text = vec![0; usize::try_from(self.left).unwrap_or(0)];
        self.fill(&mut text)?;
        self.left = 0;
        Ok(text)
    }

    /// Reads the map of a sparse file of GNU tar, version 1.0.
    fn sparse(&mut self, member: &mut Member, extra: &Extra) -> Result<(), Error> {
        if extra.get("GNU.sparse.major") != Some(b"1")
            || extra.get("GNU.sparse.minor") != Some(b"0")
        {
            return Err(Error::Stream(
                "the stream has a sparse file of an unknown form",
            ));
        }
        if let Some(name) = extra.get("GNU.sparse.name") {
            member.name = name.to_vec();
        }
        member.size = extra.number("GNU.sparse.realsize")?.ok_or(MALFORMED)?;
        let mut map = Map {
            reader: self,
            block: [0; BLOCK],
            at: BLOCK,
        };
        let count = usize::try_from(map.number()?).unwrap_or(usize::MAX);
        if count > MAX_PIECES {
            return Err(Error::Stream(
                "the stream has a sparse file of too many pieces",
            ));
        }
        let (mut pieces, mut end, mut sum): (Vec<Piece>, u64, u64) = (Vec::new(), 0, 0);
        for _ in 0..count {
            let (offset, length) = (map.number()?, map.number()?);
            if offset < end {
                return Err(MALFORMED);
            }
            end = offset.checked_add(length).ok_or(MALFORMED)?;
            sum = sum.checked_add(length).ok_or(MALFORMED)?;
            pieces.push((offset, length));
        }
        if end > member.size || sum != self.left {
            return Err(MALFORMED);
        }
        member.pieces = Some(pieces);
        Ok(())
    }
}

/// The map at the begin of a sparse file's content.
struct Map<'a, R> {
    reader: &'a mut Reader<R>,
    block: [u8; BLOCK],
    at: usize,
}

impl<R: Read> Map<'_, R> {
    fn number(&mut self) -> Result<u64, Error> {
        let mut digits = Vec::new();
        loop {
            if self.at == BLOCK {
                self.reader.left = self
                    .reader
                    .left
                    .checked_sub(BLOCK as u64)
                    .ok_or(MALFORMED)?;
                self.reader.fill(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => break,
                b'0'..=b'9' if digits.len() < MAX_DIGITS => digits.push(byte),
                _ => return Err(MALFORMED),
            }
        }
        let text = std::str::from_utf8(&digits).map_err(|_| MALFORMED)?;
        text.parse().map_err(|_| MALFORMED)
    }
}

fn member(
    block: &[u8; BLOCK],
    extra: &Extra,
    size: u64,
    attributes: Attributes,
) -> Result<Member, Error> {
    let text = |range: std::ops::Range<usize>| {
        let field = &block[range];
        let end = field.iter().position(|&byte| byte == 0);
        field[..end.unwrap_or(field.len())].to_vec()
    };
    let mut name = text(0..100);
    let prefix = text(345..500);
    // Only POSIX archives have a prefix; in GNU archives these bytes have another meaning.
    if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
        name = [prefix, name].join(&b'/');
    }
    let name = extra.get("path").map_or(name, <[u8]>::to_vec);
    let link = || {
        let long = extra.get("linkpath").map(<[u8]>::to_vec);
        long.unwrap_or_else(|| text(157..257))
    };
    let kind = match block[156] {
        // Very old archives mark a folder by a slash at the end of its name.
        0 if name.ends_with(b"/") => Kind::Folder,
        0 | b'0' | b'7' => Kind::File,
        b'1' => Kind::HardLink(link()),
        b'2' => Kind::Symlink(link()),
        b'5' | b'D' => Kind::Folder,
        b'3' | b'4' => Kind::Other("a device node"),
        b'6' => Kind::Other("a FIFO"),
        b'S' => Kind::Other(
            "a sparse file in an old form of GNU tar (tar --format=posix writes a new one)",
        ),
        _ => Kind::Other("of an unknown kind"),
    };
    let id = |range: std::ops::Range<usize>, key| -> Result<u32, Error> {
        let long = extra.number(key)?;
        let id = long.or_else(|| number(&block[range])).ok_or(MALFORMED)?;
        u32::try_from(id).map_err(|_| MALFORMED)
    };
    let mtime = match extra.get("mtime") {
        Some(text) => time(text).ok_or(MALFORMED)?,
        // A malformed time is no reason to refuse a file.
        None => {
            let seconds = number(&block[136..148]).unwrap_or(0);
            (i64::try_from(seconds).unwrap_or(0), 0)
        }
    };
    let xattrs = extra.records.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("SCHILY.xattr.")?;
        attributes
            .admits(name)
            .then(|| (name.to_owned(), value.clone()))
    });
    Ok(Member {
        name,
        kind,
        // The field may also hold bits of the file type.
        mode: u32::try_from(number(&block[100..108]).ok_or(MALFORMED)? & 0o7777).unwrap_or(0),
        uid: id(108..116, "uid")?,
        gid: id(116..124, "gid")?,
        mtime,
        xattrs: xattrs.collect(),
        size,
        pieces: None,
    })
}

fn retry(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::write::Writer;

    fn members() -> Vec<Member> {
        let long = b"a/".repeat(200);
        let file = Member {
            mode: 0o4755,
            uid: 3_000_000_000,
            gid: 7,
            mtime: (-5, 250_000_000),
            xattrs: vec![("user.note".to_owned(), b"\0\nx=".to_vec())],
            size: 5,
            ..Member::new(long.clone(), Kind::File)
        };
        let sparse = Member {
            size: 1 << 40,
            pieces: Some(vec![(0, 3), (1 << 39, 2)]),
            ..Member::new(b"holes\n".to_vec(), Kind::File)
        };
        vec![
            Member::new(b"folder".to_vec(), Kind::Folder),
            file,
            sparse,
            Member::new(b"link".to_vec(), Kind::Symlink(long.clone())),
            Member::new(b"\xff".to_vec(), Kind::HardLink(long)),
        ]
    }

    fn stream() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for member in members() {
            let map = writer.member(&member).unwrap();
            let content: u64 = match &member.pieces {
                Some(pieces) => pieces.iter().map(|(_, length)| length).sum(),
                None => member.size,
            };
            writer
                .content(&b"hello"[..usize::try_from(content).unwrap()])
                .unwrap();
            writer.pad(map + content).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<Member>, Error> {
        let mut reader = Reader::new(bytes);
        let mut list = Vec::new();
        while let Some(member) = reader.next()? {
            list.push(member);
        }
        Ok(list)
    }

    #[test]
    fn members_read_back_as_written() {
        assert_eq!(read_all(&stream()).unwrap(), members());
    }

    #[test]
    fn a_stream_without_its_end_is_refused() {
        let bytes = stream();
        for length in (0..bytes.len() - 2 * BLOCK).step_by(97) {
            assert!(read_all(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn other_data_is_no_archive() {
        assert!(matches!(read_all(&[b'x'; 2048]), Err(Error::Stream(_))));
        assert!(matches!(read_all(b""), Err(Error::Empty)));
    }

    #[test]
    fn a_header_without_a_bound_is_refused() {
        let mut huge = Member::new(b"pax".to_vec(), Kind::File);
        huge.size = 1 << 32;
        let mut writer = Writer::new(Vec::new());
        writer.member(&huge).unwrap();
        let mut bytes = writer.finish().unwrap();
        bytes[156] = b'x';
        let block: &mut [u8; BLOCK] = (&mut bytes[..BLOCK]).try_into().unwrap();
        let sum = checksum(block);
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let error = read_all(&bytes).unwrap_err().to_string();
        assert!(error.contains("more than 1 MiB"), "{error}");
    }

    proptest! {
        #[test]
        fn a_changed_stream_is_read_or_refused(at in 0_usize..8192, byte in any::<u8>()) {
            let mut bytes = stream();
            let length = bytes.len();
            bytes[at % length] = byte;
            let _ = read_all(&bytes);
        }
    }
}
