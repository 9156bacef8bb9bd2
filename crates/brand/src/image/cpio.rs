//! Reads cpio archives in the new ASCII format (`cpio -H newc`), plain or with checksums.
//!
//! Every member has a header of 110 bytes in hexadecimal, its name, and its content, each padded to
//! four bytes. All names of one file have the same inode number. In most archives the last of these
//! names has the content.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::decompress::{Stream, fill};
use super::member::{BUFFER, Kind, Member};
use super::unpack::Unpack;
use crate::Error;
use crate::tree::Meta;

/// The first bytes of members, and whether the checksum of such a member counts.
const MAGICS: [(&[u8], bool); 2] = [(b"070701", false), (b"070702", true)];

/// The first bytes of older formats. An error message names these formats.
const OLDER: [(&[u8], &str); 3] = [
    (b"070707", "odc"),
    (b"\xc7\x71", "bin"),
    (b"\x71\xc7", "bin, of a machine of the other byte order"),
];

const HEADER: usize = 110;

/// The name of the last member of an archive.
const TRAILER: &[u8] = b"TRAILER!!!";

/// Maximum number of files with several names whose content was not read yet.
const MAX_PENDING: usize = 1 << 16;

/// Maximum number of bytes of padding after the end of the archive. They are read to reach the
/// checksum of the compressed stream.
const MAX_TRAILER: u64 = 64 << 20;

/// Returns true if a stream with this beginning is a cpio archive of any format.
pub fn is_cpio(begin: &[u8]) -> bool {
    let all = MAGICS.iter().map(|(magic, _)| *magic);
    all.chain(OLDER.iter().map(|(magic, _)| *magic))
        .any(|magic| begin.starts_with(magic))
}

/// The numbers of a header, in their order.
#[derive(Clone, Copy)]
struct Header([u32; 13]);

impl Header {
    fn inode(self) -> (u32, u32, u32) {
        (self.0[0], self.0[7], self.0[8])
    }

    fn meta(self) -> Meta {
        Meta {
            mode: self.0[1] & 0o7777,
            uid: self.0[2],
            gid: self.0[3],
        }
    }

    fn kind(self) -> Kind {
        match self.0[1] & 0o170_000 {
            0o040_000 => Kind::Directory,
            0o100_000 => Kind::File(self.size()),
            // The content of a link is its target.
            0o120_000 => Kind::Symlink(PathBuf::new()),
            0o010_000 => Kind::Fifo,
            0o020_000 | 0o060_000 => Kind::Device,
            0o140_000 => Kind::Socket,
            _ => Kind::Other,
        }
    }

    fn links(self) -> u32 {
        self.0[4]
    }

    fn mtime(self) -> u64 {
        self.0[5].into()
    }

    fn size(self) -> u64 {
        self.0[6].into()
    }

    fn name(self) -> usize {
        self.0[11] as usize
    }

    fn sum(self) -> u32 {
        self.0[12]
    }
}

/// Unpacks the archive of a stream.
pub fn unpack(unpack: &mut Unpack<'_>, stream: Stream) -> Result<(), Error> {
    let mut reader = Reader { stream, padding: 0 };
    let mut buffer = vec![0; BUFFER];
    let mut pending = Pending::default();
    loop {
        let Some((header, summed)) = reader.header(unpack)? else {
            return Err(unpack.refuse("truncated: the end of the archive is missing"));
        };
        let name = reader.name(unpack, header)?;
        if name == TRAILER {
            break;
        }
        let shown = PathBuf::from(OsStr::from_bytes(&name));
        reader.member(unpack, &shown, header, summed, &mut pending, &mut buffer)?;
    }
    // Names without any content belong to an empty file.
    for names in pending.names.into_values() {
        give_names(unpack, &names, None, &mut buffer)?;
    }
    let rest = reader.stream.finish(MAX_TRAILER);
    unpack.digest = rest.map_err(|error| unpack.refuse(error.to_string()))?;
    Ok(())
}

/// Files with several names: the names before the content, and the name that has the content.
#[derive(Default)]
struct Pending {
    names: HashMap<(u32, u32, u32), Vec<Member>>,
    made: HashMap<(u32, u32, u32), PathBuf>,
}

struct Reader {
    stream: Stream,
    /// The number of bytes to skip before the next header.
    padding: usize,
}

impl Reader {
    fn header(&mut self, unpack: &Unpack<'_>) -> Result<Option<(Header, bool)>, Error> {
        let refuse = |error: io::Error| unpack.refuse(error.to_string());
        let mut skipped = [0; 3];
        let padding = std::mem::take(&mut self.padding);
        if fill(&mut self.stream, &mut skipped[..padding]).map_err(refuse)? < padding {
            return Ok(None);
        }
        let mut bytes = [0; HEADER];
        let have = fill(&mut self.stream, &mut bytes).map_err(refuse)?;
        if let Some((_, form)) = OLDER.iter().find(|(magic, _)| bytes.starts_with(magic)) {
            return Err(unpack.refuse(format!(
                "a cpio archive in the old form {form}; make it with cpio -H newc"
            )));
        }
        if have < HEADER {
            return Ok(None);
        }
        let Some((_, summed)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) else {
            return Err(unpack.refuse("damaged: no header where a member begins"));
        };
        let mut numbers = [0; 13];
        for (number, digits) in numbers.iter_mut().zip(bytes[6..].chunks(8)) {
            *number = std::str::from_utf8(digits)
                .ok()
                // A sign is not a digit, so numbers with a sign are refused.
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .ok_or_else(|| {
                    unpack.refuse("damaged: a header has other characters than digits")
                })?;
        }
        Ok(Some((Header(numbers), *summed)))
    }

