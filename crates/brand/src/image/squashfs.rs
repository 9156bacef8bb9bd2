//! Reads squashfs images of version 4. An image is never mounted, because the kernel trusts the
//! content of a mounted image.
//!
//! Blocks that are compressed with gzip or zstd are supported. Other compressors are refused, with
//! their names. A table is read only as far as it is needed. A block is never larger than the
//! format allows, and an image with a larger block is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::content::is_allowed_attribute;
use super::member::{BUFFER, Kind, Member};
use super::unpack::Unpack;
use crate::Error;
use crate::tree::Meta;

/// The first bytes of an image.
pub const MAGIC: &[u8] = b"hsqs";

/// Size of a block of metadata, in bytes.
const METADATA: usize = 8192;

/// Maximum size of a data block in the format, in bytes.
const MAX_BLOCK: u32 = 1 << 20;

/// Maximum number of metadata blocks that are kept in memory.
const MAX_CACHED_BLOCKS: usize = 256;

/// The value that means "no fragment" or "no attributes".
const NONE: u32 = u32::MAX;

/// Maximum depth of folders.
const MAX_FOLDER_DEPTH: usize = 1000;

/// Maximum number of attributes of one file, and maximum size of one attribute in bytes.
const MAX_ATTRIBUTES: u32 = 1000;
const MAX_VALUE: u32 = 64 << 10;

/// The numbers of the compressors that are supported: gzip and zstd.
const SUPPORTED: [u16; 2] = [1, 6];

/// The numbers of compressors.
const COMPRESSORS: [&str; 7] = ["none", "gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// The reason why an image cannot be unpacked.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// The image ends too early.
    #[error("truncated")]
    Truncated,
    /// The image is shorter than its header says.
    #[error("truncated: {length} of {wanted} bytes")]
    Short { length: u64, wanted: u64 },
    /// A part of the image contradicts the format.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// A block is not valid gzip data.
    #[error("damaged: {0}")]
    Gzip(io::Error),
    /// A block is not valid zstd data.
    #[error("damaged: {0}")]
    Zstd(&'static str),
    /// The image has a format that only other programs read.
    #[error("a squashfs image of version {0}; 4 is read")]
    Version(u16),
    /// The image uses an unknown compressor.
    #[error(
        "a squashfs image compressed with {0}, which is not read: \
         unpack it with unsquashfs and install it with -d"
    )]
    Compressor(&'static str),
    /// A file has more attributes than the limit.
    #[error("too many attributes")]
    Attributes,
    /// A folder contains itself.
    #[error("a folder that is in itself, or too deep")]
    Depth,
    /// A symbolic link has an invalid target.
    #[error("a link to too long a name")]
    Link,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

type Result<T> = std::result::Result<T, Problem>;

/// Returns true if a file is a squashfs with a compression that is supported.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn is_supported(path: &Path) -> io::Result<bool> {
    let mut head = [0; 22];
    File::open(path)?.read_exact_at(&mut head, 0)?;
    let compressor = u16::from_le_bytes([head[20], head[21]]);
    Ok(head.starts_with(MAGIC) && SUPPORTED.contains(&compressor))
}

/// Unpacks the image at `path`.
pub fn unpack(unpack: &mut Unpack<'_>, path: &Path) -> std::result::Result<(), Error> {
    let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
    let image = Image::open(file).map_err(|problem| unpack.refuse(problem.to_string()))?;
    let mut walk = Walk {
        unpack,
        image: &image,
        seen: BTreeSet::new(),
        linked: HashMap::new(),
        buffer: vec![0; BUFFER],
    };
    walk.folder(image.root, Path::new(""), 0)
}

/// The positions of an image's tables.
struct Image {
    file: File,
    compressor: u16,
    block: u32,
    root: u64,
    inodes: u64,
    folders: u64,
    fragments: Vec<u64>,
    fragment_count: u32,
    ids: Vec<u32>,
    attributes: Option<Attributes>,
    kept: std::cell::RefCell<BTreeMap<u64, Rc<Block>>>,
}

struct Attributes {
    start: u64,
    count: u32,
    blocks: Vec<u64>,
}

/// A block of metadata, and the position of the next one.
struct Block {
    bytes: Vec<u8>,
    next: u64,
}

