//! Random calls on files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, XattrFlags, mknodat, renameat_with};

/// A generator of numbers (xorshift), whose numbers depend on the seed alone.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn path(&mut self, root: &Path) -> PathBuf {
        const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d\n\xff"];
        let mut path = root.to_owned();
        for _ in 0..=self.below(3) {
            let name = NAMES[usize::try_from(self.below(4)).unwrap()];
            path.push(OsStr::from_bytes(name));
        }
        path
    }
}

/// Makes one call. Most calls can fail, because a file is missing or has another type.
pub fn call(random: &mut Random, root: &Path) {
    let (path, other) = (random.path(root), random.path(root));
    let number = random.below(3);
    match random.below(20) {
        0..5 => drop(fs::create_dir(&path)),
        // A FIFO would wait for its reader, and a link could lead out.
        5..8 if path.is_file() || !path.exists() => {
            if !path.is_symlink() {
                let _ = fs::write(&path, format!("text {number}"));
            }
        }
        8 => remove(&path),
        9..13 => drop(fs::rename(&path, &other)),
        13 => {
            let _ = renameat_with(CWD, &path, CWD, &other, RenameFlags::EXCHANGE);
        }
        14 => {
            let mode = 0o700 + 5 * u32::try_from(number).unwrap();
            // A link has no mode of its own, and its target could be outside.
            if !path.is_symlink() {
                let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
            }
        }
        15 => {
            let _ = std::os::unix::fs::lchown(&path, Some(u32::try_from(number).unwrap()), None);
        }
        16 => drop(symlink(format!("target {number}"), &path)),
        17 => drop(fs::hard_link(&path, &other)),
        18 => {
            let kinds = [
                FileType::Fifo,
                FileType::CharacterDevice,
                FileType::BlockDevice,
            ];
            let kind = kinds[usize::try_from(number).unwrap()];
            let device = match kind {
                FileType::Fifo => 0,
                _ => rustix::fs::makedev(240, u32::try_from(random.below(2)).unwrap() + 1),
            };
            let _ = mknodat(CWD, &path, kind, Mode::RUSR, device);
        }
        _ => {
            let value = number.to_string();
            let flags = XattrFlags::empty();
            let _ = rustix::fs::lsetxattr(&path, "user.test", value.as_bytes(), flags);
        }
    }
}

fn remove(path: &Path) {
    match path.is_dir() && !path.is_symlink() {
        true => drop(fs::remove_dir_all(path)),
        false => drop(fs::remove_file(path)),
    }
}
