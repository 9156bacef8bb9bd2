//! The state while a root is filled: the remaining limits, and the skipped members.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use oci::Digest;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::content::Content;
use super::limits::Limits;
use super::printable::{harmless, shown};
use crate::install::{Error, Installed, check_empty};
use crate::tree::{Meta, Tree, is};

/// Maximum id of an owner. Larger ids are outside of every zone's range.
pub(super) const MAX_ID: u32 = 65_535;

/// The part of a root that a source contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    Part,
}

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The numbers of members that were not created, by reason.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub(super) devices: u64,
    pub(super) sockets: u64,
    pub(super) other: u64,
    pub(super) mounts: u64,
    /// Members that were created with owners outside of every zone's range.
    pub(super) foreign_owners: u64,
}

/// A root that is being filled from an outside source.
pub(super) struct Unpack<'p> {
    pub(super) root: Tree,
    /// The layers below the root, the uppermost first.
    pub(super) lowers: Vec<Tree>,
    /// True if the archive is a layer, whose names may hide others.
    pub(super) layer: bool,
    pub(super) content: Content,
    /// True if only regular files with plain names are created, owned by root.
    pub(super) plain: bool,
    /// The folder in the archive that contains the root, if the archive is an export of another
    /// tool.
    pub(super) prefix: Option<&'static str>,
    /// The first user id and the first group id of the source, if they are not 0.
    pub(super) shift: (u32, u32),
    pub(super) origin: PathBuf,
    pub(super) limits: Limits,
    /// The free space of the root's file system, in bytes.
    free: u64,
    /// The used part of this free space, in bytes.
    used: u64,
    pub(super) done: Installed,
    members: u64,
    pub(super) skipped: Skipped,
    /// Folders with their times. The times are set last, because new files in a folder change its
    /// times.
    pub(super) dirs: Vec<(PathBuf, u64)>,
    /// The digest of the archive, if the caller requested one.
    pub(super) digest: Option<Digest>,
    pub(super) progress: &'p mut dyn FnMut(&str),
    ticked: Instant,
}

impl<'p> Unpack<'p> {
    pub(super) fn new(
        root: &Path,
        origin: &Path,
        limits: Limits,
        progress: &'p mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let tree = Tree::open(root)?;
        check_empty(&tree)?;
        Self::over(tree, root, origin, limits, progress)
    }

    /// Does the same for a root that already has content.
    pub(super) fn over(
        tree: Tree,
        root: &Path,
        origin: &Path,
        limits: Limits,
        progress: &'p mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let room = rustix::fs::statvfs(root).map_err(|errno| Error::io("look at", root, errno))?;
        Ok(Self {
            root: tree,
            lowers: Vec::new(),
            layer: false,
            content: Content::Root,
            plain: false,
            prefix: None,
            shift: (0, 0),
            origin: origin.to_owned(),
            limits,
            free: room.f_bavail.saturating_mul(room.f_frsize),
            used: 0,
            done: Installed::default(),
            members: 0,
            skipped: Skipped::default(),
            dirs: Vec::new(),
            digest: None,
            progress,
            ticked: Instant::now(),
        })
    }

    /// Counts a member and checks its name. Returns the name relative to the root, which is empty
    /// for the root itself.
    pub(super) fn admit(&mut self, name: &Path) -> Result<PathBuf, Error> {
        self.members += 1;
        self.tick();
        if self.members > self.limits.members {
            let limit = self.limits.members;
            return Err(self.refuse(format!("more than {limit} members")));
        }
        self.check_name(name)
    }

    /// Checks a name. Returns the name relative to the root.
    pub(super) fn check_name(&self, name: &Path) -> Result<PathBuf, Error> {
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

    /// Fails if a file of this size exceeds the limit.
    pub(super) fn check_bytes(&self, bytes: u64) -> Result<(), Error> {
        if self.done.bytes.saturating_add(bytes) > self.limits.bytes {
            let limit = self.limits.bytes;
            return Err(self.refuse(format!("more than {limit} bytes in files")));
        }
        Ok(())
    }

    /// Counts the bytes of a file, and the bytes that take disk space.
    pub(super) fn count_bytes(&mut self, bytes: u64, used: u64) -> Result<(), Error> {
        self.check_bytes(bytes)?;
        self.done.bytes = self.done.bytes.saturating_add(bytes);
        self.used = self.used.saturating_add(used);
        if self.used > self.free {
            let free = self.free;
            return Err(self.refuse(format!("more than the {free} bytes that are free")));
        }
        self.tick();
        Ok(())
    }

    /// Reports progress if the last report was some time ago.
    fn tick(&mut self) {
        if self.ticked.elapsed() >= PROGRESS_INTERVAL {
            self.ticked = Instant::now();
            let Installed { files, bytes, .. } = self.done;
            (self.progress)(&format!("  {files} files, {} MiB", bytes >> 20));
        }
    }

    /// Refuses an owner outside of the zone's range: on the host this id belongs to another user.
    pub(super) fn check_owner(&self, member: &Path, meta: Meta) -> Result<(), Error> {
        let (uid, gid) = (meta.uid, meta.gid);
        if self.content == Content::Root && (uid > MAX_ID || gid > MAX_ID) {
            return Err(self.bad(
                member,
                format!("owner {uid}:{gid}; a zone has ids up to {MAX_ID}"),
            ));
        }
        Ok(())
    }

    /// Sets the times of folders.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        for (name, seconds) in self.dirs.iter().rev() {
            // A later mark or member may have replaced the folder.
            let stat = self.root.stat(name)?;
            if stat.is_some_and(|stat| is(&stat, FileType::Directory)) {
                self.root.set_mtime(name, *seconds)?;
            }
        }
        Ok(())
    }

    pub(super) fn count_owner(&mut self, uid: u32, gid: u32) {
        self.skipped.foreign_owners += u64::from(uid > MAX_ID || gid > MAX_ID);
    }

    pub(super) fn bad(&self, member: &Path, problem: impl Into<String>) -> Error {
        Error::Member {
            origin: self.origin.clone(),
            member: shown(member),
            problem: harmless(&problem.into()),
        }
    }

    /// Adds the name of the member to an error.
    pub(super) fn blame<'m>(&self, member: &'m Path) -> impl Fn(Error) -> Error + 'm {
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

    pub(super) fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::Source {
            origin: self.origin.clone(),
            problem: harmless(&problem.into()),
        }
    }

    /// Reports the skipped members.
    pub(super) fn tell(&mut self) {
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
                "the contents of directories with another file system mounted on them",
            ),
        ] {
            if count > 0 {
                (self.progress)(&format!("Left out {count} {what}."));
                self.done.left_out += count;
            }
        }
        if foreign_owners > 0 {
            (self.progress)(&format!(
                "{foreign_owners} files have owners above {MAX_ID}, which no zone has: they belong to no user of the zone."
            ));
        }
    }

    /// Reports the skipped members, and checks that the result looks like a root.
    pub(super) fn finish(mut self, extent: Extent) -> Result<Installed, Error> {
        self.tell();
        let is_dir = |name: &str| -> Result<bool, Error> {
            let stat = self.root.stat(Path::new(name))?;
            Ok(stat.is_some_and(|stat| is(&stat, FileType::Directory)))
        };
        if extent == Extent::Part || is_dir("usr")? || is_dir("bin")? {
            Ok(self.done)
        } else {
            Err(self.refuse("no root file system: it has neither usr nor bin"))
        }
    }
}
