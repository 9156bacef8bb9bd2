//! Writes roots and layers as tar streams, for [`super::unpack()`] on another host.
//!
//! Owners are numbers, times are whole seconds, and extended attributes are pax records as GNU tar
//! and star write them. A file with several names is written once. Sockets and device nodes are
//! left out, except the whiteouts of a layer.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::content::Content;
use crate::Error;
use crate::tree::Tree;

/// Maximum depth of folders.
const MAX_FOLDER_DEPTH: usize = 256;

/// The kernel's limit for one attribute, and for the list of names, in bytes.
const XATTR_LIMIT: usize = 65_536;

/// The counts of a written archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The number of files, folders and links.
    pub members: u64,
    /// The number of bytes in files.
    pub bytes: u64,
}

/// A tar stream that is being written.
pub struct Pack<W: Write> {
    tar: Builder<W>,
    content: Content,
    /// The first name of each file with several names.
    first: HashMap<(u64, u64), PathBuf>,
    done: Packed,
}

impl<W: Write> std::fmt::Debug for Pack<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack")
            .field("content", &self.content)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Pack<W> {
    /// Starts a stream.
    pub fn new(out: W, content: Content) -> Self {
        Self {
            tar: Builder::new(out),
            content,
            first: HashMap::new(),
            done: Packed::default(),
        }
    }

    /// Writes a file that is not in a tree.
    ///
    /// # Errors
    /// Fails with the error of the stream.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(0o600);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        header.set_entry_type(EntryType::Regular);
        self.tar.append_data(&mut header, name, content)?;
        self.done.members += 1;
        Ok(())
    }

    /// Writes the objects of the tree at `root` that `wanted` selects. A folder that is not
    /// selected may contain selected objects.
    ///
    /// # Errors
    /// Fails with [`Error::Io`] if a file cannot be read or written.
    pub fn tree(
        &mut self,
        root: &Path,
        wanted: &mut dyn FnMut(&Path, &Stat) -> bool,
    ) -> Result<(), Error> {
        let tree = Tree::open(root)?;
        let stat = tree.stat(Path::new(""))?;
        if let Some(stat) = stat.filter(|stat| wanted(Path::new(""), stat)) {
            self.folder(&tree, Path::new(""), &stat)?;
        }
        self.walk(&tree, Path::new(""), wanted, 0)
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// Fails with the error of the stream.
    pub fn finish(self) -> io::Result<(W, Packed)> {
        let mut out = self.tar.into_inner()?;
        out.flush()?;
        Ok((out, self.done))
    }

    fn walk(
        &mut self,
        tree: &Tree,
        at: &Path,
        wanted: &mut dyn FnMut(&Path, &Stat) -> bool,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > MAX_FOLDER_DEPTH {
            let error = io::Error::other("folders too deep in each other");
            return Err(Error::io("pack", tree.show(at), error));
        }
        for name in tree.names(at)? {
            let name = at.join(name);
            // The file was removed after it was listed.
            let Some(stat) = tree.stat(&name)? else {
                continue;
            };
            let is_wanted = wanted(&name, &stat);
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    if is_wanted {
                        self.folder(tree, &name, &stat)?;
                    }
                    self.walk(tree, &name, wanted, depth + 1)?;
                }
                _ if is_wanted => self.entry(tree, &name, &stat)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn folder(&mut self, tree: &Tree, name: &Path, stat: &Stat) -> Result<(), Error> {
        let fail = |error| Error::io("pack", tree.show(name), error);
        self.attributes(tree, name).map_err(fail)?;
        let mut header = header(stat, EntryType::Directory);
        let name = Path::new("./").join(name);
        let written = self.tar.append_data(&mut header, &name, io::empty());
        written.map_err(fail)?;
        self.done.members += 1;
        Ok(())
    }

    fn entry(&mut self, tree: &Tree, name: &Path, stat: &Stat) -> Result<(), Error> {
        let fail = |error| Error::io("pack", tree.show(name), error);
        let shown = Path::new("./").join(name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let number = (stat.st_dev, stat.st_ino);
                let first = match stat.st_nlink > 1 {
                    true => self.first.get(&number).cloned(),
                    false => None,
                };
                if let Some(first) = first {
                    let mut header = header(stat, EntryType::Link);
                    let linked = self.tar.append_link(&mut header, &shown, first);
                    linked.map_err(fail)?;
                } else {
                    self.regular(tree, name, &shown)?;
                    self.first.insert(number, shown);
                }
            }
            FileType::Symlink => {
                let Some(target) = tree.read_link(name)? else {
                    return Ok(());
                };
                let mut header = header(stat, EntryType::Symlink);
                let linked = self.tar.append_link(&mut header, &shown, target);
                linked.map_err(fail)?;
            }
            FileType::Fifo => {
                let mut header = header(stat, EntryType::Fifo);
                let written = self.tar.append_data(&mut header, &shown, io::empty());
                written.map_err(fail)?;
            }
            FileType::CharacterDevice if self.content == Content::Layer && stat.st_rdev == 0 => {
                let mut header = header(stat, EntryType::Char);
                header.set_device_major(0).map_err(fail)?;
                header.set_device_minor(0).map_err(fail)?;
                let written = self.tar.append_data(&mut header, &shown, io::empty());
                written.map_err(fail)?;
            }
            // Sockets and devices are left out.
            _ => return Ok(()),
        }
        self.done.members += 1;
        Ok(())
    }

    fn regular(&mut self, tree: &Tree, name: &Path, shown: &Path) -> Result<(), Error> {
        let fail = |error| Error::io("pack", tree.show(name), error);
        // The attributes are those of the opened file, which may not be the file that was listed.
        let Some((file, stat)) = tree.open_regular(name)? else {
            return Ok(());
        };
        self.attributes_of(&file).map_err(fail)?;
        let mut header = header(&stat, EntryType::Regular);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        header.set_size(size);
        // Exactly the announced number of bytes is written, even if the file changes in the
        // meantime.
        let content = file.take(size).chain(io::repeat(0)).take(size);
        let written = self.tar.append_data(&mut header, shown, content);
        written.map_err(fail)?;
        self.done.bytes += size;
        Ok(())
    }

    fn attributes(&mut self, tree: &Tree, name: &Path) -> io::Result<()> {
        if self.content != Content::Layer {
            return Ok(());
        }
        match tree.open_folder(name) {
            Ok(folder) => self.attributes_of(&folder),
            Err(_) => Ok(()),
        }
    }

    fn attributes_of(&mut self, file: impl std::os::fd::AsFd) -> io::Result<()> {
        let all = attributes(file)?;
        let kept: Vec<(String, Vec<u8>)> = all
            .into_iter()
            .filter(|(name, value)| self.content.keeps(name, value))
            .map(|(name, value)| (format!("SCHILY.xattr.{name}"), value))
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        let records = kept
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()));
        self.tar.append_pax_extensions(records)
    }
}

fn header(stat: &Stat, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_size(0);
    header
}

/// Returns all extended attributes whose names are valid text.
fn attributes(file: impl std::os::fd::AsFd) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut names = vec![0; XATTR_LIMIT];
    let length = match rustix::fs::flistxattr(&file, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    names.truncate(length);
    let mut all = Vec::new();
    for name in names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
    {
        let Ok(text) = std::str::from_utf8(name) else {
            continue;
        };
        let mut value = vec![0; XATTR_LIMIT];
        match rustix::fs::fgetxattr(&file, OsStr::from_bytes(name), value.as_mut_slice()) {
            Ok(length) => {
                value.truncate(length);
                all.push((text.to_owned(), value));
            }
            // The attribute was removed after it was listed.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(all)
}
