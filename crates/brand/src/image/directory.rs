//! Copies a directory of the host.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::content::{is_allowed_attribute, set_attribute};
use super::unpack::Unpack;
use crate::Error;
use crate::tree::{Meta, Tree};

/// Maximum size of an attribute, and of the list of attribute names, in the kernel.
const MAX_ATTRIBUTE: usize = 64 << 10;

/// Maximum size of a configuration of LXC, in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Copies the tree at `path` to the root.
pub fn copy(unpack: &mut Unpack<'_>, path: &Path) -> Result<(), Error> {
    let resolved = |path: &Path| {
        std::fs::canonicalize(path).map_err(|error| Error::io("look at", path, error))
    };
    let root = unpack.root.show(Path::new(""));
    if resolved(&root)?.starts_with(resolved(path)?) {
        return Err(unpack.refuse("the zone itself lies in it"));
    }
    let source = Tree::open(path)?;
    let device = match source.stat(Path::new(""))? {
        Some(stat) => stat.st_dev,
        None => return Err(unpack.refuse("it is gone")),
    };
    let mut copy = Copy {
        unpack,
        source,
        device,
        linked: HashMap::new(),
    };
    // The list has paths and no descriptors, so a deep tree needs no more descriptors.
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for name in copy.source.names(&dir)? {
            let name = dir.join(name);
            if let Some(stat) = copy.entry(&name)? {
                open.push(name.clone());
                copy.unpack.dirs.push((name, mtime(&stat)));
            }
        }
    }
    Ok(())
}

/// Returns true for the folder of an LXC container, which has a configuration beside its root.
pub fn is_lxc(path: &Path) -> bool {
    let is = |name: &str, folder: bool| {
        let meta = path.join(name).symlink_metadata();
        meta.is_ok_and(|meta| {
            if folder {
                meta.is_dir()
            } else {
                meta.is_file()
            }
        })
    };
    is("config", false) && is("rootfs", true) && !is("usr", true) && !is("bin", true)
}

/// Returns the first user id and the first group id of an LXC container on the host.
pub fn shift(path: &Path) -> Result<(u32, u32), Error> {
    let file = path.join("config");
    let mut text = String::new();
    let opened = File::open(&file).and_then(|file| file.take(MAX_CONFIG).read_to_string(&mut text));
    opened.map_err(|error| Error::io("read", &file, error))?;
    let mut found = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line
            .split(['=', ' ', '\t'])
            .filter(|word| !word.is_empty())
            .collect();
        if let ["lxc.idmap" | "lxc.id_map", kind, "0", first, ..] = words.as_slice() {
            let first = first.parse().unwrap_or(0);
            match *kind {
                "u" => found.0 = first,
                "g" => found.1 = first,
                _ => found = (first, first),
            }
        }
    }
    Ok(found)
}

/// Converts ids on the host into ids in the LXC container.
fn unshift(meta: Meta, (uid, gid): (u32, u32)) -> Meta {
    let own = |id: u32, first: u32| id.checked_sub(first).unwrap_or(id);
    Meta {
        uid: own(meta.uid, uid),
        gid: own(meta.gid, gid),
        ..meta
    }
}

struct Copy<'u, 'p> {
    unpack: &'u mut Unpack<'p>,
    source: Tree,
    device: u64,
    /// The files with several names, each with the path of its first copy.
    linked: HashMap<u64, PathBuf>,
}

