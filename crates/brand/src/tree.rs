//! A directory tree that is read or written through a descriptor of its root.
//!
//! Every path is relative to that root, and the kernel resolves it with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS`. So no name, and no link in a path, leads outside the tree or to another
//! place in it. A link in a path is an error (`ELOOP`).

mod edit;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::Error;

/// Maximum number of entries in one directory.
const MAX_ENTRIES: usize = 1_000_000;

/// Maximum size of an access control list in bytes: more than 500 entries.
const MAX_ACL: usize = 4096;

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// The permissions and the owner of a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The permission bits, with set-id and sticky bits.
    pub mode: u32,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id of the owner.
    pub gid: u32,
}

impl Meta {
    /// Returns permissions with root as owner and group.
    pub const fn root(mode: u32) -> Self {
        Self {
            mode,
            uid: 0,
            gid: 0,
        }
    }

    /// Returns the attributes from the result of `stat`.
    pub const fn of(stat: &Stat) -> Self {
        Self {
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }
}

/// A tree, by its root.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

impl Tree {
    /// Opens the tree whose root is at `path`. The caller trusts this path.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| Error::io("open", path, errno))?;
        Ok(Self {
            root,
            path: path.to_owned(),
        })
    }

    /// Returns the full path of `name`, for messages only.
    pub fn show(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    fn fail(&self, action: &'static str, name: &Path) -> impl FnOnce(Errno) -> Error {
        let path = self.show(name);
        move |errno| Error::io(action, path, errno)
    }

    fn resolve(&self, name: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let name = if name.as_os_str().is_empty() {
            Path::new(".")
        } else {
            name
        };
        sys::root::openat2(&self.root, name, flags, mode, RESOLVE)
    }

    /// Opens the parent directory of `name`. Also returns the last component.
    fn parent<'n>(&self, name: &'n Path) -> rustix::io::Result<(Parent<'_>, &'n Path)> {
        let last = match name.components().next_back() {
            Some(Component::Normal(last)) => Path::new(last),
            _ => return Err(Errno::INVAL),
        };
        match name.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                let fd = self.resolve(parent, flags, Mode::empty())?;
                Ok((Parent::Below(fd), last))
            }
            _ => Ok((Parent::Root(self.root.as_fd()), last)),
        }
    }

    /// Makes a directory, or sets `meta` on an existing one. Returns true if the directory is new.
    pub fn make_dir(&self, name: &Path, meta: Meta) -> Result<bool, Error> {
        let fail = || self.fail("make the directory", name);
        let made = if name.as_os_str().is_empty() {
            false
        } else {
            let (parent, last) = self.parent(name).map_err(fail())?;
            match rustix::fs::mkdirat(parent.as_fd(), last, Mode::from_raw_mode(0o700)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(fail()(errno)),
            }
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let fd = self.resolve(name, flags, Mode::empty()).map_err(fail())?;
        set_meta(fd.as_fd(), meta).map_err(fail())?;
        Ok(made)
    }

    /// Copies the access control lists of the directory `name` from the tree `from`. Without these
    /// lists, the permission bits of the group would allow more than in `from`.
    pub fn copy_acls(&self, name: &Path, from: &Self) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let open = |tree: &Self| tree.resolve(name, flags, Mode::empty());
        let copy = || -> rustix::io::Result<()> {
            let source = open(from)?;
            let mut value = [0; MAX_ACL];
            for acl in ["system.posix_acl_access", "system.posix_acl_default"] {
                match rustix::fs::fgetxattr(&source, acl, &mut value[..]) {
                    Ok(length) => {
                        let flags = XattrFlags::empty();
                        rustix::fs::fsetxattr(open(self)?, acl, &value[..length], flags)?;
                    }
                    Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(())
        };
        copy().map_err(self.fail("set the access control list of", name))
    }

    /// Opens a directory for reading; `None` if it does not exist or is another kind of file.
    pub fn find_folder(&self, name: &Path) -> Result<Option<File>, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = absent(self.resolve(name, flags, Mode::empty()));
        Ok(opened.map_err(self.fail("open", name))?.map(File::from))
    }

    /// Sets an extended attribute of a directory. If the file system has no attributes, this is an
    /// error only for attributes that overlay needs.
    pub fn set_attribute(&self, name: &Path, key: &str, value: &[u8]) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let set = self
            .resolve(name, flags, Mode::empty())
            .and_then(|fd| rustix::fs::fsetxattr(fd, key, value, XattrFlags::empty()));
        match set {
            Err(Errno::OPNOTSUPP) if !key.starts_with("trusted.") => Ok(()),
            other => other.map_err(self.fail("set an attribute of", name)),
        }
    }

    /// Reads a short extended attribute of a directory.
    pub fn attribute(&self, name: &Path, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(folder) = self.find_folder(name)? else {
            return Ok(None);
        };
        let mut value = vec![0; 256];
        match rustix::fs::fgetxattr(&folder, key, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(None),
            Err(errno) => Err(self.fail("read an attribute of", name)(errno)),
        }
    }

    /// Makes the missing parent directories of `name`.
    pub fn make_parents(&self, name: &Path, meta: Meta) -> Result<(), Error> {
        let Some(parent) = name.parent() else {
            return Ok(());
        };
        if parent.as_os_str().is_empty() || self.stat(parent)?.is_some() {
            return Ok(());
        }
        self.make_parents(parent, meta)?;
        self.make_dir(parent, meta).map(|_| ())
    }

    /// Makes a new regular file, open for writing. Call [`Self::finish`] with its [`Meta`] after
    /// the last write, because a write clears set-id bits.
    pub fn create(&self, name: &Path, meta: Meta) -> Result<File, Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        self.resolve(name, flags, Mode::from_raw_mode(meta.mode & 0o777))
            .map(File::from)
            .map_err(self.fail("create", name))
    }

    /// Sets the owner and permissions of a file that [`Self::create`] made.
    pub fn finish(&self, name: &Path, file: &File, meta: Meta) -> Result<(), Error> {
        set_meta(file.as_fd(), meta).map_err(self.fail("set the owner of", name))
    }

    /// Makes a new regular file with this content.
    pub fn write(&self, name: &Path, meta: Meta, content: &[u8]) -> Result<(), Error> {
        let mut file = self.create(name, meta)?;
        file.write_all(content)
            .map_err(|error| Error::io("write", self.show(name), error))?;
        self.finish(name, &file, meta)
    }

    /// Makes a symbolic link. The target is only text and is never opened.
    pub fn symlink(&self, name: &Path, target: &Path, uid: u32, gid: u32) -> Result<(), Error> {
        let fail = || self.fail("make the symbolic link", name);
        let (parent, last) = self.parent(name).map_err(fail())?;
        rustix::fs::symlinkat(target, parent.as_fd(), last).map_err(fail())?;
        let made =
            rustix::fs::statat(parent.as_fd(), last, AtFlags::SYMLINK_NOFOLLOW).map_err(fail())?;
        if (made.st_uid, made.st_gid) != (uid, gid) {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(parent.as_fd(), last, Some(uid), Some(gid), flags)
                .map_err(fail())?;
        }
        Ok(())
    }

    /// Makes `name` another name of the regular file `existing` of this tree.
    pub fn hard_link(&self, existing: &Path, name: &Path) -> Result<(), Error> {
        let fail = || self.fail("make the hard link", name);
        let (from, old) = self.parent(existing).map_err(fail())?;
        let stat =
            rustix::fs::statat(from.as_fd(), old, AtFlags::SYMLINK_NOFOLLOW).map_err(fail())?;
        if !is(&stat, FileType::RegularFile) {
            return Err(fail()(Errno::INVAL));
        }
        let (to, new) = self.parent(name).map_err(fail())?;
        rustix::fs::linkat(from.as_fd(), old, to.as_fd(), new, AtFlags::empty()).map_err(fail())
    }

    /// Makes a FIFO.
    pub fn fifo(&self, name: &Path, meta: Meta) -> Result<(), Error> {
        let fail = || self.fail("make the FIFO", name);
        let (parent, last) = self.parent(name).map_err(fail())?;
        let mode = Mode::from_raw_mode(meta.mode & 0o777);
        rustix::fs::mknodat(parent.as_fd(), last, FileType::Fifo, mode, 0).map_err(fail())?;
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(parent.as_fd(), last, Some(uid), Some(gid), flags).map_err(fail())
    }

    /// Makes an overlay whiteout: the name does not exist, whatever the layers below contain.
    pub fn whiteout(&self, name: &Path) -> Result<(), Error> {
        let fail = || self.fail("hide", name);
        let (parent, last) = self.parent(name).map_err(fail())?;
        let mode = Mode::empty();
        rustix::fs::mknodat(parent.as_fd(), last, FileType::CharacterDevice, mode, 0)
            .map_err(fail())
    }

    /// Sets the time of the last change of `name` itself, in seconds since 1970.
    pub fn set_mtime(&self, name: &Path, seconds: u64) -> Result<(), Error> {
        let fail = || self.fail("set the time of", name);
        let (parent, last) = self.parent(name).map_err(fail())?;
        let time = Timespec {
            // A later time than the kernel can store becomes the latest possible time.
            tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(parent.as_fd(), last, &times, flags).map_err(fail())
    }

    /// Removes a name that is not a directory. A missing name is not an error. Returns true if it
    /// existed.
    pub fn remove(&self, name: &Path) -> Result<bool, Error> {
        let removed = self.parent(name).and_then(|(parent, last)| {
            rustix::fs::unlinkat(parent.as_fd(), last, AtFlags::empty())
        });
        match removed {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(errno) => Err(self.fail("remove", name)(errno)),
        }
    }

    /// Removes a name, which may be an empty directory. A missing name is not an error.
    pub fn remove_any(&self, name: &Path) -> Result<(), Error> {
        let folder = self
            .stat(name)?
            .is_some_and(|stat| is(&stat, FileType::Directory));
        if !folder {
            return self.remove(name).map(|_| ());
        }
        let removed = self.parent(name).and_then(|(parent, last)| {
            rustix::fs::unlinkat(parent.as_fd(), last, AtFlags::REMOVEDIR)
        });
        removed.map_err(self.fail("remove", name))
    }

    /// Returns the attributes of `name` itself; `None` if it does not exist, or if a link is in its
    /// path.
    pub fn stat(&self, name: &Path) -> Result<Option<Stat>, Error> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let stat = self
            .lookup(name, flags)
            .and_then(|fd| rustix::fs::fstat(&fd));
        absent(stat).map_err(self.fail("look at", name))
    }

    /// Opens `name` itself, even if it is a link.
    fn lookup(&self, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        // With O_PATH and O_NOFOLLOW, RESOLVE_NO_SYMLINKS still opens a link in the last component,
        // as a link.
        self.resolve(name, flags, Mode::empty())
    }

    /// Opens `name` for reading if it is a regular file.
    ///
    /// The type is checked before the open, because the open of a device or a FIFO has effects.
    pub fn open_regular(&self, name: &Path) -> Result<Option<(File, Stat)>, Error> {
        match self.stat(name)? {
            Some(stat) if is(&stat, FileType::RegularFile) => {}
            _ => return Ok(None),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = self
            .lookup(name, flags)
            .and_then(|fd| Ok((rustix::fs::fstat(&fd)?, fd)));
        Ok(absent(opened)
            .map_err(self.fail("open", name))?
            .filter(|(stat, _)| is(stat, FileType::RegularFile))
            .map(|(stat, fd)| (File::from(fd), stat)))
    }

    /// Opens a directory.
    pub fn open_folder(&self, name: &Path) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        self.resolve(name, flags, Mode::empty())
            .map_err(self.fail("open", name))
    }

    /// Reads a regular file of at most `limit` bytes; `None` if it does not exist, is another kind
    /// of file, or is larger.
    pub fn read(&self, name: &Path, limit: u64) -> Result<Option<(Vec<u8>, Stat)>, Error> {
        let Some((file, stat)) = self.open_regular(name)? else {
            return Ok(None);
        };
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > limit {
            return Ok(None);
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        let read = file
            .take(limit + 1)
            .read_to_end(&mut content)
            .map_err(|error| Error::io("read", self.show(name), error))?;
        // The file may have grown in the meantime.
        Ok((read as u64 <= limit).then_some((content, stat)))
    }

    /// Reads a symbolic link; `None` if it does not exist or is another kind of file.
    pub fn read_link(&self, name: &Path) -> Result<Option<PathBuf>, Error> {
        let target = self
            .parent(name)
            .and_then(|(parent, last)| rustix::fs::readlinkat(parent.as_fd(), last, Vec::new()));
        match target {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(self.fail("read the link", name)(errno)),
        }
    }

    /// Returns the names in a directory, sorted; `None` if it does not exist or is not a directory.
    pub fn names(&self, name: &Path) -> Result<Vec<OsString>, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = self.lookup(name, flags).and_then(rustix::fs::Dir::new);
        let Some(entries) = absent(opened).map_err(self.fail("list", name))? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(self.fail("list", name))?;
            let bytes = entry.file_name().to_bytes();
            if bytes == b"." || bytes == b".." {
                continue;
            }
            if names.len() == MAX_ENTRIES {
                let error = io::Error::other("too many entries");
                return Err(Error::io("list", self.show(name), error));
            }
            names.push(OsString::from_vec(bytes.to_vec()));
        }
        names.sort_unstable();
        Ok(names)
    }
}

enum Parent<'t> {
    Root(BorrowedFd<'t>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

/// Returns true if `stat` describes a file of type `kind`.
pub fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

fn absent<T>(result: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Sets the owner first, because a change of the owner clears set-id bits. Sets only values that
/// differ, so that a user can fill a tree of his own without a privilege.
fn set_meta(fd: BorrowedFd<'_>, meta: Meta) -> rustix::io::Result<()> {
    let stat = rustix::fs::fstat(fd)?;
    let owner_differs = (stat.st_uid, stat.st_gid) != (meta.uid, meta.gid);
    if owner_differs {
        rustix::fs::fchown(
            fd,
            Some(Uid::from_raw(meta.uid)),
            Some(Gid::from_raw(meta.gid)),
        )?;
    }
    if owner_differs || stat.st_mode & 0o7777 != meta.mode {
        rustix::fs::fchmod(fd, Mode::from_raw_mode(meta.mode))?;
    }
    Ok(())
}