fn number<const N: usize>(bytes: &[u8]) -> u64 {
    bytes[..N]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn word(bytes: &[u8]) -> u32 {
    u32::try_from(number::<4>(bytes)).unwrap_or(0)
}

/// Splits a reference to an inode or to attributes: the position of a block, and the offset in that
/// block.
fn split(reference: u64) -> (u64, usize) {
    let low = u16::try_from(reference & 0xffff).unwrap_or(0);
    (reference >> 16, usize::from(low))
}

const fn damaged<T>(part: &'static str) -> Result<T> {
    Err(Problem::Damaged(part))
}

impl Image {
    fn open(file: File) -> Result<Self> {
        let mut head = [0; 96];
        file.read_exact_at(&mut head, 0)
            .map_err(|_| Problem::Truncated)?;
        if !head.starts_with(MAGIC) {
            return damaged("no squashfs image");
        }
        let short = |at: usize| u16::try_from(number::<2>(&head[at..])).unwrap_or(0);
        let word = |at: usize| word(&head[at..]);
        let long = |at: usize| number::<8>(&head[at..]);
        if short(28) != 4 {
            return Err(Problem::Version(short(28)));
        }
        let compressor = short(20);
        if !SUPPORTED.contains(&compressor) {
            let name = COMPRESSORS
                .get(usize::from(compressor))
                .unwrap_or(&"an unknown compressor");
            return Err(Problem::Compressor(name));
        }
        let block = word(12);
        if !(4096..=MAX_BLOCK).contains(&block) || !block.is_power_of_two() {
            return damaged("its size of blocks");
        }
        let length = file.metadata()?.len();
        if long(40) > length {
            return Err(Problem::Short {
                length,
                wanted: long(40),
            });
        }
        let mut image = Self {
            file,
            compressor,
            block,
            root: long(32),
            inodes: long(64),
            folders: long(72),
            fragments: Vec::new(),
            fragment_count: word(16),
            ids: Vec::new(),
            attributes: None,
            kept: std::cell::RefCell::default(),
        };
        image.fragments = image.pointers(long(80), u64::from(image.fragment_count) * 16)?;
        let count = u64::from(short(26));
        for place in image.pointers(long(48), count * 4)? {
            let block = image.metadata(place)?;
            image
                .ids
                .extend(block.bytes.chunks_exact(4).map(self::word));
        }
        if (image.ids.len() as u64) < count {
            return damaged("its owners");
        }
        if long(56) != u64::MAX {
            let mut head = [0; 16];
            image.exactly(&mut head, long(56))?;
            let count = self::word(&head[8..]);
            image.attributes = Some(Attributes {
                start: number::<8>(&head),
                count,
                blocks: image.pointers(long(56) + 16, u64::from(count) * 16)?,
            });
        }
        Ok(image)
    }

    fn exactly(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file
            .read_exact_at(bytes, at)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Problem::Truncated,
                _ => error.into(),
            })
    }

    /// Returns the positions of the blocks of a table with this number of bytes.
    fn pointers(&self, at: u64, bytes: u64) -> Result<Vec<u64>> {
        let count = bytes.div_ceil(METADATA as u64);
        if at == u64::MAX || count == 0 {
            return Ok(Vec::new());
        }
        let length = usize::try_from(count * 8).unwrap_or(usize::MAX);
        // The table cannot be longer than the file. Without this check, an image could make the
        // program allocate any amount of memory.
        let file = self.file.metadata()?.len();
        if at.checked_add(length as u64).is_none_or(|end| end > file) {
            return damaged("a table beyond the end");
        }
        let mut all = vec![0; length];
        self.exactly(&mut all, at)?;
        Ok(all.chunks_exact(8).map(number::<8>).collect())
    }

    /// Reads the block of metadata at a position.
    fn metadata(&self, at: u64) -> Result<Rc<Block>> {
        if let Some(block) = self.kept.borrow().get(&at) {
            return Ok(Rc::clone(block));
        }
        let mut head = [0; 2];
        self.exactly(&mut head, at)?;
        let head = u16::from_le_bytes(head);
        let size = usize::from(head & 0x7fff);
        if size == 0 || size > METADATA {
            return damaged("a block of metadata");
        }
        let mut bytes = vec![0; size];
        self.exactly(&mut bytes, at + 2)?;
        if head & 0x8000 == 0 {
            bytes = self.expand(&bytes, METADATA)?;
        }
        let block = Rc::new(Block {
            bytes,
            next: at + 2 + size as u64,
        });
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MAX_CACHED_BLOCKS {
            kept.clear();
        }
        kept.insert(at, Rc::clone(&block));
        Ok(block)
    }

    fn expand(&self, bytes: &[u8], most: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if self.compressor == 1 {
            let decoder = flate2::read::ZlibDecoder::new(bytes);
            decoder
                .take(most as u64 + 1)
                .read_to_end(&mut out)
                .map_err(Problem::Gzip)?;
        } else {
            out.resize(most, 0);
            let length = zstd_safe::decompress(&mut out[..], bytes)
                .map_err(|code| Problem::Zstd(zstd_safe::get_error_name(code)))?;
            out.truncate(length);
        }
        match out.len() > most {
            true => damaged("a block that is too large"),
            false => Ok(out),
        }
    }

    /// Reads a data block; `size` has the encoding of the format.
    fn data(&self, at: u64, size: u32, most: usize) -> Result<Vec<u8>> {
        let plain = size & (1 << 24) != 0;
        let length = (size & !(1 << 24)) as usize;
        if length > self.block as usize {
            return damaged("a block that is too large");
        }
        let mut bytes = vec![0; length];
        self.exactly(&mut bytes, at)?;
        let bytes = if plain {
            bytes
        } else {
            self.expand(&bytes, self.block as usize)?
        };
        match bytes.len() < most {
            true => damaged("a block that is too short"),
            false => Ok(bytes),
        }
    }

    fn cursor(&self, table: u64, place: u64, offset: usize) -> Result<Cursor<'_>> {
        let at = table
            .checked_add(place)
            .ok_or(Problem::Damaged("a place beyond all"))?;
        Ok(Cursor {
            image: self,
            block: self.metadata(at)?,
            at: offset,
        })
    }

    fn id(&self, index: u16) -> Result<u32> {
        self.ids
            .get(usize::from(index))
            .copied()
            .ok_or(Problem::Damaged("an owner that is none"))
    }

    /// Returns the attributes with this number that are kept.
    fn attributes(&self, index: u32) -> Result<Vec<(String, Vec<u8>)>> {
        let mut all = Vec::new();
        let Some(table) = self.attributes.as_ref().filter(|_| index != NONE) else {
            return Ok(all);
        };
        if index >= table.count {
            return damaged("attributes that are none");
        }
        let entry = index as usize * 16;
        let place = table
            .blocks
            .get(entry / METADATA)
            .ok_or(Problem::Damaged("attributes that are none"))?;
        let mut cursor = self.cursor(*place, 0, entry % METADATA)?;
        let (reference, count) = (cursor.long()?, cursor.word()?);
        if count > MAX_ATTRIBUTES {
            return Err(Problem::Attributes);
        }
        let mut cursor = self.cursor(table.start, split(reference).0, split(reference).1)?;
        for _ in 0..count {
            let (kind, length) = (cursor.short()?, cursor.short()?);
            let name = cursor.bytes(usize::from(length))?;
            let size = cursor.word()?;
            let value = if kind & 0x100 != 0 {
                let place = cursor.long()?;
                let mut other = self.cursor(table.start, split(place).0, split(place).1)?;
                let size = other.word()?;
                other.value(size)?
            } else {
                cursor.value(size)?
            };
            let prefix = match kind & 0xff {
                0 => "user.",
                2 => "security.",
                _ => continue,
            };
            let name = format!("{prefix}{}", String::from_utf8_lossy(&name));
            if is_allowed_attribute(&name) {
                all.push((name, value));
            }
        }
        Ok(all)
    }
}

