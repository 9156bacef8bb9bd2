//! Finds the blocks of a file that no other file shares (`linux/fiemap.h`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const FIEMAP: libc::c_ulong = 0xc020_660b;

/// Number of extents that one call returns.
const EXTENTS_PER_CALL: usize = 128;

/// The flag `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 0x1;

/// The flag `FIEMAP_EXTENT_SHARED`.
const SHARED: u32 = 0x2000;

/// The layout of `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    also_reserved: [u32; 3],
}

/// The layout of `struct fiemap` with room for extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS_PER_CALL],
}

/// Returns the number of bytes in the blocks of a file that belong to this file alone. The other
/// blocks are shared with another file or another snapshot.
///
/// # Errors
/// Fails with `EOPNOTSUPP` or `ENOTTY` if the file system does not tell.
pub fn exclusive_bytes(file: impl AsFd) -> io::Result<u64> {
    const NONE: Extent = Extent {
        logical: 0,
        physical: 0,
        length: 0,
        reserved: [0; 2],
        flags: 0,
        also_reserved: [0; 3],
    };
    let (mut bytes, mut start) = (0_u64, 0);
    loop {
        let mut map = Map {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: EXTENTS_PER_CALL as u32,
            reserved: 0,
            extents: [NONE; EXTENTS_PER_CALL],
        };
        // SAFETY: the descriptor is open for the call. FIEMAP reads the fields before `extents`,
        // and writes `mapped` and at most `count` extents, for which `map` has room.
        let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FIEMAP as _, &raw mut map) };
        if result == -1 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        let mapped = usize::try_from(map.mapped).unwrap_or(0);
        let found = map.extents.get(..mapped).unwrap_or(&[]);
        for extent in found.iter().filter(|extent| extent.flags & SHARED == 0) {
            bytes = bytes.saturating_add(extent.length);
        }
        match found.last() {
            Some(last) if last.flags & LAST == 0 => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        assert_eq!(size_of::<Extent>(), 56);
        // The number of the request includes the size of the part before the extents.
        let size = ((FIEMAP >> 16) & 0x3fff) as usize;
        assert_eq!(size, std::mem::offset_of!(Map, extents));
    }

    #[test]
    fn a_file_alone_has_all_its_blocks() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &vec![7; 64 << 10], 1 << 20).unwrap();
        file.sync_all().unwrap();
        match exclusive_bytes(&file) {
            Ok(bytes) => assert_eq!(bytes, 64 << 10),
            // A tmpfs does not tell.
            Err(error) => assert!(
                [libc::EOPNOTSUPP, libc::ENOTTY].contains(&error.raw_os_error().unwrap_or(0)),
                "{error}"
            ),
        }
    }
}
