//! Finds the pieces of a sparse file that have data.

use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, Stat, seek};
use rustix::io::Errno;

use crate::header::Piece;
use crate::read::MAX_PIECES;

/// Unit of `st_blocks`, in bytes; see stat(2).
const STAT_BLOCK_BYTES: u64 = 512;

/// Returns the pieces of an open file that have data, or `None` if the file has no holes. The
/// holes after the first [`MAX_PIECES`] pieces are copied as zeros.
pub(crate) fn pieces(file: impl AsFd, stat: &Stat) -> Result<Option<Vec<Piece>>, Errno> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    if blocks.saturating_mul(STAT_BLOCK_BYTES) >= size {
        return Ok(None);
    }
    let (mut list, mut at) = (Vec::new(), 0);
    while at < size {
        let begin = match seek(&file, SeekFrom::Data(at)) {
            Ok(begin) => begin.min(size),
            // No data follows.
            Err(Errno::NXIO) => break,
            // The file system does not know its holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let end = match list.len() + 2 < MAX_PIECES {
            true => seek(&file, SeekFrom::Hole(begin))?.min(size),
            false => size,
        };
        // A file that is written meanwhile cannot make this loop endless.
        if end <= begin {
            break;
        }
        list.push((begin, end - begin));
        at = end;
    }
    // GNU tar takes the size of the file from the end of the last piece.
    if list
        .last()
        .is_none_or(|(offset, length)| offset + length < size)
    {
        list.push((size, 0));
    }
    let is_whole = matches!(list.as_slice(), [(0, length)] if *length == size);
    Ok((!is_whole).then_some(list))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_are_left_out() {
        let file = tempfile::tempfile().unwrap();
        file.write_at(b"begin", 0).unwrap();
        file.write_at(b"end", 64 << 20).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let list = pieces(&file, &stat).unwrap().unwrap();
        assert_eq!(list.first().unwrap().0, 0);
        let (offset, length) = *list.last().unwrap();
        assert!(offset <= 64 << 20 && offset + length == (64 << 20) + 3);
        assert!(list.iter().map(|(_, length)| length).sum::<u64>() < 1 << 20);
        // A file that ends in a hole has an empty piece at its end.
        file.set_len(1 << 30).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let list = pieces(&file, &stat).unwrap().unwrap();
        assert_eq!(list.last(), Some(&(1 << 30, 0)));
        let full = tempfile::tempfile().unwrap();
        full.write_at(&[7; 8192], 0).unwrap();
        let stat = rustix::fs::fstat(&full).unwrap();
        assert_eq!(pieces(&full, &stat).unwrap(), None);
    }
}
