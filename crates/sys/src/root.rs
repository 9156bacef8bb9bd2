//! Opens files in a root that an untrusted party can write to: of a zone, an archive, or a guest.
//!
//! Each symbolic link is resolved as a system with this root would resolve it, so no path leads
//! outside the root.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Maximum number of lookups of one path. A host that boots many zones mounts and renames all the time,
/// but a lookup takes only some microseconds.
const MAX_LOOKUPS: u32 = 1000;

/// Opens `path`, which may begin with a `/`, in the root. An empty path opens the root itself. The
/// descriptor is closed on exec. A pipe or terminal does not block the open.
///
/// # Errors
/// Fails with the error of openat2(2).
pub fn open(root: impl AsFd, path: impl AsRef<Path>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = match path.as_ref() {
        path if path.as_os_str().is_empty() => Path::new("."),
        path => path,
    };
    let mut flags = flags | OFlags::CLOEXEC;
    // openat2 refuses this flag together with O_PATH.
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags, Mode::empty(), resolve)
}

/// Opens `path` relative to `folder`, as openat2(2) does. The descriptor is closed on exec.
///
/// With `RESOLVE_IN_ROOT` or `RESOLVE_BENEATH`, the kernel refuses a path with `..`, or with a link
/// that contains it, if anything is renamed or mounted on the host during the lookup (EAGAIN). This
/// says nothing about the path, so the lookup is repeated, up to 1000 times.
///
/// # Errors
/// Fails with the error of openat2(2).
pub fn openat2(
    folder: impl AsFd,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let (folder, path) = (folder.as_fd(), path.as_ref());
    let lookup = || rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve);
    let mut opened = lookup();
    for _ in 1..MAX_LOOKUPS {
        match opened {
            Err(Errno::AGAIN) => opened = lookup(),
            _ => break,
        }
    }
    opened
}

/// Opens a regular file for reading. Returns `None` if the path does not exist or is another kind
/// of file. Other kinds are never opened, because a device may react to an open.
///
/// # Errors
/// Fails with the error of the kernel. A missing file is not an error.
pub fn file(root: impl AsFd, path: impl AsRef<Path>) -> Result<Option<File>, Errno> {
    let found = match open(root, path, OFlags::PATH) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        other => other?,
    };
    let stat = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    // The second open uses the descriptor of the first one, so it opens the same file, even if
    // another file got the name in between.
    let same = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(same, flags, Mode::empty()).map(|fd| Some(fd.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// Makes a folder that contains `root`, and beside `root` a file that must not be reachable.
    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(dir.path().join("secret"), "the host's").unwrap();
        std::fs::write(root.join("etc/name"), "the zone's").unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&root, flags, Mode::empty()).unwrap();
        (dir, fd)
    }

    fn text(root: &OwnedFd, path: &str) -> Option<String> {
        let mut text = String::new();
        let mut file = file(root, path).unwrap()?;
        file.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn links_stay_in_the_root() {
        let (dir, root) = tree();
        let at = dir.path().join("root");
        symlink("/etc/name", at.join("absolute")).unwrap();
        symlink("../../secret", at.join("up")).unwrap();
        symlink(dir.path().join("secret"), at.join("out")).unwrap();
        for name in ["etc/name", "/etc/name", "absolute", "etc/../../etc/name"] {
            assert_eq!(text(&root, name).as_deref(), Some("the zone's"), "{name}");
        }
        for name in ["up", "out", "nothing", "etc/name/below"] {
            assert_eq!(text(&root, name), None, "{name}");
        }
        symlink("up", at.join("secret")).unwrap();
        assert_eq!(file(&root, "up").unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn renames_on_the_host_do_not_disturb_a_lookup() {
        let (dir, root) = tree();
        // As /sbin/init of Debian leads to ../lib/systemd/systemd.
        symlink("../etc/name", dir.path().join("root/etc/link")).unwrap();
        let names = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&names[0], "").unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::fs::rename(&names[0], &names[1]).unwrap();
                    std::fs::rename(&names[1], &names[0]).unwrap();
                }
            });
            let failed = (0..20_000).find_map(|_| open(&root, "etc/link", OFlags::PATH).err());
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (dir, root) = tree();
        let pipe = dir.path().join("root/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(file(&root, "pipe").unwrap().is_none());
        assert!(file(&root, "etc").unwrap().is_none());
        assert!(file(&root, "").unwrap().is_none());
        open(&root, "", OFlags::PATH | OFlags::DIRECTORY).unwrap();
    }
}
