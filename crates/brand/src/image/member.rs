//! Writes the members of an archive to the root, in the same way for every archive format.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use super::content::{Content, set_attribute};
use super::decompress::fill;
use super::unpack::Unpack;
use crate::Error;
use crate::tree::{Meta, is};

/// Size of a block that is copied at once, in bytes. A block of zeros becomes a hole.
pub const BUFFER: usize = 128 << 10;

/// The kind of entry that a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    /// A file with this number of bytes.
    File(u64),
    Symlink(PathBuf),
    /// An additional name of an earlier member.
    HardLink(PathBuf),
    Fifo,
    /// A whiteout: a name that does not exist, whatever the layers below have.
    Whiteout,
    Device,
    Socket,
    Other,
}

/// A member of an archive, without its content.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name of the member, as the archive has it.
    pub name: PathBuf,
    pub kind: Kind,
    pub meta: Meta,
    /// The time of the last change, in seconds since 1970.
    pub mtime: u64,
    /// The extended attributes that are kept.
    pub attributes: Vec<(String, Vec<u8>)>,
}

/// Maximum depth of folders.
const MAX_FOLDER_DEPTH: usize = 3;

impl Unpack<'_> {
    /// Creates a member. The content of a file is read from `content`.
    // This function is long because it has one arm for each kind of member, after the checks that
    // all kinds share.
    pub fn put(
        &mut self,
        member: &Member,
        content: &mut dyn Read,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let shown = member.name.as_path();
        let mut name = self.admit(shown)?;
        if let Some(prefix) = self.prefix {
            match name.strip_prefix(prefix) {
                Ok(inner) => name = inner.to_owned(),
                Err(_) => return Ok(()),
            }
        }
        if name.as_os_str().is_empty() && self.content == Content::Root {
            // The root keeps its own permissions, not those of the packed folder.
            return match member.kind {
                Kind::Directory => Ok(()),
                _ => Err(self.bad(shown, "no name")),
            };
        }
        if self.layer && self.mark(&name, shown)? {
            return Ok(());
        }
        if self.plain {
            let Kind::File(size) = member.kind else {
                return Ok(());
            };
            if !is_plain(&name) {
                return Ok(());
            }
            if self.root.stat(&name)?.is_some() {
                return Err(self.bad(shown, "there twice"));
            }
            let member = Member {
                meta: Meta::root(0o600),
                attributes: Vec::new(),
                ..member.clone()
            };
            let name = self.make_way(&name, shown)?;
            return self.file(&member, &name, size, content, buffer);
        }
        let Member { meta, mtime, .. } = *member;
        if !matches!(member.kind, Kind::HardLink(_)) {
            self.check_owner(shown, meta)?;
        }
        let name = self.make_way(&name, shown)?;
        let blame = self.blame(shown);
        match &member.kind {
            Kind::Directory => {
                let made = self.folder(&name, meta).map_err(&blame)?;
                self.done.directories += u64::from(made);
                for (key, value) in &member.attributes {
                    let set = self.root.set_attribute(&name, key, value);
                    set.map_err(&blame)?;
                }
                if !name.as_os_str().is_empty() {
                    self.dirs.push((name, mtime));
                }
                return Ok(());
            }
            Kind::File(size) => self.file(member, &name, *size, content, buffer)?,
            Kind::Symlink(target) => {
                self.check_target(target, shown)?;
                self.root.remove(&name).map_err(&blame)?;
                let made = self.root.symlink(&name, target, meta.uid, meta.gid);
                made.map_err(&blame)?;
                self.done.links += 1;
            }
            Kind::HardLink(target) => {
                self.check_target(target, shown)?;
                // The times of the file are set already.
                return self.link(target, &name, shown);
            }
            Kind::Fifo => {
                self.root.remove(&name).map_err(&blame)?;
                self.root.fifo(&name, meta).map_err(&blame)?;
            }
            Kind::Whiteout if self.content == Content::Layer => {
                self.root.remove(&name).map_err(&blame)?;
                self.root.whiteout(&name).map_err(&blame)?;
            }
            Kind::Device | Kind::Whiteout => {
                self.skipped.devices += 1;
                return Ok(());
            }
            Kind::Socket => {
                self.skipped.sockets += 1;
                return Ok(());
            }
            Kind::Other => {
                self.skipped.other += 1;
                return Ok(());
            }
        }
        self.root.set_mtime(&name, mtime).map_err(&blame)
    }

    pub fn check_target(&self, target: &Path, shown: &Path) -> Result<(), Error> {
        let length = target.as_os_str().len();
        if length == 0 || length > self.limits.path {
            return Err(self.bad(shown, "a link to nothing, or to too long a name"));
        }
        Ok(())
    }

    /// Makes the parent folders of `name`. In a layer, the path may lead through links of the
    /// layers below. Returns the path without such links.
    fn make_way(&mut self, name: &Path, shown: &Path) -> Result<PathBuf, Error> {
        if self.layer {
            return self.make_way_above(name, shown);
        }
        let made = self.root.make_parents(name, Meta::root(0o755));
        made.map_err(self.blame(shown))?;
        Ok(name.to_owned())
    }

    fn link(&mut self, target: &Path, name: &Path, shown: &Path) -> Result<(), Error> {
        let mut target = self.admit(target)?;
        if let Some(prefix) = self.prefix {
            let inner = target.strip_prefix(prefix).map(Path::to_owned);
            target =
                inner.map_err(|_| self.bad(shown, "a hard link to a file outside the root"))?;
        }
        let blame = self.blame(shown);
        let target = match self.layer {
            true => self.fetch(&target, shown)?,
            false => target,
        };
        if target == name {
            return Ok(());
        }
        let what = self.root.stat(&target).map_err(&blame)?;
        if let Some(stat) = what.filter(|stat| is(stat, FileType::Symlink)) {
            // A symbolic link has no content that names could share, so a second link is as good.
            let text = self.root.read_link(&target).map_err(&blame)?;
            let text = text.ok_or_else(|| self.bad(shown, "a link to a file that was removed"))?;
            self.root.remove(name).map_err(&blame)?;
            let made = self.root.symlink(name, &text, stat.st_uid, stat.st_gid);
            return made.map_err(&blame);
        }
        self.root.remove(name).map_err(&blame)?;
        self.root.hard_link(&target, name).map_err(&blame)
    }

    fn file(
        &mut self,
        member: &Member,
        name: &Path,
        size: u64,
        content: &mut dyn Read,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let shown = member.name.as_path();
        let blame = self.blame(shown);
        // The size in the header is checked before any byte of the file is written.
        self.check_bytes(size)?;
        // If two members have the same name, the later one replaces the earlier one, as a new file.
        self.root.remove(name).map_err(&blame)?;
        let mut out = self.root.create(name, Meta::root(0o600)).map_err(&blame)?;
        let mut content = content.take(size);
        let mut copied = 0;
        let mut hole = false;
        while copied < size {
            let read =
                fill(&mut content, buffer).map_err(|error| self.bad(shown, error.to_string()))?;
            if read == 0 {
                return Err(self.bad(shown, format!("truncated: {copied} of {size} bytes")));
            }
            copied += read as u64;
            let piece = &buffer[..read];
            // A block of zeros becomes a hole, and takes no space.
            hole = piece.iter().all(|byte| *byte == 0);
            let wrote = match hole {
                true => out.seek(SeekFrom::Start(copied)).map(|_| ()),
                false => out.write_all(piece),
            };
            wrote.map_err(|error| self.bad(shown, format!("cannot write it: {error}")))?;
            self.count_bytes(read as u64, if hole { 0 } else { read as u64 })?;
        }
        if hole {
            out.set_len(size)
                .map_err(|error| self.bad(shown, format!("cannot write it: {error}")))?;
        }
        self.root.finish(name, &out, member.meta).map_err(&blame)?;
        // The mode is set after the owner, because a change of owner drops capabilities.
        for (key, value) in &member.attributes {
            set_attribute(&out, key, value)
                .map_err(|errno| self.bad(shown, format!("cannot set {key}: {errno}")))?;
        }
        self.done.files += 1;
        Ok(())
    }
}

/// Returns true if an archive with a container image may contain a member of this name.
fn is_plain(name: &Path) -> bool {
    let is_word = |part: Component<'_>| match part {
        Component::Normal(word) => {
            let word = word.as_bytes();
            word.iter()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
        }
        _ => false,
    };
    name.components().count() <= MAX_FOLDER_DEPTH && name.components().all(is_word)
}
