//! The table of a snapshot: the stamps that the files of the top had when the snapshot was made.
//!
//! ```text
//! <layer>/stamps    "zones-stamps 1\n", the boot id of the host, the marks of the top, the stamps
//! ```
//!
//! Numbers are little-endian. The stamps of a folder are followed by those of its content, each
//! with its name, and by a zero byte. The file ends with "end\n".
//!
//! A table counts fully only until the host boots again. After a power failure, a file may have its
//! former change time and later content.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};

use super::stamp::{Entries, Node, Stamp};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::layers::LayerPath;

/// The name of the table in the folder of a layer.
pub(super) const STAMPS: &str = "stamps";

const BEGIN: &[u8] = b"zones-stamps 1\n";
const END: &[u8] = b"end\n";

/// Maximum size of a table in bytes, for about 10 million files.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Maximum depth of nested folders in a table.
const MAX_FOLDER_DEPTH: usize = 257;

/// The marks by which a top differs from every other top of the same file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopMarks {
    inode: u64,
    /// The time of creation in nanoseconds since 1970; 0 if the file system does not store it.
    made: i128,
}

impl TopMarks {
    pub(super) fn of(top: &Folder) -> Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(top, "", AtFlags::EMPTY_PATH, wanted)
            .map_err(|e| top.fail("statx", "", e))?;
        let known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let made =
            i128::from(stat.stx_btime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec);
        Ok(Self {
            inode: stat.stx_ino,
            made: if known { made } else { 0 },
        })
    }
}

/// The table of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// The id of the boot of the host in which the table was made.
    pub(super) boot: String,
    pub(super) top: TopMarks,
    pub(super) root: Node,
}

/// Returns the id of this boot of the host; an empty text if it is unknown.
pub(super) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

impl Table {
    /// Returns true if the table was made since the host booted.
    pub(super) fn is_of_this_boot(&self) -> bool {
        !self.boot.is_empty() && self.boot == boot_id()
    }

    /// Writes the table beside a layer that no snapshot names yet.
    pub(super) fn store(&self, layer: &LayerPath) -> Result<()> {
        let path = layer.path().join(STAMPS);
        let fail = |e| Error::io("write", &path, e);
        std::fs::write(&path, self.bytes()).map_err(|e| {
            // A part of a table is no table.
            let _ = std::fs::remove_file(&path);
            fail(e)
        })
    }

    /// Reads the table of a layer. Returns `None` if the layer has no whole table.
    pub(super) fn of(layer: &LayerPath) -> Option<Self> {
        let path = layer.path().join(STAMPS);
        let bytes = read(&path)?;
        Self::parse(&bytes)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = BEGIN.to_vec();
        put_bytes(&mut out, self.boot.as_bytes());
        out.extend(self.top.inode.to_le_bytes());
        out.extend(self.top.made.to_le_bytes());
        put_node(&mut out, None, &self.root);
        out.extend(END);
        out
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut at = Reader(bytes);
        at.expect(BEGIN)?;
        let boot = String::from_utf8(at.text()?.to_vec()).ok()?;
        let top = TopMarks {
            inode: u64::from_le_bytes(at.array()?),
            made: i128::from_le_bytes(at.array()?),
        };
        let kind = at.byte()?;
        let root = at.node(kind, 0)?;
        at.expect(END)?;
        (at.0.is_empty() && root.inner.is_some()).then_some(Self { boot, top, root })
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.take(MAX_TABLE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The numbers of the kinds of objects in a table, which never change. 0 ends a folder.
const KINDS: &[(u8, FileType)] = &[
    (1, FileType::Directory),
    (2, FileType::RegularFile),
    (3, FileType::Symlink),
    (4, FileType::Fifo),
    (5, FileType::Socket),
    (6, FileType::CharacterDevice),
    (7, FileType::BlockDevice),
    (8, FileType::Unknown),
];

/// The bit of the number of a kind that says that the object is settled.
const SETTLED: u8 = 0x80;

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Names of files have at most 255 bytes.
    let length = u16::try_from(bytes.len()).unwrap_or(0);
    out.extend(length.to_le_bytes());
    out.extend(&bytes[..usize::from(length)]);
}

/// Writes the stamps of an object. The name stands behind the kind, which tells where a folder ends.
fn put_node(out: &mut Vec<u8>, name: Option<&OsStr>, node: &Node) {
    let Stamp {
        kind,
        inode,
        changed,
        size,
    } = node.stamp;
    let number = KINDS.iter().find(|(_, known)| *known == kind);
    let number = number.map_or(8, |(number, _)| *number);
    out.push(number | if node.settled { SETTLED } else { 0 });
    if let Some(name) = name {
        put_bytes(out, name.as_bytes());
    }
    out.extend(inode.to_le_bytes());
    out.extend(i64::try_from(changed).unwrap_or(0).to_le_bytes());
    out.extend(size.to_le_bytes());
    if kind == FileType::Directory {
        for (name, inner) in node.inner.iter().flatten() {
            put_node(out, Some(name), inner);
        }
        out.push(0);
    }
}

/// The rest of a table.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_le_bytes(self.array()?);
        self.take(usize::from(length))
    }

