//! Reads streams of `btrfs send`: commands that recreate a subvolume.
//!
//! The kernel's own receiver needs a btrfs file system, and trusts much of the stream. This reader
//! carries out every command below the root of the new zone, on any file system. It checks names
//! and follows no links. A stream must contain a complete subvolume: increments, data that is still
//! compressed, and streams without data are refused.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::decompress::{Stream, fill};
use super::member::BUFFER;
use super::unpack::Unpack;
use crate::Error;
use crate::tree::Meta;

/// The first bytes of a stream.
pub const MAGIC: &[u8] = b"btrfs-stream\0";

/// The supported versions: the kernel's first version, and the second, which allows longer data.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;

/// Maximum size of a command, in bytes. The kernel's commands are less than half this size.
const MAX_COMMAND_BYTES: usize = 1 << 20;

/// Maximum number of commands for each member: for names, owners, times and pieces of content.
const COMMANDS_A_MEMBER: u64 = 40;

/// Maximum number of device nodes and sockets. They are not created, but each later rename compares
/// their names.
const MAX_SKIPPED: usize = 4096;

/// The commands, with the numbers of the kernel's `fs/btrfs/send.h`.
mod command {
    pub const SUBVOL: u16 = 1;
    pub const SNAPSHOT: u16 = 2;
    pub const MKFILE: u16 = 3;
    pub const MKDIR: u16 = 4;
    pub const MKNOD: u16 = 5;
    pub const MKFIFO: u16 = 6;
    pub const MKSOCK: u16 = 7;
    pub const SYMLINK: u16 = 8;
    pub const RENAME: u16 = 9;
    pub const LINK: u16 = 10;
    pub const UNLINK: u16 = 11;
    pub const RMDIR: u16 = 12;
    pub const SET_XATTR: u16 = 13;
    pub const REMOVE_XATTR: u16 = 14;
    pub const WRITE: u16 = 15;
    pub const CLONE: u16 = 16;
    pub const TRUNCATE: u16 = 17;
    pub const CHMOD: u16 = 18;
    pub const CHOWN: u16 = 19;
    pub const UTIMES: u16 = 20;
    pub const END: u16 = 21;
    pub const UPDATE_EXTENT: u16 = 22;
    pub const ENCODED_WRITE: u16 = 25;
}

/// The attributes of commands.
mod attribute {
    pub const UUID: u16 = 1;
    pub const SIZE: u16 = 4;
    pub const MODE: u16 = 5;
    pub const UID: u16 = 6;
    pub const GID: u16 = 7;
    pub const MTIME: u16 = 10;
    pub const XATTR_NAME: u16 = 13;
    pub const XATTR_DATA: u16 = 14;
    pub const PATH: u16 = 15;
    pub const PATH_TO: u16 = 16;
    pub const PATH_LINK: u16 = 17;
    pub const OFFSET: u16 = 18;
    pub const DATA: u16 = 19;
    pub const CLONE_UUID: u16 = 20;
    pub const CLONE_PATH: u16 = 22;
    pub const CLONE_OFFSET: u16 = 23;
    pub const CLONE_LENGTH: u16 = 24;
}

/// Unpacks a stream to its end.
pub fn unpack(unpack: &mut Unpack<'_>, mut stream: Stream) -> Result<(), Error> {
    let mut header = [0; 17];
    exactly(unpack, &mut stream, &mut header)?;
    let version = u32::from_le_bytes([header[13], header[14], header[15], header[16]]);
    if !VERSIONS.contains(&version) {
        return Err(unpack.refuse(format!(
            "a btrfs stream of version {version}: send it with --proto 1"
        )));
    }
    let mut receiver = Receiver {
        unpack,
        version,
        uuid: None,
        skipped: HashSet::new(),
        open: None,
    };
    let mut body = Vec::new();
    let limit = receiver.unpack.limits.members;
    for _ in 0..limit.saturating_mul(COMMANDS_A_MEMBER) {
        let number = receiver.next(&mut stream, &mut body)?;
        if number == command::END {
            return receiver.end(stream);
        }
        receiver.carry_out(number, &body)?;
    }
    Err(unpack.refuse("more commands than any root needs"))
}

fn exactly(unpack: &Unpack<'_>, stream: &mut Stream, buffer: &mut [u8]) -> Result<(), Error> {
    let read = fill(stream, buffer).map_err(|error| unpack.refuse(error.to_string()))?;
    match read == buffer.len() {
        true => Ok(()),
        false => Err(unpack.refuse("truncated: the end of the stream is missing")),
    }
}