/// A position in a table.
struct Cursor<'i> {
    image: &'i Image,
    block: Rc<Block>,
    at: usize,
}

impl Cursor<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut have = 0;
        while have < bytes.len() {
            if self.at > self.block.bytes.len() {
                return damaged("a place beyond its block");
            }
            let rest = &self.block.bytes[self.at..];
            if rest.is_empty() {
                self.block = self.image.metadata(self.block.next)?;
                self.at = 0;
                continue;
            }
            let count = rest.len().min(bytes.len() - have);
            bytes[have..have + count].copy_from_slice(&rest[..count]);
            have += count;
            self.at += count;
        }
        Ok(())
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn value(&mut self, size: u32) -> Result<Vec<u8>> {
        if size > MAX_VALUE {
            return damaged("an attribute that is too long");
        }
        self.bytes(size as usize)
    }

    fn short(&mut self) -> Result<u16> {
        let mut bytes = [0; 2];
        self.fill(&mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }

    fn word(&mut self) -> Result<u32> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn long(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The part of an inode that is the same for all kinds.
struct Inode<'i> {
    kind: u16,
    meta: Meta,
    mtime: u64,
    number: u32,
    rest: Cursor<'i>,
}

/// The position of a file's content.
struct Data {
    start: u64,
    size: u64,
    fragment: u32,
    offset: u32,
}

struct Walk<'w, 'p> {
    unpack: &'w mut Unpack<'p>,
    image: &'w Image,
    /// The folders that were entered. A folder has only one name, so entering one twice is an
    /// error.
    seen: BTreeSet<u64>,
    linked: HashMap<u32, PathBuf>,
    buffer: Vec<u8>,
}

impl<'w> Walk<'w, '_> {
    fn inode(&self, reference: u64) -> Result<Inode<'w>> {
        let (place, offset) = split(reference);
        let mut rest = self.image.cursor(self.image.inodes, place, offset)?;
        let (kind, mode, uid, gid) = (rest.short()?, rest.short()?, rest.short()?, rest.short()?);
        let (mtime, number) = (rest.word()?, rest.word()?);
        let meta = Meta {
            mode: u32::from(mode) & 0o7777,
            uid: self.image.id(uid)?,
            gid: self.image.id(gid)?,
        };
        Ok(Inode {
            kind,
            meta,
            mtime: mtime.into(),
            number,
            rest,
        })
    }

    fn folder(
        &mut self,
        reference: u64,
        path: &Path,
        depth: usize,
    ) -> std::result::Result<(), Error> {
        let names = self
            .names(reference, path, depth)
            .map_err(|problem| self.unpack.bad(path, problem.to_string()))?;
        for (name, reference) in names {
            let path = path.join(OsStr::from_bytes(&name));
            if self.entry(&path, reference)? {
                self.folder(reference, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Returns the names in a folder with their positions.
    fn names(&mut self, reference: u64, path: &Path, depth: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        if !self.seen.insert(reference) || depth > MAX_FOLDER_DEPTH {
            return Err(Problem::Depth);
        }
        let mut inode = self.inode(reference)?;
        let rest = &mut inode.rest;
        let (place, size, offset) = match inode.kind {
            1 => {
                let place = rest.word()?;
                let _links = rest.word()?;
                (place, u32::from(rest.short()?), rest.short()?)
            }
            8 => {
                let _links = rest.word()?;
                let size = rest.word()?;
                let place = rest.word()?;
                let _parent = rest.word()?;
                let _index = rest.short()?;
                (place, size, rest.short()?)
            }
            _ if path.as_os_str().is_empty() => return damaged("its root is no folder"),
            _ => return damaged("no folder"),
        };
        let mut left = i64::from(size) - 3;
        let mut names = Vec::new();
        if left <= 0 {
            return Ok(names);
        }
        let mut list = self
            .image
            .cursor(self.image.folders, place.into(), usize::from(offset))?;
        while left > 0 {
            let (count, start, _number) = (list.word()?, list.word()?, list.word()?);
            left -= 12;
            if count >= 256 {
                return damaged("a list of names");
            }
            for _ in 0..=count {
                let (offset, _delta, _kind) = (list.short()?, list.short()?, list.short()?);
                let length = usize::from(list.short()?) + 1;
                if length > 256 {
                    return damaged("a name that is too long");
                }
                let name = list.bytes(length)?;
                left -= 8 + length as i64;
                if name.contains(&b'/') || name.contains(&0) || matches!(&name[..], b"." | b"..") {
                    return damaged("a name that is none");
                }
                names.push((name, u64::from(start) << 16 | u64::from(offset)));
            }
        }
        match left {
            0 => Ok(names),
            _ => damaged("a list of names"),
        }
    }

    /// Creates one entry. Returns true for a folder.
    fn entry(&mut self, path: &Path, reference: u64) -> std::result::Result<bool, Error> {
        let made = self.member(path, reference);
        let (member, data, number) =
            made.map_err(|problem| self.unpack.bad(path, problem.to_string()))?;
        let Some((mut data, links)) = data else {
            let is_folder = member.kind == Kind::Directory;
            self.unpack
                .put(&member, &mut io::empty(), &mut self.buffer)?;
            return Ok(is_folder);
        };
        if links > 1 {
            if let Some(first) = self.linked.get(&number) {
                let member = Member {
                    kind: Kind::HardLink(first.clone()),
                    ..member
                };
                self.unpack
                    .put(&member, &mut io::empty(), &mut self.buffer)?;
                return Ok(false);
            }
            self.linked.insert(number, path.to_owned());
        }
        self.unpack.put(&member, &mut data, &mut self.buffer)?;
        Ok(false)
    }

    #[expect(clippy::type_complexity, reason = "one caller, which takes it apart")]
    fn member(
        &self,
        path: &Path,
        reference: u64,
    ) -> Result<(Member, Option<(Content<'w>, u32)>, u32)> {
        let mut inode = self.inode(reference)?;
        let rest = &mut inode.rest;
        let mut attributes = NONE;
        let mut data = None;
        let kind = match inode.kind {
            1 => Kind::Directory,
            8 => {
                rest.bytes(20)?;
                attributes = rest.word()?;
                Kind::Directory
            }
            2 | 9 => {
                let links;
                let place = if inode.kind == 2 {
                    links = 1;
                    let start = rest.word()?.into();
                    let (fragment, offset) = (rest.word()?, rest.word()?);
                    Data {
                        start,
                        fragment,
                        offset,
                        size: rest.word()?.into(),
                    }
                } else {
                    let (start, size, _holes) = (rest.long()?, rest.long()?, rest.long()?);
                    links = rest.word()?;
                    let (fragment, offset) = (rest.word()?, rest.word()?);
                    attributes = rest.word()?;
                    Data {
                        start,
                        size,
                        fragment,
                        offset,
                    }
                };
                let size = place.size;
                let sizes = inode.rest;
                data = Some((Content::new(self.image, &place, sizes)?, links));
                return Ok((
                    Member {
                        name: path.to_owned(),
                        kind: Kind::File(size),
                        meta: inode.meta,
                        mtime: inode.mtime,
                        attributes: self.image.attributes(attributes)?,
                    },
                    data,
                    inode.number,
                ));
            }
            3 | 10 => {
                let _links = rest.word()?;
                let length = rest.word()? as usize;
                if length > self.unpack.limits.path {
                    return Err(Problem::Link);
                }
                Kind::Symlink(OsStr::from_bytes(&rest.bytes(length)?).into())
            }
            4 | 5 | 11 | 12 => Kind::Device,
            6 | 13 => Kind::Fifo,
            7 | 14 => Kind::Socket,
            _ => return damaged("an entry of no known kind"),
        };
        let attributes = self.image.attributes(attributes)?;
        let member = Member {
            name: path.to_owned(),
            kind,
            meta: inode.meta,
            mtime: inode.mtime,
            attributes,
        };
        Ok((member, data, inode.number))
    }
}

/// Reads the content of a file, block by block.
struct Content<'i> {
    image: &'i Image,
    /// The position of the sizes of the remaining blocks.
    sizes: Cursor<'i>,
    blocks: u64,
    at: u64,
    left: u64,
    fragment: u32,
    offset: u32,
    block: Vec<u8>,
    read: usize,
}

impl<'i> Content<'i> {
    fn new(image: &'i Image, data: &Data, sizes: Cursor<'i>) -> Result<Self> {
        let block = u64::from(image.block);
        let blocks = match data.fragment {
            NONE => data.size.div_ceil(block),
            fragment if fragment < image.fragment_count => data.size / block,
            _ => return damaged("a fragment that is none"),
        };
        Ok(Self {
            image,
            sizes,
            blocks,
            at: data.start,
            left: data.size,
            fragment: data.fragment,
            offset: data.offset,
            block: Vec::new(),
            read: 0,
        })
    }

    fn next(&mut self) -> Result<()> {
        let most = usize::try_from(self.left.min(self.image.block.into())).unwrap_or(0);
        if self.blocks > 0 {
            self.blocks -= 1;
            let size = self.sizes.word()?;
            if size == 0 {
                self.block.clear();
                self.block.resize(most, 0);
            } else {
                self.block = self.image.data(self.at, size, most)?;
                self.at = self.at.saturating_add(u64::from(size & !(1 << 24)));
            }
            self.block.truncate(most);
            self.read = 0;
        } else {
            let entry = self.fragment as usize * 16;
            let place = self
                .image
                .fragments
                .get(entry / METADATA)
                .ok_or(Problem::Damaged("a fragment that is none"))?;
            let mut cursor = self.image.cursor(*place, 0, entry % METADATA)?;
            let (start, size) = (cursor.long()?, cursor.word()?);
            let offset = self.offset as usize;
            let end = offset.saturating_add(most);
            if end > self.image.block as usize {
                return damaged("a fragment beyond its block");
            }
            self.block = self.image.data(start, size, end)?;
            self.block.truncate(end);
            self.read = offset;
        }
        Ok(())
    }
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        if self.read >= self.block.len() {
            self.next().map_err(io::Error::other)?;
        }
        let rest = &self.block[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        self.left -= (count as u64).min(self.left);
        Ok(count)
    }
}
