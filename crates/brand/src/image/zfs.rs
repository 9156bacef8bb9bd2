//! Reads the first record of streams of `zfs send`.
//!
//! Only OpenZFS itself can read such a stream, into a new file system. This module checks the first
//! record, so that a stream that cannot become a root is refused before any change. OpenZFS checks
//! all other records by their checksums.

use std::io::{self, Read};
use std::path::Path;

use super::decompress::Stream;
use super::limits::LIMITS;
use super::printable::harmless;
use crate::Error;

/// The offset of the mark in a stream.
pub const AT: usize = 8;
/// The mark in the byte order of the sender's processor: little endian, big endian.
pub const MAGIC: [&[u8]; 2] = [b"\xac\xcb\xba\xf5\x02\0\0\0", b"\0\0\0\x02\xf5\xba\xcb\xac"];

/// The message for a host on which no ZFS can receive the stream.
pub const REFUSED: &str = "a ZFS stream, which only a zone that is stored on ZFS is installed from: receive it with \
     zfs receive, and give the directory (-d)";

/// Size of the checked part of the first record, in bytes.
const RECORD: usize = 56;

/// The type of a single stream, not of a package of several.
const SUBSTREAM: u64 = 1;
/// The type of a file system, not of a volume.
const FILE_SYSTEM: u32 = 2;
/// Feature flags of a stream: raw and encrypted; with redacted data; the rest of an interrupted
/// stream; deduplicated blocks.
const RAW: u64 = 1 << 24;
const REDACTED: u64 = 1 << 21;
const RESUMED: u64 = 1 << 20;
const DEDUP: u64 = 1;

/// A stream with one complete file system.
#[derive(Debug)]
pub struct ZfsStream {
    stream: Stream,
    /// The number of bytes that may still be read.
    left: u64,
}

impl ZfsStream {
    /// Opens a stream, plain or compressed. Returns `None` if the file is not a ZFS stream.
    ///
    /// # Errors
    /// Fails with [`Error::Source`] if the stream cannot become a root.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        let fail = |error| Error::io("open", path, error);
        let refuse = |problem: String| Error::Source {
            origin: path.to_owned(),
            problem: harmless(&problem),
        };
        let mut stream = Stream::open(path).map_err(fail)?;
        let begin = stream.begin().map_err(|error| refuse(error.to_string()))?;
        if !is_stream(begin) {
            return Ok(None);
        }
        check(begin).map_err(|problem| refuse(problem.to_owned()))?;
        Ok(Some(Self {
            stream,
            left: LIMITS.bytes,
        }))
    }
}

impl Read for ZfsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| io::Error::other("longer than a root may be"))?;
        Ok(read)
    }
}

/// Returns true if these bytes are the start of a ZFS stream.
pub fn is_stream(begin: &[u8]) -> bool {
    let at = begin.get(AT..).unwrap_or_default();
    MAGIC.iter().any(|magic| at.starts_with(magic))
}

/// Returns the reason why a stream with this first record is not one complete file system, if it is
/// not.
fn check(begin: &[u8]) -> Result<(), &'static str> {
    let record = begin.get(..RECORD).ok_or("a ZFS stream that is cut off")?;
    let little = record[AT..].starts_with(MAGIC[0]);
    let number = |at: usize, length: usize| -> u64 {
        let bytes = &record[at..at + length];
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match little {
            true => bytes.iter().rev().fold(0, add),
            false => bytes.iter().fold(0, add),
        }
    };
    let (kind, version) = (number(0, 4), number(16, 8));
    let (form, features) = (version & 3, version >> 2);
    if kind != 0 {
        return Err("a ZFS stream whose beginning is missing");
    }
    if form != SUBSTREAM {
        return Err(
            "a ZFS stream with properties, or of several file systems or snapshots: send one snapshot, \
             without -R, -p, -b and -I",
        );
    }
    if number(32, 4) != u64::from(FILE_SYSTEM) {
        return Err("a ZFS stream of a volume, no file system");
    }
    if number(48, 8) != 0 {
        return Err("an increment of a ZFS file system: send the whole snapshot, without -i");
    }
    for (feature, problem) in [
        (
            RAW,
            "an encrypted ZFS stream, whose key is not here: send it without -w",
        ),
        (REDACTED, "a ZFS stream without some of its data"),
        (RESUMED, "the rest of a ZFS stream that was cut off"),
        (
            DEDUP,
            "a ZFS stream of the old form that zfs send -D wrote: send it without",
        ),
    ] {
        if features & feature != 0 {
            return Err(problem);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a first record in the byte order of a processor.
    fn record(little: bool, kind: u32, form: u64, objects: u32, from: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |value: u64, length: usize| match little {
            true => bytes.extend(&value.to_le_bytes()[..length]),
            false => bytes.extend(&value.to_be_bytes()[8 - length..]),
        };
        put(kind.into(), 4);
        put(0, 4);
        put(0x0002_f5ba_cbac, 8);
        put(form, 8);
        put(1_700_000_000, 8);
        put(objects.into(), 4);
        put(0, 4);
        put(17, 8);
        put(from, 8);
        bytes.resize(512, b'n');
        bytes
    }

    #[test]
    fn the_whole_of_one_file_system_is_taken() {
        for little in [true, false] {
            let lz4 = 1 | (1 << 17) << 2;
            for form in [1, lz4] {
                let begin = record(little, 0, form, 2, 0);
                assert!(is_stream(&begin));
                assert_eq!(check(&begin), Ok(()));
            }
        }
    }

    #[test]
    fn all_else_is_refused_by_what_it_is() {
        for little in [true, false] {
            for (begin, word) in [
                (record(little, 0, 2, 2, 0), "-R"),
                (record(little, 0, 1, 3, 0), "volume"),
                (record(little, 0, 1, 2, 9), "increment"),
                (record(little, 0, 1 | RAW << 2, 2, 0), "encrypted"),
                (record(little, 0, 1 | DEDUP << 2, 2, 0), "-D"),
                (record(little, 0, 1 | REDACTED << 2, 2, 0), "some of"),
                (record(little, 0, 1 | RESUMED << 2, 2, 0), "rest"),
                (record(little, 3, 1, 2, 0), "beginning is missing"),
                (record(little, 0, 1, 2, 0)[..40].to_vec(), "cut off"),
            ] {
                assert!(is_stream(&begin));
                let problem = check(&begin).unwrap_err();
                assert!(problem.contains(word), "{problem}");
            }
        }
    }

    #[test]
    fn other_files_are_none_and_long_ones_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"PK\x03\x04 something else").unwrap();
        assert!(ZfsStream::open(&path).unwrap().is_none());
        std::fs::write(&path, record(true, 0, 1, 2, 0)).unwrap();
        let mut stream = ZfsStream::open(&path).unwrap().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, std::fs::read(&path).unwrap());
        let mut stream = ZfsStream::open(&path).unwrap().unwrap();
        stream.left = 100;
        assert!(io::copy(&mut stream, &mut io::sink()).is_err());
    }
}
