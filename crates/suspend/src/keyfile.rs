//! Reads keys from files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::key::{Key, KeyError};

/// Maximum size of a key file, in bytes: more than any form of a key.
const MAX_KEY_FILE_BYTES: u64 = 128;

/// The reason why the key in a file cannot be read or must not be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The key file could not be read.
    #[error("cannot read the key {path}", path = path.display())]
    Read {
        /// The path of the key file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path leads to a pipe, a folder or a device, not to a plain file.
    #[error("the key {path} is no plain file", path = path.display())]
    Kind {
        /// The path of the file.
        path: PathBuf,
    },
    /// The key file belongs to neither the caller nor root.
    #[error("the key {path} belongs to user {owner}", path = path.display())]
    Owner {
        /// The path of the key file.
        path: PathBuf,
        /// The user id of the file's owner.
        owner: u32,
    },
    /// Users other than the owner may read the key file.
    #[error("the key {path} can be read by others than its owner: chmod 600", path = path.display())]
    Mode {
        /// The path of the key file.
        path: PathBuf,
    },
    /// The key file contains no valid key.
    #[error("{path}", path = path.display())]
    Form {
        /// The path of the key file.
        path: PathBuf,
        /// The problem with the key.
        source: KeyError,
    },
}

impl Key {
    /// Reads a key in one of the forms of [`Key::parse`]. The file must be a plain file of root or
    /// the caller that other users cannot read.
    ///
    /// # Errors
    /// Fails with a [`KeyFileError`], which names the file.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let mut bytes = read(path)?;
        let key = Self::parse(&bytes);
        bytes.fill(0);
        key.map_err(|source| KeyFileError::Form {
            path: path.to_owned(),
            source,
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let owned = || path.to_owned();
    let failed = |source| KeyFileError::Read {
        path: owned(),
        source,
    };
    let file = open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(KeyFileError::Kind { path: owned() });
    }
    let owner = meta.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let path = owned();
        return Err(KeyFileError::Owner { path, owner });
    }
    if meta.mode() & 0o077 != 0 {
        return Err(KeyFileError::Mode { path: owned() });
    }
    // The buffer must not grow: the old memory of a moved buffer would keep a copy of the key.
    let mut bytes = Vec::with_capacity(256);
    file.take(MAX_KEY_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Opens a path of any type of file. If the path is a named pipe, the call does not wait for a
/// writer.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(i32::from_ne_bytes(flags.bits().to_ne_bytes()))
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_a_closed_plain_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let write = |mode: u32| {
            fs::write(&path, [7; 32]).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o600, 0o400] {
            write(mode);
            assert_eq!(Key::read(&path).unwrap().bytes(), &[7; 32]);
        }
        for mode in [0o640, 0o604, 0o620] {
            write(mode);
            let why = Key::read(&path).unwrap_err();
            assert!(matches!(why, KeyFileError::Mode { .. }), "{mode:o}: {why}");
        }
        write(0o600);
        // Only root can give a file to another user.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            let why = Key::read(&path).unwrap_err();
            assert!(matches!(why, KeyFileError::Owner { .. }), "{why}");
        }
        let why = Key::read(&dir.path().join("none")).unwrap_err();
        assert!(matches!(why, KeyFileError::Read { .. }), "{why}");
        fs::write(dir.path().join("long"), [b'0'; 500]).unwrap();
        let long = dir.path().join("long");
        fs::set_permissions(&long, Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Key::read(&long), Err(KeyFileError::Form { .. })));
    }

    #[test]
    fn a_key_file_that_is_a_pipe_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        for path in [&pipe, dir.path(), Path::new("/dev/null")] {
            // The test passes only if this call returns.
            let why = Key::read(path).unwrap_err();
            assert!(matches!(why, KeyFileError::Kind { .. }), "{why}");
        }
    }
}
