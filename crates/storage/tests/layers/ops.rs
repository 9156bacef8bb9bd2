//! The operations of a zone's processes on files, and their results.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, RenameFlags, XattrFlags};
use serde::{Deserialize, Serialize};

/// A call, on paths relative to the root of the tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Op {
    Write(String, String),
    Append(String, String),
    Truncate(String, u64),
    Mkdir(String),
    Fifo(String),
    Unlink(String),
    Rmdir(String),
    RemoveTree(String),
    Rename(String, String),
    RenameNew(String, String),
    Exchange(String, String),
    Symlink(String, String),
    Link(String, String),
    Chmod(String, u32),
    Chown(String, u32, u32),
    SetXattr(String, String, String),
    RemoveXattr(String, String),
}

/// Carries out one call. Returns the error number, or 0 for success.
pub fn apply(op: &Op) -> i32 {
    match carry_out(op) {
        Ok(()) => 0,
        Err(e) => e.raw_os_error().unwrap_or(-1),
    }
}

fn carry_out(op: &Op) -> io::Result<()> {
    match op {
        Op::Write(path, text) => not_fifo(path).and_then(|()| fs::write(path, text)),
        Op::Append(path, text) => not_fifo(path)
            .and_then(|()| OpenOptions::new().append(true).open(path))
            .and_then(|mut file| file.write_all(text.as_bytes())),
        Op::Truncate(path, length) => not_fifo(path)
            .and_then(|()| OpenOptions::new().write(true).open(path))
            .and_then(|file| file.set_len(*length)),
        Op::Mkdir(path) => fs::create_dir(path),
        Op::Fifo(path) => Ok(rustix::fs::mknodat(
            CWD,
            path,
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )?),
        Op::Unlink(path) => fs::remove_file(path),
        Op::Rmdir(path) => fs::remove_dir(path),
        Op::RemoveTree(path) => fs::remove_dir_all(path),
        Op::Rename(from, to) => fs::rename(from, to),
        Op::RenameNew(from, to) => rename(from, to, RenameFlags::NOREPLACE),
        Op::Exchange(from, to) => rename(from, to, RenameFlags::EXCHANGE),
        Op::Symlink(path, target) => symlink(target, path),
        Op::Link(from, to) => fs::hard_link(from, to),
        Op::Chmod(path, mode) => fs::set_permissions(path, Permissions::from_mode(*mode)),
        Op::Chown(path, uid, gid) => lchown(path, Some(*uid), Some(*gid)),
        Op::SetXattr(path, name, value) => Ok(rustix::fs::lsetxattr(
            path,
            name,
            value.as_bytes(),
            XattrFlags::empty(),
        )?),
        Op::RemoveXattr(path, name) => Ok(rustix::fs::lremovexattr(path, name)?),
    }
}

fn rename(from: &str, to: &str, flags: RenameFlags) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, flags)?)
}

/// A fifo is refused, because opening it for writing would wait for a reader.
fn not_fifo(path: &str) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.file_type().is_fifo() => Err(io::Error::from_raw_os_error(6)),
        _ => Ok(()),
    }
}

/// The properties of one file that a process can see, except its times, inode number and number of
/// links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub content: String,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// The entries of a whole tree by path; "." is the root.
pub type Tree = BTreeMap<String, Entry>;

/// Reads the tree at the working directory.
pub fn snapshot() -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut pending = vec![".".to_owned()];
    while let Some(path) = pending.pop() {
        let entry = entry(Path::new(&path))?;
        if entry.mode & 0o170_000 == 0o040_000 {
            for child in fs::read_dir(&path)? {
                let name = child?.file_name();
                pending.push(format!("{path}/{}", name.to_string_lossy()));
            }
        }
        tree.insert(path, entry);
    }
    Ok(tree)
}

fn entry(path: &Path) -> io::Result<Entry> {
    let meta = fs::symlink_metadata(path)?;
    let kind = meta.file_type();
    let content = if kind.is_symlink() {
        fs::read_link(path)?.to_string_lossy().into_owned()
    } else if kind.is_file() {
        fs::read_to_string(path)?
    } else {
        String::new()
    };
    let mut xattrs = BTreeMap::new();
    if kind.is_dir() || kind.is_file() {
        let file = File::open(path)?;
        let mut names = vec![0; 4096];
        let length = rustix::fs::flistxattr(&file, &mut names)?;
        for name in names[..length].split(|b| *b == 0).filter(|n| !n.is_empty()) {
            let name = String::from_utf8_lossy(name).into_owned();
            // The host's root sees overlay's own attributes in a plain folder, where none may
            // exist, but never through an overlay.
            let mut value = vec![0; 256];
            let length = rustix::fs::fgetxattr(&file, &name, &mut value)?;
            value.truncate(length);
            xattrs.insert(name, value);
        }
    }
    Ok(Entry {
        mode: meta.mode(),
        uid: meta.uid(),
        gid: meta.gid(),
        content,
        xattrs,
    })
}
