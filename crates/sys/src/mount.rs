//! Calls the mount interface of Linux 5.12 and newer, where mounts are file descriptors.
//!
//! A mount that exists only as a descriptor is in no tree. Such a mount ends when its last
//! descriptor is closed, and its descriptor can be passed to another process. No function of this
//! module follows a symbolic link in the last component of a path.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, StatVfsMountFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

/// A mount that is held by a descriptor, attached or not.
pub type MountFd = OwnedFd;

/// A failed kernel call about mounts or id maps.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}{}", subject.display(), Log(log))]
pub struct Error {
    /// The name of the kernel call.
    pub call: &'static str,
    /// The subject of the call: a path, a file system type and option, or an id.
    pub subject: PathBuf,
    /// The messages of the kernel from the log of the file system context, one per line.
    pub log: Vec<String>,
    /// The error of the kernel.
    #[source]
    pub source: io::Error,
}

struct Log<'a>(&'a [String]);

impl std::fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.0.join("; "))
    }
}

impl Error {
    /// Returns the error number, or 0 if there is none.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }

    pub(crate) fn new(
        call: &'static str,
        subject: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self {
            call,
            subject: subject.as_ref().to_owned(),
            log: Vec::new(),
            source: source.into(),
        }
    }
}

/// The scope of a call: one mount, or also all mounts below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// This mount only.
    One,
    /// This mount and every mount below it.
    Tree,
}

/// Changes to a mount for [`set_attr`].
#[derive(Debug, Clone, Copy)]
pub struct Attr<'a> {
    /// Flags to set.
    pub set: MountAttrFlags,
    /// Flags to clear.
    pub clear: MountAttrFlags,
    /// Makes the mount private: nothing propagates to or from it.
    pub private: bool,
    /// The user namespace that maps the owners of files.
    pub idmap: Option<BorrowedFd<'a>>,
}

impl Default for Attr<'_> {
    fn default() -> Self {
        Self {
            set: MountAttrFlags::empty(),
            clear: MountAttrFlags::empty(),
            private: false,
            idmap: None,
        }
    }
}

/// An option of a new file system.
#[derive(Debug, Clone, Copy)]
pub enum Param<'a> {
    /// An option without a value.
    Flag(&'a str),
    /// An option with a value of at most 255 bytes.
    Text(&'a str, &'a OsStr),
}

impl<'a> Param<'a> {
    /// An option whose value is text.
    #[must_use]
    pub fn text(key: &'a str, value: &'a str) -> Self {
        Self::Text(key, OsStr::new(value))
    }
}

/// Copies the mount at `path` (or a folder, as a mount of its own) into a detached mount. An empty
/// `path` means `dir` itself.
pub fn open_tree(dir: impl AsFd, path: &Path, extent: Extent) -> Result<MountFd, Error> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if path.as_os_str().is_empty() {
        flags |= OpenTreeFlags::AT_EMPTY_PATH;
    }
    if extent == Extent::Tree {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    rustix::mount::open_tree(dir, path, flags).map_err(|e| Error::new("open_tree", path, e))
}

/// Layout of `struct mount_attr`, version 0.
#[repr(C)]
struct RawAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Changes flags, propagation or id map of a mount. `subject` is the text for the error.
pub fn set_attr(
    mount: impl AsFd,
    attr: &Attr<'_>,
    extent: Extent,
    subject: &Path,
) -> Result<(), Error> {
    let mut raw = RawAttr {
        set: u64::from(attr.set.bits()),
        clear: u64::from(attr.clear.bits()),
        propagation: if attr.private {
            u64::from(MountPropagationFlags::PRIVATE.bits())
        } else {
            0
        },
        userns_fd: 0,
    };
    if let Some(userns) = attr.idmap {
        raw.set |= u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits());
        raw.userns_fd = u64::from(userns.as_raw_fd().unsigned_abs());
    }
    let mut flags = libc::AT_EMPTY_PATH;
    if extent == Extent::Tree {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: both descriptors are borrowed for the call; the path is a
    // NUL-terminated constant; `raw` is a live `struct mount_attr` of the size
    // passed, which the kernel only reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const raw,
            size_of::<RawAttr>(),
        )
    };
    if result < 0 {
        return Err(Error::new(
            "mount_setattr",
            subject,
            io::Error::last_os_error(),
        ));
    }
    Ok(())
}

/// Attaches a mount at `path` below `dir`. An empty `path` means `dir` itself.
pub fn attach(mount: impl AsFd, dir: impl AsFd, path: &Path) -> Result<(), Error> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.as_os_str().is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    rustix::mount::move_mount(mount, "", dir, path, flags)
        .map_err(|e| Error::new("move_mount", path, e))
}