    fn expect(&mut self, text: &[u8]) -> Option<()> {
        (self.take(text.len())? == text).then_some(())
    }

    /// Reads a node whose kind, and whose name, are read already.
    fn node(&mut self, kind: u8, depth: usize) -> Option<Node> {
        let number = kind & !SETTLED;
        let (_, file_type) = KINDS.iter().find(|(known, _)| *known == number)?;
        let stamp = Stamp {
            kind: *file_type,
            inode: u64::from_le_bytes(self.array()?),
            changed: i64::from_le_bytes(self.array()?).into(),
            size: u64::from_le_bytes(self.array()?),
        };
        let inner = match file_type {
            FileType::Directory => Some(self.entries(depth)?),
            _ => None,
        };
        Some(Node {
            stamp,
            settled: kind & SETTLED != 0,
            inner,
        })
    }

    fn entries(&mut self, depth: usize) -> Option<Entries> {
        if depth > MAX_FOLDER_DEPTH {
            return None;
        }
        let mut entries = Entries::new();
        loop {
            let kind = self.byte()?;
            if kind == 0 {
                return Some(entries);
            }
            let name: &OsStr = OsStr::from_bytes(self.text()?);
            let name: OsString = OsString::from_vec(name.as_bytes().to_vec());
            entries.insert(name, self.node(kind, depth + 1)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> Node {
        Node {
            stamp: Stamp {
                kind: FileType::RegularFile,
                inode,
                changed: 1_800_000_000_123_456_789,
                size: 100,
            },
            settled: inode % 2 == 0,
            inner: None,
        }
    }

    fn folder(entries: Entries) -> Node {
        Node {
            stamp: Stamp {
                kind: FileType::Directory,
                ..file(3).stamp
            },
            settled: true,
            inner: Some(entries),
        }
    }

    fn table() -> Table {
        let name = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let inner = [(name(b"\xff\n"), file(4)), (name(&[b'x'; 255]), file(5))];
        let inner = folder(inner.into_iter().collect());
        let entries = [(name(b"a"), file(6)), (name(b"d"), inner)];
        Table {
            boot: "id".to_owned(),
            top: TopMarks { inode: 9, made: -1 },
            root: folder(entries.into_iter().collect()),
        }
    }

    #[test]
    fn a_table_is_read_as_it_is_written() {
        assert_eq!(Table::parse(&table().bytes()), Some(table()));
    }

    #[test]
    fn a_part_of_a_table_is_no_table() {
        let bytes = table().bytes();
        for length in 0..bytes.len() {
            assert_eq!(Table::parse(&bytes[..length]), None, "{length}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Table::parse(&longer), None);
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_without_a_crash() {
        let bytes = table().bytes();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x81, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = Table::parse(&damaged);
            }
        }
        // A table of folders without end.
        let mut deep = BEGIN.to_vec();
        put_bytes(&mut deep, b"id");
        deep.extend([0; 24]);
        for _ in 0..100_000 {
            deep.extend([1; 27]);
        }
        assert_eq!(Table::parse(&deep), None);
    }
}
