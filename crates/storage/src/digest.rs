//! The digest of a tree, which depends only on the content of the tree and not on how the tree was
//! made.
//!
//! The digest is SHA-256 over one line per entry. Within each folder the entries are sorted by the
//! bytes of their names. The entries of a folder follow right after the line of this folder:
//!
//! ```text
//! zones-tree 1
//! <kind> <mode> <uid> <gid> <mtime> <name> [<more>]  <attribute>=<value>...
//! ```
//!
//! | kind | entry | more |
//! |---|---|---|
//! | `d` | folder | - |
//! | `f` | file | its size and the SHA-256 of its content |
//! | `h` | one more name of a file | the first name |
//! | `l` | symbolic link | its text |
//! | `p`, `s` | fifo, socket | - |
//! | `c`, `b` | device node (whiteouts) | its number |
//!
//! Names are relative to the root of the tree. The mode is octal. The time is in whole seconds, and
//! 0 for the root folder itself, because an archive may have no entry for the root folder. Each
//! value that may contain any byte is preceded by its length (`5:hello`), so that two different
//! trees never give the same lines.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use sha2::{Digest as _, Sha256};

use crate::attributes::{Xattrs, xattrs};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::sha256::Digest;

/// Maximum depth of nested folders in a walk; one descriptor is open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

impl Digest {
    /// Returns the digest of the tree at `root`.
    pub fn of_tree(root: &Path) -> Result<Self> {
        let mut walk = Walk {
            hash: Sha256::new(),
            first: HashMap::new(),
            keeps: None,
        };
        walk.hash.update(b"zones-tree 1\n");
        walk.tree(root)
    }

    /// Returns the digest of a layer or top, which is the same on another host. It covers
    /// whiteouts, but not the attributes that a stream does not carry. `keeps` decides which
    /// extended attributes it covers.
    pub fn of_layer(root: &Path, keeps: Keeps<'_>) -> Result<Self> {
        let mut walk = Walk {
            hash: Sha256::new(),
            first: HashMap::new(),
            keeps: Some(keeps),
        };
        walk.hash.update(b"zones-layer 1\n");
        walk.tree(root)
    }

    /// Returns the digest of the bytes in a file.
    pub fn of_file(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        content(&mut file, |_| Ok(())).map_err(|e| Error::io("read", path, e))
    }

    /// Copies a file into a new file and returns the digest of the bytes. Later reads of the new
    /// file see the bytes of the digest.
    pub fn of_copy(path: &Path, to: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let mut copy = File::create_new(to).map_err(|e| Error::io("create", to, e))?;
        content(&mut file, |bytes| copy.write_all(bytes)).map_err(|e| Error::io("copy", path, e))
    }
}

/// A function that returns true if an extended attribute, given by name and value, is part of a
/// layer.
pub type Keeps<'a> = &'a dyn Fn(&[u8], &[u8]) -> bool;

struct Walk<'a> {
    hash: Sha256,
    /// Decides which extended attributes are part of a layer; `None` for a tree that is not a
    /// layer.
    keeps: Option<Keeps<'a>>,
    /// The first name of each file with several names, by device and inode number.
    first: HashMap<(u64, u64), Vec<u8>>,
}