impl Copy<'_, '_> {
    /// Copies one entry. Returns a directory if its content is still to be copied.
    fn entry(&mut self, name: &Path) -> Result<Option<Stat>, Error> {
        let name = &self.unpack.admit(name)?;
        // The file was removed in the meantime: the source may change during the copy.
        let Some(stat) = self.source.stat(name)? else {
            return Ok(None);
        };
        let meta = unshift(Meta::of(&stat), self.unpack.shift);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let first = match kind {
            FileType::RegularFile if stat.st_nlink > 1 => self.linked.get(&stat.st_ino),
            _ => None,
        };
        match kind {
            FileType::Directory => {
                self.unpack.root.make_dir(name, meta)?;
                self.unpack.done.directories += 1;
                self.unpack.count_owner(meta.uid, meta.gid);
                if stat.st_dev == self.device {
                    return Ok(Some(stat));
                }
                self.unpack.skipped.mounts += 1;
                return Ok(None);
            }
            FileType::RegularFile => match first {
                Some(first) => {
                    self.unpack.root.hard_link(first, name)?;
                    return Ok(None);
                }
                None => {
                    if !self.file(name)? {
                        return Ok(None);
                    }
                    if stat.st_nlink > 1 {
                        self.linked.insert(stat.st_ino, name.clone());
                    }
                }
            },
            FileType::Symlink => {
                let Some(target) = self.source.read_link(name)? else {
                    return Ok(None);
                };
                self.unpack
                    .root
                    .symlink(name, &target, meta.uid, meta.gid)?;
                self.unpack.done.links += 1;
            }
            FileType::Fifo => self.unpack.root.fifo(name, meta)?,
            FileType::CharacterDevice | FileType::BlockDevice => {
                self.unpack.skipped.devices += 1;
                return Ok(None);
            }
            FileType::Socket => {
                self.unpack.skipped.sockets += 1;
                return Ok(None);
            }
            FileType::Unknown => {
                self.unpack.skipped.other += 1;
                return Ok(None);
            }
        }
        self.unpack.count_owner(meta.uid, meta.gid);
        self.unpack.root.set_mtime(name, mtime(&stat))?;
        Ok(None)
    }

    /// Copies a file, and shares its blocks if the file system supports this. Returns false if the
    /// file no longer exists.
    fn file(&mut self, name: &Path) -> Result<bool, Error> {
        let Some((from, stat)) = self.source.open_regular(name)? else {
            return Ok(false);
        };
        // The size is read first, and no more bytes are copied, even if the file grows.
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.unpack.check_bytes(size)?;
        let root = &self.unpack.root;
        let mut to = root.create(name, Meta::root(0o600))?;
        std::io::copy(&mut (&from).take(size), &mut to)
            .map_err(|error| Error::io("copy to", root.show(name), error))?;
        root.finish(name, &to, unshift(Meta::of(&stat), self.unpack.shift))?;
        // Shared blocks take no space, so they are not counted.
        self.unpack.count_bytes(size, 0)?;
        copy_attributes(&from, &to)
            .map_err(|errno| Error::io("copy the attributes of", self.source.show(name), errno))?;
        self.unpack.done.files += 1;
        Ok(true)
    }
}

/// Copies the attributes that are kept.
pub fn copy_attributes(from: &File, to: &File) -> rustix::io::Result<()> {
    for (name, value) in list_attributes(from)? {
        set_attribute(to, &name, &value)?;
    }
    Ok(())
}

/// Returns the attributes of a folder that are kept.
pub fn attributes(tree: &Tree, name: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let Some(folder) = tree.find_folder(name)? else {
        return Ok(Vec::new());
    };
    list_attributes(&folder)
        .map_err(|errno| Error::io("read the attributes of", tree.show(name), errno))
}

fn list_attributes(from: &File) -> rustix::io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    let mut names = vec![0; MAX_ATTRIBUTE];
    let length = match rustix::fs::flistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(all),
        Err(errno) => return Err(errno),
    };
    for name in names[..length].split(|&byte| byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        if is_allowed_attribute(name) {
            let mut value = vec![0; MAX_ATTRIBUTE];
            let length = rustix::fs::fgetxattr(from, name, &mut value[..])?;
            value.truncate(length);
            all.push((name.to_owned(), value));
        }
    }
    Ok(all)
}

/// When something was last changed, in seconds since 1970.
pub fn mtime(stat: &Stat) -> u64 {
    u64::try_from(stat.st_mtime).unwrap_or(0)
}