/// Creates a file system and a detached mount of it.
///
/// Some file system types (overlay before Linux 6.5) write their messages to the kernel's log
/// instead of the context. The error then has only the number.
pub fn new_fs(fstype: &str, params: &[Param<'_>], attrs: MountAttrFlags) -> Result<MountFd, Error> {
    let context = rustix::mount::fsopen(fstype, FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|e| Error::new("fsopen", fstype, e))?;
    let fail = |call, option: &str, e: rustix::io::Errno| {
        let mut error = Error::new(call, format!("{fstype}{option}"), e);
        error.log = read_log(&context);
        error
    };
    for param in params {
        let (done, text) = match *param {
            Param::Flag(key) => (
                rustix::mount::fsconfig_set_flag(&context, key),
                format!(" {key}"),
            ),
            Param::Text(key, value) => (
                rustix::mount::fsconfig_set_string(&context, key, value),
                format!(" {key}={}", Path::new(value).display()),
            ),
        };
        done.map_err(|e| fail("fsconfig", &text, e))?;
    }
    rustix::mount::fsconfig_create(&context).map_err(|e| fail("fsconfig create", "", e))?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attrs)
        .map_err(|e| fail("fsmount", "", e))
}

/// Changes parameters of the file system that is mounted at `place`, for all its mounts. `subject`
/// is the text for the error.
pub fn reconfigure(place: impl AsFd, params: &[Param<'_>], subject: &Path) -> Result<(), Error> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context =
        rustix::mount::fspick(place, "", flags).map_err(|e| Error::new("fspick", subject, e))?;
    let fail = |call, e: rustix::io::Errno| {
        let mut error = Error::new(call, subject, e);
        error.log = read_log(&context);
        error
    };
    for param in params {
        match *param {
            Param::Flag(key) => rustix::mount::fsconfig_set_flag(&context, key),
            Param::Text(key, value) => rustix::mount::fsconfig_set_string(&context, key, value),
        }
        .map_err(|e| fail("fsconfig", e))?;
    }
    rustix::mount::fsconfig_reconfigure(&context).map_err(|e| fail("fsconfig reconfigure", e))
}

/// Maximum number of messages for one error. The kernel's ring holds eight.
const LOG_LINES: usize = 8;

/// Reads the messages of the kernel in a file system context.
fn read_log(context: &OwnedFd) -> Vec<String> {
    let mut lines = Vec::new();
    let mut buffer = [0_u8; 512];
    while lines.len() < LOG_LINES {
        // Each read returns one message, "e text" for an error. ENODATA marks the end.
        match rustix::io::read(context, &mut buffer) {
            Ok(n) if n > 0 => {
                let text = String::from_utf8_lossy(&buffer[..n]);
                lines.push(text.trim_start_matches("e ").trim_end().to_owned());
            }
            _ => break,
        }
    }
    lines
}

/// Cuts this mount namespace off from all propagation.
pub fn make_private_recursive() -> Result<(), Error> {
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(|e| Error::new("mount", "/ (private)", e))
}

/// Makes the working directory, which must be a mount, the root of this mount namespace, and
/// detaches the old root.
pub fn pivot_into_cwd() -> Result<(), Error> {
    // Both arguments are ".", which stacks the old root on the new one. So no folder for the old
    // root is needed inside the new root.
    rustix::process::pivot_root(".", ".").map_err(|e| Error::new("pivot_root", ".", e))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)
        .map_err(|e| Error::new("umount2", ". (old root)", e))?;
    rustix::process::chdir("/").map_err(|e| Error::new("chdir", "/", e))
}

/// Detaches the mount at `path` from the tree. The mount ends when no process uses it.
pub fn detach(path: &Path) -> Result<(), Error> {
    rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .map_err(|e| Error::new("umount2", path, e))
}

/// Unmounts `path` at once: when this returns, the file system is written and closed. Fails with
/// EBUSY while the mount is in use.
pub fn unmount(path: &Path) -> Result<(), Error> {
    rustix::mount::unmount(path, UnmountFlags::NOFOLLOW).map_err(|e| Error::new("umount2", path, e))
}

/// Returns true if the mount, or the file system under it, is read-only.
pub fn is_read_only(mount: impl AsFd) -> Result<bool, Error> {
    let vfs = rustix::fs::fstatvfs(mount).map_err(|e| Error::new("fstatvfs", "mount", e))?;
    Ok(vfs.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Opens a path as the source or target of a mount.
pub fn open_path(path: &Path) -> Result<OwnedFd, Error> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::openat(
        CWD,
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|e| Error::new("open", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_call_and_path() {
        let error = open_tree(CWD, Path::new("/no/such/folder"), Extent::One).unwrap_err();
        assert_eq!(error.to_string(), "open_tree /no/such/folder");
        assert!(error.errno() == libc::ENOENT || error.errno() == libc::EPERM);
    }

    #[test]
    fn errors_carry_the_kernels_words() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let error = new_fs(
            "tmpfs",
            &[Param::text("mode", "xyz")],
            MountAttrFlags::empty(),
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("fsconfig tmpfs mode=xyz ("), "{text}");
        assert!(text.contains("Bad value"), "{text}");
    }

    #[test]
    fn sets_flags_on_a_detached_mount() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let mount = new_fs("tmpfs", &[], MountAttrFlags::empty()).unwrap();
        assert!(!is_read_only(&mount).unwrap());
        let attr = Attr {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY,
            private: true,
            ..Attr::default()
        };
        set_attr(&mount, &attr, Extent::Tree, Path::new("tmpfs")).unwrap();
        assert!(is_read_only(&mount).unwrap());
    }
}