struct Receiver<'u, 'p> {
    unpack: &'u mut Unpack<'p>,
    version: u32,
    /// The uuid of the subvolume, after the command that begins it.
    uuid: Option<Vec<u8>>,
    /// The names of objects that are not created.
    skipped: HashSet<PathBuf>,
    /// The file of the last write.
    open: Option<(PathBuf, File)>,
}

/// The attributes of one command.
struct Words<'b> {
    list: Vec<(u16, &'b [u8])>,
}

impl<'b> Words<'b> {
    fn parse(body: &'b [u8], version: u32) -> Option<Self> {
        let mut list = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let (kind, after) = rest.split_first_chunk()?;
            let kind = u16::from_le_bytes(*kind);
            if kind == attribute::DATA && version > 1 {
                // This attribute may be longer than its length field allows, so it extends to the
                // end of the command.
                list.push((kind, after));
                break;
            }
            let (length, after) = after.split_first_chunk()?;
            let (value, after) =
                after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            list.push((kind, value));
            rest = after;
        }
        Some(Self { list })
    }

    fn find(&self, kind: u16) -> Option<&'b [u8]> {
        let found = self.list.iter().find(|(one, _)| *one == kind);
        found.map(|(_, value)| *value)
    }
}

impl Receiver<'_, '_> {
    /// Reads a command and returns its number.
    fn next(&self, stream: &mut Stream, body: &mut Vec<u8>) -> Result<u16, Error> {
        let mut header = [0; 10];
        exactly(self.unpack, stream, &mut header)?;
        let [a, b, c, d, low, high, sum @ ..] = header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MAX_COMMAND_BYTES {
            return Err(self.damaged("a command that is too large"));
        }
        body.resize(length, 0);
        exactly(self.unpack, stream, body)?;
        let bare = [a, b, c, d, low, high, 0, 0, 0, 0];
        if crc32c(crc32c(0, &bare), body) != u32::from_le_bytes(sum) {
            return Err(self.damaged("a command with a bad checksum"));
        }
        Ok(u16::from_le_bytes([low, high]))
    }

    fn damaged(&self, what: &str) -> Error {
        self.unpack
            .refuse(format!("a damaged btrfs stream: {what}"))
    }

    fn end(self, mut stream: Stream) -> Result<(), Error> {
        if self.uuid.is_none() {
            return Err(self.damaged("no subvolume"));
        }
        let mut more = [0; 1];
        let read = fill(&mut stream, &mut more);
        let read = read.map_err(|error| self.unpack.refuse(error.to_string()))?;
        if read > 0 {
            return Err(self.unpack.refuse("more than one subvolume: send one"));
        }
        let ended = stream.finish(0);
        ended.map_err(|error| self.unpack.refuse(error.to_string()))?;
        Ok(())
    }

    fn carry_out(&mut self, number: u16, body: &[u8]) -> Result<(), Error> {
        let words = Words::parse(body, self.version);
        let words = words.ok_or_else(|| self.damaged("a command that is cut off"))?;
        let refused = match number {
            command::SNAPSHOT => "an increment: send the subvolume without -p and -c",
            command::ENCODED_WRITE => "data that is compressed: send it without --compressed-data",
            command::UPDATE_EXTENT => "a stream without data: send it without --no-data",
            _ => "",
        };
        if !refused.is_empty() {
            return Err(self.unpack.refuse(refused));
        }
        if number == command::SUBVOL {
            let uuid = words.find(attribute::UUID);
            let uuid = uuid.ok_or_else(|| self.damaged("a subvolume without a number"))?;
            return match self.uuid.replace(uuid.to_vec()) {
                None => Ok(()),
                Some(_) => Err(self.unpack.refuse("more than one subvolume: send one")),
            };
        }
        if self.uuid.is_none() {
            return Err(self.damaged("no subvolume"));
        }
        let raw = self.path(&words, attribute::PATH)?;
        let shown = Path::new(raw);
        if !matches!(number, command::WRITE | command::CLONE) {
            self.open = None;
        }
        match number {
            command::MKFILE | command::MKDIR | command::MKFIFO | command::SYMLINK => {
                let name = self.unpack.admit(shown)?;
                self.make(number, &name, shown, &words)
            }
            command::MKNOD | command::MKSOCK => {
                let name = self.unpack.admit(shown)?;
                match number {
                    command::MKNOD => self.unpack.skipped.devices += 1,
                    _ => self.unpack.skipped.sockets += 1,
                }
                if self.skipped.len() == MAX_SKIPPED {
                    return Err(self.unpack.refuse("too many device nodes and sockets"));
                }
                self.skipped.insert(name);
                Ok(())
            }
            _ => {
                let name = self.unpack.check_name(shown)?;
                // The root keeps its own attributes, not those of the subvolume.
                if name.as_os_str().is_empty() {
                    return Ok(());
                }
                self.change(number, &name, shown, &words)
            }
        }
    }