    fn name(&mut self, unpack: &Unpack<'_>, header: Header) -> Result<Vec<u8>, Error> {
        let length = header.name();
        if length == 0 || length > unpack.limits.path + 1 {
            return Err(unpack.refuse("a header larger than any name or attribute"));
        }
        let padded = (HEADER + length).next_multiple_of(4) - HEADER;
        let mut name = self.exactly(unpack, Path::new("name"), padded)?;
        name.truncate(length);
        if name.pop() != Some(0) || name.contains(&0) {
            return Err(unpack.refuse("damaged: a name that does not end"));
        }
        Ok(name)
    }

    fn exactly(
        &mut self,
        unpack: &Unpack<'_>,
        shown: &Path,
        length: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length];
        match fill(&mut self.stream, &mut bytes) {
            Ok(read) if read == length => Ok(bytes),
            Ok(_) => Err(unpack.bad(shown, "truncated")),
            Err(error) => Err(unpack.bad(shown, error.to_string())),
        }
    }

    fn member(
        &mut self,
        unpack: &mut Unpack<'_>,
        shown: &Path,
        header: Header,
        summed: bool,
        pending: &mut Pending,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let mut member = Member {
            name: shown.to_owned(),
            kind: header.kind(),
            meta: header.meta(),
            mtime: header.mtime(),
            attributes: Vec::new(),
        };
        let size = header.size();
        self.padding = usize::try_from(size.next_multiple_of(4) - size).unwrap_or(0);
        match &member.kind {
            Kind::Symlink(_) => {
                let length = usize::try_from(size).unwrap_or(usize::MAX);
                if length > unpack.limits.path {
                    return Err(unpack.bad(shown, "a link to too long a name"));
                }
                let target = self.exactly(unpack, shown, length)?;
                member.kind = Kind::Symlink(OsStr::from_bytes(&target).into());
                unpack.put(&member, &mut io::empty(), buffer)
            }
            Kind::File(_) if header.links() > 1 && size == 0 => {
                if let Some(first) = pending.made.get(&header.inode()) {
                    member.kind = Kind::HardLink(first.clone());
                    return unpack.put(&member, &mut io::empty(), buffer);
                }
                if pending.names.len() >= MAX_PENDING {
                    return Err(unpack.refuse("too many files with several names"));
                }
                let names = pending.names.entry(header.inode()).or_default();
                if names.len() >= MAX_PENDING {
                    return Err(unpack.bad(shown, "too many names of one file"));
                }
                names.push(member);
                Ok(())
            }
            Kind::File(_) => {
                let mut content = Summed {
                    stream: &mut self.stream,
                    left: size,
                    sum: 0,
                };
                unpack.put(&member, &mut content, buffer)?;
                if summed && content.sum != header.sum() {
                    return Err(unpack.bad(shown, "damaged: another checksum"));
                }
                if header.links() > 1 {
                    let names = pending.names.remove(&header.inode()).unwrap_or_default();
                    give_names(unpack, &names, Some(shown), buffer)?;
                    if pending.made.len() >= MAX_PENDING {
                        pending.made.clear();
                    }
                    pending.made.insert(header.inode(), shown.to_owned());
                }
                Ok(())
            }
            _ => {
                unpack.put(&member, &mut io::empty(), buffer)?;
                let mut rest = (&mut self.stream).take(size);
                let skipped = io::copy(&mut rest, &mut io::sink());
                match skipped.map_err(|error| unpack.bad(shown, error.to_string()))? {
                    all if all == size => Ok(()),
                    _ => Err(unpack.bad(shown, "truncated")),
                }
            }
        }
    }
}

/// Creates further names of the file that `first` names. If no name had content, the first name
/// becomes an empty file.
fn give_names(
    unpack: &mut Unpack<'_>,
    names: &[Member],
    first: Option<&Path>,
    buffer: &mut [u8],
) -> Result<(), Error> {
    let mut first = first.map(Path::to_owned);
    for name in names {
        let mut member = name.clone();
        match &first {
            Some(first) => member.kind = Kind::HardLink(first.clone()),
            None => first = Some(member.name.clone()),
        }
        unpack.put(&member, &mut io::empty(), buffer)?;
    }
    Ok(())
}

/// A reader that sums the bytes of the content.
struct Summed<'r> {
    stream: &'r mut Stream,
    left: u64,
    sum: u32,
}

impl Read for Summed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.stream.read(&mut buffer[..most])?;
        self.left -= read as u64;
        for byte in &buffer[..read] {
            self.sum = self.sum.wrapping_add(u32::from(*byte));
        }
        Ok(read)
    }
}
