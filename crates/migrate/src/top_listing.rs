//! Lists the writable top of a zone, to find later changes.
//!
//! The change time of an inode cannot be set back. So a file with the same inode number and change
//! time as in an earlier listing is the same file with the same content. The exception is a change
//! within the same clock tick, so a file that changed shortly before a listing counts as changed
//! after the listing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::time::ClockId;

use host::Error;

/// Maximum depth of nested folders that are listed.
const MAX_FOLDER_DEPTH: usize = 256;

/// Maximum number of file names in a listing. Each name takes about 150 bytes of memory, and a zone
/// may create any number of files.
const MAX_NAMES: usize = 8 << 20;

/// Number of seconds before a listing in which a change counts as a change after the listing.
const CLOCK_SLACK_SECONDS: i64 = 2;

/// The open(2) flags for a folder.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    number: u64,
    changed: (i64, i64),
    kind: u32,
}

impl Mark {
    fn of(stat: &Stat) -> Self {
        let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
        Self {
            number: stat.st_ino,
            changed: (stat.st_ctime, nanoseconds),
            kind: stat.st_mode & 0o170_000,
        }
    }
}

/// The listing of a top layer.
#[derive(Debug, Default)]
pub(super) struct Listing {
    entries: HashMap<PathBuf, Mark>,
    /// The time at which the listing began, in seconds since 1970.
    begun: i64,
}

impl Listing {
    /// Lists a top. A running zone may write to the top meanwhile.
    pub(super) fn of(top: &Path) -> Result<Self, Error> {
        // The clock of change times. The precise clock is ahead of it, by more than the slack if the
        // processor that moves the clock of change times stands still.
        let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        let mut listing = Self {
            entries: HashMap::new(),
            begun: now.tv_sec,
        };
        let open = rustix::fs::openat(CWD, top, FOLDER, Mode::empty())
            .map_err(|errno| Error::Io(format!("read {}", top.display()), errno.into()))?;
        listing.walk(&open, Path::new(""), 0)?;
        Ok(listing)
    }

    /// Lists the content of a folder. Each folder is opened relative to its parent, because a
    /// running zone may replace a folder by a symbolic link at any moment.
    fn walk(&mut self, folder: &OwnedFd, at: &Path, depth: usize) -> Result<(), Error> {
        let fail = |error: std::io::Error| Error::Io(format!("read {}", at.display()), error);
        if depth > MAX_FOLDER_DEPTH {
            return Err(fail(std::io::Error::other(
                "folders too deep in each other",
            )));
        }
        for entry in Dir::read_from(folder).map_err(|errno| fail(errno.into()))? {
            let entry = entry.map_err(|errno| fail(errno.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if self.entries.len() >= MAX_NAMES {
                let text = format!("more than {MAX_NAMES} files");
                return Err(fail(std::io::Error::other(text)));
            }
            let path = at.join(name);
            self.entries.insert(path.clone(), Mark::of(&stat));
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                match rustix::fs::openat(folder.as_fd(), name, FOLDER, Mode::empty()) {
                    Ok(below) => self.walk(&below, &path, depth + 1)?,
                    // The folder was removed or replaced after its name was listed.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(errno) => return Err(fail(errno.into())),
                }
            }
        }
        Ok(())
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the object at a path need not be sent again.
    pub(super) fn has(&self, path: &Path, stat: &Stat) -> bool {
        let now = Mark::of(stat);
        // Folders are always sent again, because files that are unpacked into a folder on the
        // target change the times of the folder.
        let folder = stat.st_mode & 0o170_000 == 0o040_000;
        !folder
            && now.changed.0 < self.begun - CLOCK_SLACK_SECONDS
            && self.entries.get(path) == Some(&now)
    }

    /// Returns the names that were removed or now have another file type. Names in a folder come
    /// before the folder.
    pub(super) fn gone(&self, now: &Self) -> Vec<PathBuf> {
        let mut gone: Vec<PathBuf> = self
            .entries
            .iter()
            .filter(|(path, mark)| {
                now.entries
                    .get(*path)
                    .is_none_or(|now| now.kind != mark.kind)
            })
            .map(|(path, _)| path.clone())
            .collect();
        gone.sort_by(|a, b| b.cmp(a));
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn removed_files_are_listed_before_their_folders() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/c"), "").unwrap();
        fs::write(at("kind"), "").unwrap();
        fs::write(at("stays"), "").unwrap();
        let before = Listing::of(dir.path()).unwrap();
        assert_eq!(before.len(), 5);
        fs::remove_dir_all(at("a")).unwrap();
        fs::remove_file(at("kind")).unwrap();
        fs::create_dir(at("kind")).unwrap();
        fs::write(at("new"), "").unwrap();
        let after = Listing::of(dir.path()).unwrap();
        let gone = before.gone(&after);
        assert_eq!(gone, ["kind", "a/b/c", "a/b", "a"].map(PathBuf::from));
        // This file was changed just before the listing, so it may be changed again within the same
        // clock tick.
        let stat = rustix::fs::stat(at("stays")).unwrap();
        assert!(!before.has(Path::new("stays"), &stat));
        let later = Listing {
            begun: before.begun + 60,
            entries: before.entries,
        };
        assert!(later.has(Path::new("stays"), &stat));
        assert!(!later.has(Path::new("other"), &stat));
    }

    #[test]
    fn a_link_to_elsewhere_is_a_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("top")).unwrap();
        fs::create_dir_all(dir.path().join("host/secret")).unwrap();
        std::os::unix::fs::symlink("../host", dir.path().join("top/var")).unwrap();
        let listing = Listing::of(&dir.path().join("top")).unwrap();
        assert_eq!(listing.len(), 1);
    }
}
