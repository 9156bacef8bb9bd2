//! Files of the kernel that are read repeatedly. Such a file is opened once, and each read starts
//! at its beginning.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread};

/// Maximum size of a file, in bytes: enough for a line for each of many disks or links.
pub(super) const MAX_FILE_BYTES: usize = 1 << 16;

/// The number of files that may still be opened.
#[derive(Debug)]
pub(super) struct Budget(pub usize);

/// A file of the kernel, open or not.
#[derive(Debug, Default)]
pub(super) enum File {
    /// The file was not opened yet.
    #[default]
    Unknown,
    /// The file does not exist.
    Missing,
    /// The file is open on this descriptor.
    Open(OwnedFd),
    /// The file exists, but too many files are open already.
    Closed,
}

/// The reason why a file has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nothing {
    /// The group has no such file, or the caller may not read it.
    Missing,
    /// The group no longer exists.
    Gone,
}

impl File {
    /// Reads the text of `folder/name` into `buffer`, and returns it.
    pub(super) fn read<'b>(
        &mut self,
        folder: &Path,
        name: &str,
        budget: &mut Budget,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Nothing> {
        if let Self::Missing = self {
            return Err(Nothing::Missing);
        }
        if let Self::Open(fd) = self {
            return from_start(fd, buffer, MAX_FILE_BYTES);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = match openat(CWD, folder.join(name), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NODEV) if !folder.exists() => return Err(Nothing::Gone),
            Err(_) => {
                *self = Self::Missing;
                return Err(Nothing::Missing);
            }
        };
        let text = from_start(&fd, buffer, MAX_FILE_BYTES);
        *self = match budget.0.checked_sub(1) {
            Some(left) => {
                budget.0 = left;
                Self::Open(fd)
            }
            None => Self::Closed,
        };
        text
    }

    /// Closes the file.
    pub(super) fn close(&mut self, budget: &mut Budget) {
        if let Self::Open(_) = std::mem::take(self) {
            budget.0 += 1;
        }
    }
}

/// Reads at most `most` bytes of an open file from its start. For each such read, the kernel writes the content of files of
/// control groups and of /proc again.
pub(super) fn from_start<'b>(
    fd: &OwnedFd,
    buffer: &'b mut Vec<u8>,
    most: usize,
) -> Result<&'b [u8], Nothing> {
    let mut length = 0;
    loop {
        if length >= most {
            break;
        }
        if length == buffer.len() {
            buffer.resize((length * 2).clamp(4096, most), 0);
        }
        let end = buffer.len().min(most);
        match pread(fd, &mut buffer[length..end], length as u64) {
            Ok(0) => break,
            // Most files are short: a read that does not fill the buffer has reached the end, so no
            // second call is needed.
            Ok(read) if length + read < end && read < 3072 => {
                length += read;
                break;
            }
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(Errno::NODEV | Errno::NOENT | Errno::SRCH) => return Err(Nothing::Gone),
            Err(_) => return Err(Nothing::Missing),
        }
    }
    Ok(&buffer[..length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_open_file_is_read_again_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, mut budget, mut buffer) = (File::default(), Budget(1), Vec::new());
        fs::write(dir.path().join("a"), "one").unwrap();
        let mut read = |file: &mut File| {
            file.read(dir.path(), "a", &mut budget, &mut buffer)
                .map(<[u8]>::to_vec)
        };
        assert_eq!(read(&mut file).unwrap(), b"one");
        fs::write(dir.path().join("a"), "two").unwrap();
        assert_eq!(read(&mut file).unwrap(), b"two");
        // The budget of open files is used up, so the next file is closed after reading.
        let mut other = File::default();
        assert_eq!(read(&mut other).unwrap(), b"two");
        assert!(matches!(other, File::Closed));
        file.close(&mut budget);
        assert_eq!(budget.0, 1);
    }

    #[test]
    fn long_ones_are_read_whole_and_missing_ones_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let (mut budget, mut buffer) = (Budget(9), Vec::new());
        let long = "x".repeat(20_000);
        fs::write(dir.path().join("long"), &long).unwrap();
        let text = File::default().read(dir.path(), "long", &mut budget, &mut buffer);
        assert_eq!(text, Ok(long.as_bytes()));
        let mut none = File::default();
        let read = none.read(dir.path(), "none", &mut budget, &mut buffer);
        assert_eq!(read, Err(Nothing::Missing));
        assert!(matches!(none, File::Missing));
        let gone = dir.path().join("gone");
        let read = File::default().read(&gone, "none", &mut budget, &mut buffer);
        assert_eq!(read, Err(Nothing::Gone));
    }
}