    fn make(
        &mut self,
        number: u16,
        name: &Path,
        shown: &Path,
        words: &Words<'_>,
    ) -> Result<(), Error> {
        let blame = self.unpack.blame(shown);
        let root = &self.unpack.root;
        match number {
            command::MKFILE => {
                root.create(name, Meta::root(0o600)).map_err(&blame)?;
                self.unpack.done.files += 1;
            }
            command::MKDIR => {
                if !root.make_dir(name, Meta::root(0o700)).map_err(&blame)? {
                    return Err(self.unpack.bad(shown, "there twice"));
                }
                self.unpack.done.directories += 1;
            }
            command::MKFIFO => root.fifo(name, Meta::root(0o600)).map_err(&blame)?,
            _ => {
                let target = Path::new(self.path(words, attribute::PATH_LINK)?);
                self.unpack.check_target(target, shown)?;
                let root = &self.unpack.root;
                root.symlink(name, target, 0, 0).map_err(&blame)?;
                self.unpack.done.links += 1;
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        number: u16,
        name: &Path,
        shown: &Path,
        words: &Words<'_>,
    ) -> Result<(), Error> {
        let blame = self.unpack.blame(shown);
        match number {
            command::RENAME => return self.rename(name, shown, words),
            command::LINK => {
                let target = self.path(words, attribute::PATH_LINK)?;
                let target = self.unpack.check_name(Path::new(target))?;
                if self.skipped.contains(&target) {
                    self.skipped.insert(name.to_owned());
                    return Ok(());
                }
                return self.unpack.root.hard_link(&target, name).map_err(blame);
            }
            _ if self.skipped.contains(name) => {
                if number == command::UNLINK {
                    self.skipped.remove(name);
                }
                return Ok(());
            }
            _ => {}
        }
        let root = &self.unpack.root;
        match number {
            command::UNLINK => root.remove(name).map(drop).map_err(blame),
            command::RMDIR => root.remove_any(name).map_err(blame),
            command::SET_XATTR => {
                let key = words.find(attribute::XATTR_NAME).unwrap_or_default();
                let value = words.find(attribute::XATTR_DATA).unwrap_or_default();
                match std::str::from_utf8(key) {
                    Ok(key) if Content::Root.keeps(key, value) => {
                        root.set_attribute_of_any(name, key, value).map_err(blame)
                    }
                    _ => Ok(()),
                }
            }
            // All objects of a complete subvolume are new, so they have no attribute to remove.
            command::REMOVE_XATTR => Ok(()),
            command::CHMOD => {
                let mode = self.number(words, attribute::MODE)? & 0o7777;
                root.set_mode(name, small(mode)).map_err(blame)
            }
            command::CHOWN => {
                let uid = small(self.number(words, attribute::UID)?);
                let gid = small(self.number(words, attribute::GID)?);
                let mode = 0;
                self.unpack.check_owner(shown, Meta { mode, uid, gid })?;
                root.set_owner(name, uid, gid).map_err(blame)
            }
            command::UTIMES => {
                let time = words.find(attribute::MTIME).unwrap_or_default();
                let seconds = time.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
                let seconds = seconds.ok_or_else(|| self.damaged("a time that is none"))?;
                // A time before 1970 becomes 1970.
                let seconds = u64::try_from(seconds).unwrap_or(0);
                root.set_mtime(name, seconds).map_err(blame)
            }
            command::WRITE => {
                let data = words.find(attribute::DATA).unwrap_or_default();
                let offset = self.number(words, attribute::OFFSET)?;
                self.write(name, shown, offset, data)
            }
            command::CLONE => self.copy(name, shown, words),
            command::TRUNCATE => {
                let size = self.number(words, attribute::SIZE)?;
                self.unpack.check_bytes(size)?;
                let file = self.unpack.root.open_to_write(name).map_err(blame)?;
                let cut = file.set_len(size);
                cut.map_err(|error| self.unpack.bad(shown, format!("cannot write it: {error}")))
            }
            other => Err(self.damaged(&format!("command {other}, which is not known"))),
        }
    }

    fn rename(&mut self, name: &Path, shown: &Path, words: &Words<'_>) -> Result<(), Error> {
        let to = self.path(words, attribute::PATH_TO)?;
        let to = self.unpack.check_name(Path::new(to))?;
        if self.skipped.remove(name) {
            self.skipped.insert(to);
            return Ok(());
        }
        let moved = self.unpack.root.rename(name, &to);
        moved.map_err(self.unpack.blame(shown))?;
        let below = |one: &&PathBuf| one.starts_with(name);
        let inside: Vec<PathBuf> = self.skipped.iter().filter(below).cloned().collect();
        for old in inside {
            self.skipped.remove(&old);
            let rest = old.strip_prefix(name).unwrap_or(&old);
            self.skipped.insert(to.join(rest));
        }
        Ok(())
    }

    fn write(&mut self, name: &Path, shown: &Path, offset: u64, data: &[u8]) -> Result<(), Error> {
        let length = data.len() as u64;
        self.unpack.check_bytes(offset.saturating_add(length))?;
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let file = self.unpack.root.open_to_write(name);
            self.open = Some((name.to_owned(), file.map_err(self.unpack.blame(shown))?));
        }
        let Some((_, file)) = &self.open else {
            return Ok(());
        };
        let zeros = data.iter().all(|byte| *byte == 0);
        let wrote = file.metadata().and_then(|metadata| {
            // Zeros at the end of a file take no disk space.
            match zeros && offset >= metadata.len() {
                true => file.set_len(offset + length).map(|()| 0),
                false => file.write_all_at(data, offset).map(|()| length),
            }
        });
        let used =
            wrote.map_err(|error| self.unpack.bad(shown, format!("cannot write it: {error}")))?;
        self.unpack.count_bytes(length, used)
    }

    /// Copies content that the subvolume also has at another position.
    fn copy(&mut self, name: &Path, shown: &Path, words: &Words<'_>) -> Result<(), Error> {
        if words.find(attribute::CLONE_UUID) != self.uuid.as_deref() {
            return Err(self
                .unpack
                .refuse("content of another subvolume: send it without -p and -c"));
        }
        let from = Path::new(self.path(words, attribute::CLONE_PATH)?);
        let from = self.unpack.check_name(from)?;
        let mut at = self.number(words, attribute::CLONE_OFFSET)?;
        let mut to = self.number(words, attribute::OFFSET)?;
        let mut left = self.number(words, attribute::CLONE_LENGTH)?;
        let source = self.unpack.root.open_regular(&from);
        let source = source.map_err(self.unpack.blame(shown))?;
        let Some((source, _)) = source else {
            return Err(self
                .unpack
                .bad(shown, "a copy of a path that is not a file"));
        };
        let mut buffer = vec![0; BUFFER];
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
            let read = source.read_at(&mut buffer[..most], at);
            let read = read.map_err(|error| self.unpack.bad(shown, error.to_string()))?;
            if read == 0 {
                return Err(self.unpack.bad(shown, "a copy of what is not there"));
            }
            self.write(name, shown, to, &buffer[..read])?;
            (at, to, left) = (at + read as u64, to + read as u64, left - read as u64);
        }
        Ok(())
    }

    fn path<'w>(&self, words: &Words<'w>, kind: u16) -> Result<&'w OsStr, Error> {
        let bytes = words.find(kind).filter(|bytes| !bytes.contains(&0));
        let bytes = bytes.ok_or_else(|| self.damaged("a command without a name"))?;
        Ok(OsStr::from_bytes(bytes))
    }

    fn number(&self, words: &Words<'_>, kind: u16) -> Result<u64, Error> {
        let bytes = words.find(kind).unwrap_or_default().try_into();
        let bytes = bytes.map_err(|_| self.damaged("a number that is none"))?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Owners and modes have 32 bits at most. A larger number is not an owner of a zone.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the checksum of btrfs: CRC-32C without its inversions.
pub(super) fn crc32c(start: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    bytes.iter().fold(start, |sum, byte| {
        TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8)
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0u32;
    while i < 256 {
        let mut value = i;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                0x82f6_3b78 ^ (value >> 1)
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[i as usize] = value;
        i += 1;
    }
    table
}
