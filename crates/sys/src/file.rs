//! Reads files whose size the kernel does not report.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// Size of the buffer of [`read_small`] in bytes: most files of /proc, control groups or /run fit.
/// A larger file needs more reads.
const BUFFER_BYTES: usize = 16 << 10;

/// Reads a whole file, usually with two read calls. The standard library starts with 32 bytes if it
/// does not know the size, as in /proc.
///
/// # Errors
/// Fails with the error of open(2) or read(2).
pub fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::with_capacity(BUFFER_BYTES);
    loop {
        if bytes.capacity() - bytes.len() < BUFFER_BYTES / 2 {
            bytes.reserve(BUFFER_BYTES);
        }
        match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_size_is_read_whole() {
        let path = std::env::temp_dir().join(format!("read-small-{}", std::process::id()));
        for size in [0, 1, BUFFER_BYTES - 1, BUFFER_BYTES, 5 * BUFFER_BYTES + 7] {
            let text: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read_small(&path).unwrap(), text);
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            read_small(&path).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(!read_small(Path::new("/proc/self/stat")).unwrap().is_empty());
    }
}
