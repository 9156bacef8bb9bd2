//! Unpacks a tar archive.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::decompress::Stream;
use super::{Unpack, is_allowed_attribute, set_attribute};
use crate::Error;
use crate::tree::Meta;

/// What the reader may take from the stream to come from one member to the next:
/// headers, long names and attributes are kept in memory.
const HEADER_BUDGET: u64 = 8 << 20;

/// Padding after the end that is read to see the stream's own checksum.
const MAX_TRAILER: u64 = 64 << 20;

/// Bytes moved at once.
const BUFFER: usize = 128 << 10;

/// Unpacks the archive at `path`.
pub fn unpack(unpack: &mut Unpack, path: &Path) -> Result<(), Error> {
    let damaged = |unpack: &Unpack, error: &io::Error| unpack.refuse(error.to_string());
    let stream = Stream::open(path).map_err(|error| Error::io("open", path, error))?;
    let left = Cell::new(HEADER_BUDGET);
    let ended = Cell::new(false);
    let mut archive = Archive::new(Metered {
        stream,
        left: &left,
        ended: &ended,
    });
    let mut dirs: Vec<(PathBuf, u64)> = Vec::new();
    let entries = archive.entries().map_err(|error| damaged(unpack, &error))?;
    let mut buffer = vec![0; BUFFER];
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged(unpack, &error))?;
        left.set(u64::MAX);
        member(unpack, &mut entry, &mut dirs, &mut buffer)?;
        let unread = io::copy(&mut entry, &mut io::sink());
        unread.map_err(|error| damaged(unpack, &error))?;
        left.set(HEADER_BUDGET);
    }
    if ended.get() {
        return Err(unpack.refuse("truncated: the end of the archive is missing"));
    }
    let rest = archive.into_inner().stream.finish(MAX_TRAILER);
    rest.map_err(|error| damaged(unpack, &error))?;
    // Last, because making their content changed them.
    for (name, seconds) in dirs.iter().rev() {
        unpack.root.set_mtime(name, *seconds)?;
    }
    Ok(())
}

/// Counts what is read, and remembers whether the stream ran dry.
struct Metered<'c> {
    stream: Stream,
    left: &'c Cell<u64>,
    ended: &'c Cell<bool>,
}

impl Read for Metered<'_> {
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

fn member(
    unpack: &mut Unpack,
    entry: &mut Entry<'_, Metered<'_>>,
    dirs: &mut Vec<(PathBuf, u64)>,
    buffer: &mut [u8],
) -> Result<(), Error> {
    let shown = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        return Ok(());
    }
    let name = unpack.admit(&shown)?;
    let blame = unpack.blame(&shown);
    if name.as_os_str().is_empty() {
        // The root keeps the permissions it has, whatever the packer's folder had.
        return if kind.is_dir() {
            Ok(())
        } else {
            Err(unpack.bad(&shown, "no name"))
        };
    }
    let header = |value: io::Result<u64>| {
        value.map_err(|error| unpack.bad(&shown, format!("bad header: {error}")))
    };
    let id = |value: io::Result<u64>| {
        let value = header(value)?;
        u32::try_from(value).map_err(|_| unpack.bad(&shown, "an owner id that is none"))
    };
    let mode = entry.header().mode();
    let meta = Meta {
        mode: id(mode.map(u64::from))? & 0o7777,
        uid: id(entry.header().uid())?,
        gid: id(entry.header().gid())?,
    };
    let mtime = header(entry.header().mtime())?;
    unpack
        .root
        .make_parents(&name, Meta::root(0o755))
        .map_err(&blame)?;
    match kind {
        EntryType::Directory => {
            let made = unpack.root.make_dir(&name, meta).map_err(&blame)?;
            unpack.done.directories += u64::from(made);
            dirs.push((name, mtime));
            unpack.count_owner(meta.uid, meta.gid);
            return Ok(());
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            file(unpack, entry, &shown, &name, meta, buffer)?;
        }
        EntryType::Symlink => {
            let target = link_target(unpack, entry, &shown)?;
            unpack.root.remove(&name).map_err(&blame)?;
            let made = unpack.root.symlink(&name, &target, meta.uid, meta.gid);
            made.map_err(&blame)?;
            unpack.done.links += 1;
        }
        EntryType::Link => {
            let target = link_target(unpack, entry, &shown)?;
            let target = unpack.admit(&target)?;
            if target != name {
                unpack.root.remove(&name).map_err(&blame)?;
                unpack.root.hard_link(&target, &name).map_err(&blame)?;
            }
            // The file has its times already.
            return Ok(());
        }
        EntryType::Fifo => {
            unpack.root.remove(&name).map_err(&blame)?;
            unpack.root.fifo(&name, meta).map_err(&blame)?;
        }
        EntryType::Char | EntryType::Block => {
            unpack.skipped.devices += 1;
            return Ok(());
        }
        _ => {
            unpack.skipped.other += 1;
            return Ok(());
        }
    }
    unpack.count_owner(meta.uid, meta.gid);
    unpack.root.set_mtime(&name, mtime).map_err(&blame)
}

fn link_target(
    unpack: &Unpack,
    entry: &Entry<'_, Metered<'_>>,
    shown: &Path,
) -> Result<PathBuf, Error> {
    match entry.link_name_bytes() {
        Some(target) if !target.is_empty() && target.len() <= unpack.limits.path => {
            Ok(OsStr::from_bytes(&target).into())
        }
        _ => Err(unpack.bad(shown, "a link to nothing, or to too long a name")),
    }
}

fn file(
    unpack: &mut Unpack,
    entry: &mut Entry<'_, Metered<'_>>,
    shown: &Path,
    name: &Path,
    meta: Meta,
    buffer: &mut [u8],
) -> Result<(), Error> {
    let blame = unpack.blame(shown);
    // Two members of one name: the later one wins, as a new file.
    unpack.root.remove(name).map_err(&blame)?;
    let mut out = unpack
        .root
        .create(name, Meta::root(0o600))
        .map_err(&blame)?;
    let size = entry.size();
    let mut copied = 0;
    loop {
        let read = match entry.read(buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unpack.bad(shown, error.to_string())),
        };
        copied += read as u64;
        unpack.count_bytes(read as u64)?;
        io::Write::write_all(&mut out, &buffer[..read])
            .map_err(|error| unpack.bad(shown, format!("cannot write it: {error}")))?;
    }
    if copied < size {
        return Err(unpack.bad(shown, format!("truncated: {copied} of {size} bytes")));
    }
    unpack.root.finish(name, &out, meta).map_err(&blame)?;
    // After the owner: a change of owner drops capabilities.
    for (key, value) in attributes(unpack, entry, shown)? {
        set_attribute(&out, &key, &value)
            .map_err(|errno| unpack.bad(shown, format!("cannot set {key}: {errno}")))?;
    }
    unpack.done.files += 1;
    Ok(())
}

/// The extended attributes that pass, from the pax records.
fn attributes(
    unpack: &Unpack,
    entry: &mut Entry<'_, Metered<'_>>,
    shown: &Path,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let bad = |error: io::Error| unpack.bad(shown, format!("bad attributes: {error}"));
    let mut attributes = Vec::new();
    for record in entry.pax_extensions().map_err(bad)?.into_iter().flatten() {
        let record = record.map_err(bad)?;
        let name = record
            .key()
            .ok()
            .and_then(|key| key.strip_prefix("SCHILY.xattr."));
        if let Some(name) = name.filter(|name| is_allowed_attribute(name)) {
            attributes.push((name.to_owned(), record.value_bytes().to_vec()));
        }
    }
    Ok(attributes)
}