impl Walk<'_> {
    fn tree(mut self, root: &Path) -> Result<Digest> {
        let folder = Folder::open(root)?;
        let stat = rustix::fs::fstat(&folder).map_err(|e| folder.fail("fstat", "", e))?;
        self.line(b'd', &stat, b"", 0);
        self.finish(&attributes(&folder, "")?);
        self.folder(&folder, &mut Vec::new(), 0)?;
        Ok(Digest::from_hash(self.hash.finalize().into()))
    }

    fn folder(&mut self, folder: &Folder, path: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(Error::TooDeep(folder.path().to_owned()));
        }
        let mut names: Vec<_> = folder
            .entries()?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        for name in names {
            let length = path.len();
            path.push(b'/');
            path.extend(name.as_bytes());
            self.entry(folder, &name, path, depth)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(&mut self, at: &Folder, name: &OsStr, path: &mut Vec<u8>, depth: usize) -> Result<()> {
        let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| at.fail("stat", name, e))?;
        let mut all = Xattrs::new();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let inner = at.open_child(name)?;
                self.line(b'd', &stat, path, stat.st_mtime);
                self.finish(&attributes(&inner, "")?);
                return self.folder(&inner, path, depth + 1);
            }
            FileType::RegularFile => {
                if stat.st_nlink > 1 {
                    let number = (stat.st_dev, stat.st_ino);
                    if let Some(first) = self.first.get(&number).cloned() {
                        self.line(b'h', &stat, path, stat.st_mtime);
                        self.field(&first);
                        self.finish(&all);
                        return Ok(());
                    }
                    self.first.insert(number, path.clone());
                }
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(at, name, flags, Mode::empty())
                    .map_err(|e| at.fail("open", name, e))?;
                all = xattrs(&file).map_err(|e| at.fail("getxattr", name, e))?;
                let digest = content(&mut File::from(file), |_| Ok(()))
                    .map_err(|e| at.fail("read", name, e))?;
                self.line(b'f', &stat, path, stat.st_mtime);
                self.hash
                    .update(format!(" {} {}", stat.st_size, digest.hex()));
            }
            FileType::Symlink => {
                let text = at.read_link(name)?.unwrap_or_default();
                self.line(b'l', &stat, path, stat.st_mtime);
                self.field(text.as_bytes());
            }
            FileType::CharacterDevice if self.keeps.is_some() && stat.st_rdev == 0 => {
                self.hash.update(b"w");
                self.field(path);
            }
            // No stream carries sockets or device files.
            FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice
                if self.keeps.is_some() =>
            {
                return Ok(());
            }
            other => {
                let kind = match other {
                    FileType::Fifo => b'p',
                    FileType::Socket => b's',
                    FileType::CharacterDevice => b'c',
                    _ => b'b',
                };
                self.line(kind, &stat, path, stat.st_mtime);
                self.hash.update(format!(" {}", stat.st_rdev));
            }
        }
        self.finish(&all);
        Ok(())
    }

    fn line(&mut self, kind: u8, stat: &Stat, path: &[u8], mtime: i64) {
        // A symbolic link has no meaningful mode.
        let mode = match kind {
            b'l' => 0,
            b'p' if self.keeps.is_some() => stat.st_mode & 0o777,
            _ => stat.st_mode & 0o7777,
        };
        let mtime = match self.keeps {
            Some(_) => mtime.max(0),
            None => mtime,
        };
        let (uid, gid) = (stat.st_uid, stat.st_gid);
        self.hash.update([kind]);
        self.hash.update(format!(" {mode:o} {uid} {gid} {mtime}"));
        self.field(path);
    }

    fn field(&mut self, bytes: &[u8]) {
        self.hash.update(format!(" {}:", bytes.len()));
        self.hash.update(bytes);
    }

    fn finish(&mut self, all: &Xattrs) {
        for (name, value) in all {
            if self.keeps.is_some_and(|keeps| !keeps(name, value)) {
                continue;
            }
            self.field(name);
            self.hash.update(b"=");
            self.field(value);
        }
        self.hash.update(b"\n");
    }
}

fn attributes(folder: &Folder, name: &str) -> Result<Xattrs> {
    xattrs(folder).map_err(|e| folder.fail("getxattr", name, e))
}

fn content(
    file: &mut File,
    mut also: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Digest::from_hash(hash.finalize().into())),
            Ok(read) => {
                hash.update(&buffer[..read]);
                also(&buffer[..read])?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sha256::BadDigest;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/f"), "text").unwrap();
        fs::hard_link(at("d/f"), at("d/g")).unwrap();
        symlink("d/f", at("l")).unwrap();
        settle(dir.path());
        dir
    }

    /// Sets the times of all files of a test tree to fixed values.
    fn settle(root: &Path) {
        let status = std::process::Command::new("find")
            .arg(root)
            .args(["-exec", "touch", "-h", "-d", "@1000", "{}", "+"])
            .status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn equal_trees_have_one_digest_and_others_another() {
        let (one, two) = (tree(), tree());
        let first = Digest::of_tree(one.path()).unwrap();
        assert_eq!(Digest::of_tree(two.path()).unwrap(), first);
        type Change = fn(&Path);
        let changes: [Change; 8] = [
            |root| fs::write(root.join("d/f"), "Text").unwrap(),
            |root| fs::rename(root.join("d/g"), root.join("d/h")).unwrap(),
            |root| {
                fs::remove_file(root.join("d/g")).unwrap();
                fs::write(root.join("d/g"), "text").unwrap();
            },
            |root| {
                fs::remove_file(root.join("l")).unwrap();
                symlink("d/g", root.join("l")).unwrap();
            },
            |root| fs::create_dir(root.join("e")).unwrap(),
            |root| fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o711)).unwrap(),
            |root| {
                fs::set_permissions(root.join("d/f"), fs::Permissions::from_mode(0o4755)).unwrap();
            },
            |root| {
                fs::remove_file(root.join("l")).unwrap();
                fs::write(root.join("l"), "d/f").unwrap();
            },
        ];
        let mut seen = vec![first];
        for change in changes {
            let dir = tree();
            change(dir.path());
            settle(dir.path());
            seen.push(Digest::of_tree(dir.path()).unwrap());
        }
        let later = tree();
        fs::File::open(later.path().join("d"))
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        seen.push(Digest::of_tree(later.path()).unwrap());
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "abc").unwrap();
        let digest = Digest::of_file(&file).unwrap();
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), format!("sha256:{text}"));
        let copy = dir.path().join("copy");
        assert_eq!(Digest::of_copy(&file, &copy).unwrap(), digest);
        assert_eq!(fs::read(&copy).unwrap(), b"abc");
        assert!(
            Digest::of_copy(&file, &copy).is_err(),
            "nothing is overwritten"
        );
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in ["", "sha256:", &text[1..], "sha512:00", &format!("{text}0")] {
            assert_eq!(bad.parse::<Digest>(), Err(BadDigest), "{bad}");
        }
    }
}
