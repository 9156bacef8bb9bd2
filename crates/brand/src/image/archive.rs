//! Reads tar archives.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::decompress::Stream;
use super::member::{BUFFER, Kind, Member};
use super::unpack::Unpack;
use crate::Error;
use crate::tree::Meta;

/// Maximum number of bytes between one member and the next: headers, long names and attributes are
/// kept in memory.
const HEADER_BUDGET: u64 = 8 << 20;

/// Maximum number of bytes of padding after the end of the archive. They are read to reach the
/// checksum of the compressed stream.
const MAX_TRAILER: u64 = 64 << 20;

/// Unpacks the archive of a stream, and reads the stream to its end.
pub fn unpack(unpack: &mut Unpack<'_>, stream: Stream) -> Result<(), Error> {
    let rest = unpack_stream(unpack, stream)?.finish(MAX_TRAILER);
    unpack.digest = rest.map_err(|error| unpack.refuse(error.to_string()))?;
    Ok(())
}

/// Returns the content of the first member of an archive if the member has this name, at most
/// `limit` bytes.
pub fn first_member(path: &Path, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let fail = |error| Error::io("read", path, error);
    let left = Cell::new(HEADER_BUDGET);
    let ended = Cell::new(false);
    let mut archive = open(path, &left, &ended)?;
    let mut entries = archive.entries().map_err(fail)?;
    let Some(entry) = entries.next() else {
        return Ok(None);
    };
    let entry = entry.map_err(fail)?;
    let called = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
    let same = called.strip_prefix("./").unwrap_or(&called) == Path::new(name);
    if !same || !entry.header().entry_type().is_file() || entry.size() > limit {
        return Ok(None);
    }
    left.set(u64::MAX);
    let mut content = Vec::new();
    entry.take(limit).read_to_end(&mut content).map_err(fail)?;
    Ok(Some(content))
}

/// Returns the first component of the first name in an archive. The folder `./`, which `tar -c .`
/// writes first, has no such component and is skipped.
pub fn first_name(path: &Path) -> Result<Option<OsString>, Error> {
    let fail = |error| Error::io("read", path, error);
    let left = Cell::new(HEADER_BUDGET);
    let ended = Cell::new(false);
    let mut archive = open(path, &left, &ended)?;
    for entry in archive.entries().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.header().entry_type().is_pax_global_extensions() {
            continue;
        }
        let called = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
        let mut parts = called.components();
        if let Some(part) = parts.find(|part| *part != Component::CurDir) {
            return Ok(Some(part.as_os_str().to_owned()));
        }
    }
    Ok(None)
}

/// Opens a file to read its headers, with the limits of this module.
fn open<'c>(
    path: &Path,
    left: &'c Cell<u64>,
    ended: &'c Cell<bool>,
) -> Result<Archive<Metered<'c, Stream>>, Error> {
    let stream = Stream::open(path).map_err(|error| Error::io("open", path, error))?;
    Ok(Archive::new(Metered {
        stream,
        left,
        ended,
    }))
}

/// Unpacks a tar stream up to its end, and returns the stream.
pub fn unpack_stream<R: Read>(unpack: &mut Unpack<'_>, stream: R) -> Result<R, Error> {
    let damaged = |unpack: &Unpack<'_>, error: &io::Error| unpack.refuse(error.to_string());
    let left = Cell::new(HEADER_BUDGET);
    let ended = Cell::new(false);
    let mut archive = Archive::new(Metered {
        stream,
        left: &left,
        ended: &ended,
    });
    let entries = archive.entries().map_err(|error| damaged(unpack, &error))?;
    let mut buffer = vec![0; BUFFER];
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged(unpack, &error))?;
        left.set(u64::MAX);
        if !entry.header().entry_type().is_pax_global_extensions() {
            let member = member(unpack, &mut entry)?;
            unpack.put(&member, &mut entry, &mut buffer)?;
        }
        let unread = io::copy(&mut entry, &mut io::sink());
        unread.map_err(|error| damaged(unpack, &error))?;
        left.set(HEADER_BUDGET);
    }
    if ended.get() {
        return Err(unpack.refuse("truncated: the end of the archive is missing"));
    }
    Ok(archive.into_inner().stream)
}

/// Counts the bytes read, and remembers whether the stream ended early.
struct Metered<'c, R> {
    stream: R,
    left: &'c Cell<u64>,
    ended: &'c Cell<bool>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            return Err(io::Error::other(
                "a header larger than any name or attribute",
            ));
        }
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let read = self.stream.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read as u64);
        if read == 0 && most > 0 {
            self.ended.set(true);
        }
        Ok(read)
    }
}

/// Converts a header into a member.
fn member<R: Read>(
    unpack: &Unpack<'_>,
    entry: &mut Entry<'_, Metered<'_, R>>,
) -> Result<Member, Error> {
    let name = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
    let header = |value: io::Result<u64>| {
        value.map_err(|error| unpack.bad(&name, format!("bad header: {error}")))
    };
    let id = |value: io::Result<u64>| {
        let value = header(value)?;
        u32::try_from(value).map_err(|_| unpack.bad(&name, "an owner id that is none"))
    };
    let mode = entry.header().mode();
    let meta = Meta {
        mode: id(mode.map(u64::from))? & 0o7777,
        uid: id(entry.header().uid())?,
        gid: id(entry.header().gid())?,
    };
    let mtime = header(entry.header().mtime())?;
    let target = |entry: &Entry<'_, Metered<'_, R>>| {
        let target = entry.link_name_bytes().unwrap_or_default();
        PathBuf::from(OsStr::from_bytes(&target))
    };
    let kind = match entry.header().entry_type() {
        EntryType::Directory => Kind::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            Kind::File(entry.size())
        }
        EntryType::Symlink => Kind::Symlink(target(entry)),
        EntryType::Link => Kind::HardLink(target(entry)),
        EntryType::Fifo => Kind::Fifo,
        EntryType::Char if is_whiteout(entry) => Kind::Whiteout,
        EntryType::Char | EntryType::Block => Kind::Device,
        _ => Kind::Other,
    };
    let attributes = match kind {
        Kind::File(_) | Kind::Directory => attributes(unpack, entry, &name)?,
        _ => Vec::new(),
    };
    Ok(Member {
        name,
        kind,
        meta,
        mtime,
        attributes,
    })
}

/// A device node that overlay treats as a whiteout.
fn is_whiteout<R: Read>(entry: &Entry<'_, Metered<'_, R>>) -> bool {
    let header = entry.header();
    matches!(header.device_major(), Ok(Some(0))) && matches!(header.device_minor(), Ok(Some(0)))
}

/// Returns the extended attributes of the pax records that are kept.
fn attributes<R: Read>(
    unpack: &Unpack<'_>,
    entry: &mut Entry<'_, Metered<'_, R>>,
    shown: &Path,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let bad = |error: io::Error| unpack.bad(shown, format!("bad attributes: {error}"));
    let mut attributes = Vec::new();
    for record in entry.pax_extensions().map_err(bad)?.into_iter().flatten() {
        let record = record.map_err(bad)?;
        let Ok(key) = record.key() else { continue };
        if key.starts_with("GNU.sparse.") {
            return Err(unpack.bad(
                shown,
                "a sparse file in a form that is not read; pack with tar --format=gnu",
            ));
        }
        let name = key.strip_prefix("SCHILY.xattr.");
        let value = record.value_bytes();
        if let Some(name) = name.filter(|name| unpack.content.keeps(name, value)) {
            attributes.push((name.to_owned(), value.to_vec()));
        }
    }
    Ok(attributes)
}
