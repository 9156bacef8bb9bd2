//! Writes a tar stream: ustar headers, and pax records for everything that these cannot hold.

use std::io::{self, Write};

use crate::header::{BLOCK, Kind, Member, checksum, padding, record, time_text};

/// The length of a name, or of the target of a link, in a ustar header, in bytes.
const SHORT_NAME: usize = 100;

/// The highest owner id in a ustar header.
const MAX_SHORT_ID: u32 = 0o7_777_777;

/// The highest size and time in a ustar header.
const MAX_SHORT_NUMBER: u64 = 0o77_777_777_777;

/// A tar stream that is being written.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    to: W,
}

impl<W: Write> Writer<W> {
    pub(crate) const fn new(to: W) -> Self {
        Self { to }
    }

    /// Writes the header of a member. For a file, the caller then writes exactly the bytes of its
    /// pieces, and calls [`Writer::pad`] with their number. Returns the number of bytes of the map
    /// of a sparse file, which count for the padding.
    pub(crate) fn member(&mut self, member: &Member) -> io::Result<u64> {
        let mut pax = Vec::new();
        for (key, value) in &member.xattrs {
            record(&mut pax, &format!("SCHILY.xattr.{key}"), value);
        }
        let map = member.pieces.as_ref().map(|pieces| map(pieces));
        let size = match (&member.pieces, &map) {
            (Some(pieces), Some(map)) => {
                for (key, value) in [("major", "1"), ("minor", "0")] {
                    record(&mut pax, &format!("GNU.sparse.{key}"), value.as_bytes());
                }
                record(&mut pax, "GNU.sparse.name", &member.name);
                record(
                    &mut pax,
                    "GNU.sparse.realsize",
                    member.size.to_string().as_bytes(),
                );
                map.len() as u64 + pieces.iter().map(|(_, length)| length).sum::<u64>()
            }
            _ => member.size,
        };
        let link = match &member.kind {
            Kind::Symlink(to) | Kind::HardLink(to) => to.as_slice(),
            _ => b"",
        };
        for (key, text) in [("path", member.name.as_slice()), ("linkpath", link)] {
            if text.len() > SHORT_NAME {
                record(&mut pax, key, text);
            }
        }
        for (key, id) in [("uid", member.uid), ("gid", member.gid)] {
            if id > MAX_SHORT_ID {
                record(&mut pax, key, id.to_string().as_bytes());
            }
        }
        if size > MAX_SHORT_NUMBER {
            record(&mut pax, "size", size.to_string().as_bytes());
        }
        let (seconds, nanoseconds) = member.mtime;
        if nanoseconds != 0 || u64::try_from(seconds).map_or(true, |time| time > MAX_SHORT_NUMBER) {
            record(&mut pax, "mtime", time_text(member.mtime).as_bytes());
        }
        if !pax.is_empty() {
            let mut extra = Member::new(b"pax".to_vec(), Kind::File);
            extra.size = pax.len() as u64;
            self.to.write_all(&block(&extra, b'x', extra.size, b""))?;
            self.to.write_all(&pax)?;
            self.pad(pax.len() as u64)?;
        }
        let kind = match member.kind {
            Kind::File => b'0',
            Kind::HardLink(_) => b'1',
            Kind::Symlink(_) => b'2',
            Kind::Folder => b'5',
            Kind::Other(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        self.to.write_all(&block(member, kind, size, link))?;
        let map = map.unwrap_or_default();
        self.to.write_all(&map)?;
        Ok(map.len() as u64)
    }

    /// Writes content of the last member.
    pub(crate) fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Fills the last block of content of `size` bytes.
    pub(crate) fn pad(&mut self, size: u64) -> io::Result<()> {
        self.to.write_all(&[0; BLOCK][..padding(size)])
    }

    /// Writes the end mark.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.to.write_all(&[0; 2 * BLOCK])?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Returns the map of a sparse file: the number of pieces, and offset and length of each, one
/// number on a line, filled up to a block.
fn map(pieces: &[(u64, u64)]) -> Vec<u8> {
    let mut text = format!("{}\n", pieces.len());
    for (offset, length) in pieces {
        text.push_str(&format!("{offset}\n{length}\n"));
    }
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len() + padding(bytes.len() as u64), 0);
    bytes
}

fn block(member: &Member, kind: u8, size: u64, link: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    let short = |text: &'_ [u8]| text[..text.len().min(SHORT_NAME)].to_vec();
    // A number that does not fit is in a pax record.
    let digits = |number: u64, max: u64, width: usize| match number <= max {
        true => format!("{number:0width$o}\0"),
        false => format!("{:0width$o}\0", 0),
    };
    put(0, &short(&member.name));
    put(
        100,
        digits(u64::from(member.mode & 0o7777), 0o7777, 7).as_bytes(),
    );
    for (at, id) in [(108, member.uid), (116, member.gid)] {
        put(at, digits(id.into(), MAX_SHORT_ID.into(), 7).as_bytes());
    }
    put(124, digits(size, MAX_SHORT_NUMBER, 11).as_bytes());
    let time = u64::try_from(member.mtime.0).unwrap_or(0);
    put(136, digits(time, MAX_SHORT_NUMBER, 11).as_bytes());
    put(156, &[kind]);
    put(157, &short(link));
    put(257, b"ustar\x0000");
    let sum = checksum(&block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
