//! The writable top of a zone, listed so that what changed since can be told.
//!
//! The change time of an inode cannot be set back, so a file with the same number and
//! change time as in an earlier listing is the same file with the same content; but for
//! changes within the same tick of the clock, so what was changed shortly before a
//! listing counts as changed after it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use rustix::time::ClockId;

use crate::Error;

/// Folders in folders that are looked into.
const DEPTH: usize = 256;

/// Changes so short before a listing count as after it, in seconds.
const SLACK: i64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    number: u64,
    changed: (i64, i64),
    kind: u32,
}

/// What was in a top.
#[derive(Debug, Default)]
pub(super) struct Listing {
    entries: HashMap<PathBuf, Mark>,
    /// When it was begun, in seconds since 1970.
    begun: i64,
}

impl Listing {
    /// Lists a top, into which a running zone may write meanwhile.
    pub(super) fn of(top: &Path) -> Result<Self, Error> {
        let now = rustix::time::clock_gettime(ClockId::Realtime);
        let mut listing = Self {
            entries: HashMap::new(),
            begun: now.tv_sec,
        };
        listing.walk(top, Path::new(""), 0)?;
        Ok(listing)
    }

    fn walk(&mut self, top: &Path, at: &Path, depth: usize) -> Result<(), Error> {
        let folder = top.join(at);
        let fail = || Error::io(format!("read {}", folder.display()));
        if depth > DEPTH {
            let error = std::io::Error::other("folders too deep in each other");
            return Err(fail()(error));
        }
        let entries = match fs::read_dir(&folder) {
            // Gone since it was listed.
            Err(error) if depth > 0 && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(());
            }
            other => other.map_err(fail())?,
        };
        for entry in entries {
            let entry = entry.map_err(fail())?;
            let Ok(meta) = fs::symlink_metadata(entry.path()) else {
                continue;
            };
            let path = at.join(entry.file_name());
            let mark = Mark {
                number: meta.ino(),
                changed: (meta.ctime(), meta.ctime_nsec()),
                kind: meta.mode() & 0o170_000,
            };
            self.entries.insert(path.clone(), mark);
            if meta.is_dir() {
                self.walk(top, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    /// How much there is.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether what is at a path now need not be sent again.
    pub(super) fn has(&self, path: &Path, stat: &Stat) -> bool {
        let changed = (
            stat.st_ctime,
            i64::try_from(stat.st_ctime_nsec).unwrap_or(0),
        );
        let now = Mark {
            number: stat.st_ino,
            changed,
            kind: stat.st_mode & 0o170_000,
        };
        // A folder's own times change with what is sent into it.
        let folder = stat.st_mode & 0o170_000 == 0o040_000;
        !folder && changed.0 < self.begun - SLACK && self.entries.get(path) == Some(&now)
    }

    /// Names that are gone since, or something of another kind, those in a folder before
    /// the folder.
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
    use super::*;

    #[test]
    fn what_is_gone_is_named_from_within() {
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
        // Just changed: it may be changed again within the same tick.
        let stat = rustix::fs::stat(at("stays")).unwrap();
        assert!(!before.has(Path::new("stays"), &stat));
        let later = Listing {
            begun: before.begun + 60,
            entries: before.entries,
        };
        assert!(later.has(Path::new("stays"), &stat));
        assert!(!later.has(Path::new("other"), &stat));
    }
}
