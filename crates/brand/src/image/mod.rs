//! Roots that come from outside: an archive or a directory.
//!
//! The source is hostile. Every member is made by its own name below the root
//! ([`Tree`](crate::tree::Tree): no `..`, no link is ever followed), device
//! nodes and sockets are not made, and of the extended attributes only those
//! pass that mean the same in a zone.

mod archive;
mod decompress;
mod directory;

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;

use crate::install::{Error, InstallRequest, Installed, check_empty};
use crate::tree::{Tree, is};

/// What a source may not exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Members, of all kinds.
    pub members: u64,
    /// Bytes in regular files.
    pub bytes: u64,
    /// Bytes in the name of a member.
    pub path: usize,
}

/// Far above any distribution, far below what would fill a file system's inodes
/// or run for days.
pub const LIMITS: Limits = Limits {
    members: 20_000_000,
    bytes: 1 << 40,
    path: 4096,
};

/// Owner ids above this have no place in a zone's range.
const MAX_ID: u32 = 65_535;

/// Where a root comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tar archive, plain or compressed.
    Archive(PathBuf),
    /// A directory of the host.
    Directory(PathBuf),
}

/// The brand options of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-a` or `-d`.
    pub source: Option<Source>,
}

impl Options {
    /// Reads the options. `-u`, `-s` and `-v` are taken for the sake of Solaris'
    /// scripts: the identity is always made anew, and what is printed is the
    /// caller's business.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_at_checked(2) {
                Some((flag, rest)) if flag.starts_with('-') && !flag.starts_with("--") => {
                    (flag, Some(rest).filter(|rest| !rest.is_empty()))
                }
                _ => return Err(Error::Usage(format!("invalid option: {word}"))),
            };
            let make = match flag {
                "-a" => Source::Archive,
                "-d" => Source::Directory,
                "-u" | "-s" | "-v" if attached.is_none() => continue,
                "-p" => {
                    return Err(Error::Usage(
                        "-p: a zone does not take over the identity of its source".to_owned(),
                    ));
                }
                _ => return Err(Error::Usage(format!("invalid option: {word}"))),
            };
            let path = attached
                .or_else(|| words.next())
                .ok_or_else(|| Error::Usage(format!("option requires an argument: {flag}")))?;
            if !Path::new(path).is_absolute() {
                return Err(Error::Usage(format!("{flag} {path}: not an absolute path")));
            }
            if options.source.replace(make(path.into())).is_some() {
                return Err(Error::Usage("give one of -a and -d, once".to_owned()));
            }
        }
        Ok(options)
    }
}

/// Populates the root from a source.
pub fn install(request: &mut InstallRequest<'_>, source: &Source) -> Result<Installed, Error> {
    install_within(request.root, source, LIMITS, request.progress)
}

/// Populates an empty folder from a source, as an install does a zone's root.
///
/// # Errors
/// [`Error::Member`] and [`Error::Source`] for what is not acceptable; the folder then
/// holds an unfinished tree.
pub fn unpack(
    root: &Path,
    source: &Source,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    install_within(root, source, LIMITS, progress)
}

fn install_within(
    root: &Path,
    source: &Source,
    limits: Limits,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    let root = Tree::open(root)?;
    check_empty(&root)?;
    let mut unpack = Unpack {
        root,
        origin: match source {
            Source::Archive(path) | Source::Directory(path) => path.clone(),
        },
        limits,
        done: Installed::default(),
        members: 0,
        skipped: Skipped::default(),
    };
    let shown = unpack.origin.display().to_string();
    match source {
        Source::Archive(path) => {
            progress(&format!("Unpacking {shown}."));
            archive::unpack(&mut unpack, path)?;
        }
        Source::Directory(path) => {
            progress(&format!("Copying {shown}."));
            directory::copy(&mut unpack, path)?;
        }
    }
    unpack.finish(progress)
}

/// What was not made, by reason.
#[derive(Debug, Default)]
struct Skipped {
    devices: u64,
    sockets: u64,
    other: u64,
    mounts: u64,
    /// Made, but with owners that no zone has.
    foreign_owners: u64,
}

/// A root being populated from outside.
#[derive(Debug)]
struct Unpack {
    root: Tree,
    origin: PathBuf,
    limits: Limits,
    done: Installed,
    members: u64,
    skipped: Skipped,
}

impl Unpack {
    /// Counts a member and checks its name; gives the name below the root, which
    /// is empty for the root itself.
    fn admit(&mut self, name: &Path) -> Result<PathBuf, Error> {
        self.members += 1;
        if self.members > self.limits.members {
            let limit = self.limits.members;
            return Err(self.refuse(format!("more than {limit} members")));
        }
        if name.as_os_str().len() > self.limits.path {
            let limit = self.limits.path;
            return Err(self.bad(name, format!("a name of more than {limit} bytes")));
        }
        let mut clean = PathBuf::new();
        for component in name.components() {
            match component {
                Component::Normal(part) => clean.push(part),
                Component::CurDir => {}
                Component::ParentDir => return Err(self.bad(name, "a name with '..'")),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(self.bad(name, "an absolute name"));
                }
            }
        }
        Ok(clean)
    }

    /// Counts the bytes of a file.
    fn count_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        self.done.bytes = self.done.bytes.saturating_add(bytes);
        if self.done.bytes > self.limits.bytes {
            let limit = self.limits.bytes;
            return Err(self.refuse(format!("more than {limit} bytes in files")));
        }
        Ok(())
    }

    fn count_owner(&mut self, uid: u32, gid: u32) {
        self.skipped.foreign_owners += u64::from(uid > MAX_ID || gid > MAX_ID);
    }

    fn bad(&self, member: &Path, problem: impl Into<String>) -> Error {
        Error::Member {
            origin: self.origin.clone(),
            member: shown(member),
            problem: problem.into(),
        }
    }

    /// Names the member in what went wrong with it.
    fn blame<'m>(&self, member: &'m Path) -> impl Fn(Error) -> Error + 'm {
        let origin = self.origin.clone();
        move |error| match error {
            Error::Io { action, source, .. } => {
                let looped = source.raw_os_error() == Some(Errno::LOOP.raw_os_error());
                Error::Member {
                    origin: origin.clone(),
                    member: shown(member),
                    problem: if looped {
                        "its name goes through a symbolic link".to_owned()
                    } else {
                        format!("cannot {action} it: {source}")
                    },
                }
            }
            other => other,
        }
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::Source {
            origin: self.origin.clone(),
            problem: problem.into(),
        }
    }

    /// Says what was skipped, and checks that the result looks like a root.
    fn finish(mut self, progress: &mut dyn FnMut(&str)) -> Result<Installed, Error> {
        let Skipped {
            devices,
            sockets,
            other,
            mounts,
            foreign_owners,
        } = self.skipped;
        for (count, what) in [
            (
                devices,
                "device nodes: a zone's devices are made when it boots",
            ),
            (sockets, "sockets"),
            (other, "members of unknown kind"),
            (
                mounts,
                "directories on which something else is mounted: their content",
            ),
        ] {
            if count > 0 {
                progress(&format!("Left out {count} {what}."));
                self.done.left_out += count;
            }
        }
        if foreign_owners > 0 {
            progress(&format!(
                "{foreign_owners} files have owners above {MAX_ID}: nobody in the zone owns them."
            ));
        }
        let is_dir = |name: &str| -> Result<bool, Error> {
            let stat = self.root.stat(Path::new(name))?;
            Ok(stat.is_some_and(|stat| is(&stat, FileType::Directory)))
        };
        if is_dir("usr")? || is_dir("bin")? {
            Ok(self.done)
        } else {
            Err(self.refuse("no root file system: it has neither usr nor bin"))
        }
    }
}

/// The name of a member for messages: short, and without terminal tricks.
fn shown(member: &Path) -> String {
    let name = member.as_os_str().as_bytes();
    name[..name.len().min(200)].escape_ascii().to_string()
}

/// True for attributes that mean the same in a zone. Those of overlay would
/// change what the layers show; `security.*` but capabilities is the host's
/// business; ACLs and the rest are not carried.
fn is_allowed_attribute(name: &str) -> bool {
    name == "security.capability"
        || name
            .strip_prefix("user.")
            .is_some_and(|rest| rest != "overlay" && !rest.starts_with("overlay."))
}

/// Sets an attribute; a file system without them is no reason to fail.
fn set_attribute(file: &File, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
