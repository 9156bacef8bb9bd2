//! Creates mounts from the host for a zone. zoneadmd creates mounts before the boot, zoneadm
//! creates mounts while the zone runs. The new mounts are not attached yet, and have the zone's
//! ids.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use model::plan::DeviceNode;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, openat2};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use sys::mount::{Attr, Error, Extent, Param};

/// The treatment of symbolic links in the path of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Symbolic links are followed, because only the host can write to the folders of the path.
    Follow,
    /// Symbolic links are an error, because a zone may write to a folder of the path. A symbolic
    /// link that the zone makes in a shared folder could otherwise lead to any folder of the host.
    Refuse,
}

/// Returns a mount of a folder or file of the host, with the ids of the user namespace `users`.
pub fn bind(
    source: &Path,
    links: Links,
    read_only: bool,
    set_id: bool,
    users: BorrowedFd<'_>,
) -> Result<OwnedFd, Error> {
    let mount = match links {
        Links::Follow => sys::mount::open_tree(CWD, source, Extent::One)?,
        Links::Refuse => sys::mount::open_tree(without_links(source)?, Path::new(""), Extent::One)?,
    };
    let mut set = MountAttrFlags::MOUNT_ATTR_NODEV;
    if read_only {
        set |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    if !set_id {
        set |= MountAttrFlags::MOUNT_ATTR_NOSUID;
    }
    let attr = Attr {
        set,
        idmap: Some(users),
        private: true,
        ..Attr::default()
    };
    match sys::mount::set_attr(&mount, &attr, Extent::One, source) {
        // The file system cannot map ids (tmpfs before 6.3, overlay, NFS). The files of such a file
        // system belong to no user of the zone. Shared software works nevertheless, because the
        // zone only reads and runs the files.
        Err(error) if read_only && error.errno() == Errno::INVAL.raw_os_error() => {
            let plain = Attr {
                idmap: None,
                ..attr
            };
            sys::mount::set_attr(&mount, &plain, Extent::One, source)?;
        }
        other => other?,
    }
    Ok(mount)
}

/// Opens a source, and fails if its path contains a symbolic link.
fn without_links(source: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, source, flags, Mode::empty(), resolve).map_err(|errno| Error {
        call: "open without links",
        subject: source.to_owned(),
        log: Vec::new(),
        source: errno.into(),
    })
}

/// Splits mount options into attributes of the mount and parameters of the file system. Device
/// nodes do not work on any mount of a zone.
pub fn read(options: &[String]) -> (MountAttrFlags, Vec<Param<'_>>) {
    let mut flags = MountAttrFlags::MOUNT_ATTR_NODEV;
    let mut params = Vec::new();
    for option in options {
        match option.as_str() {
            "ro" => flags |= MountAttrFlags::MOUNT_ATTR_RDONLY,
            "nosuid" => flags |= MountAttrFlags::MOUNT_ATTR_NOSUID,
            "noexec" => flags |= MountAttrFlags::MOUNT_ATTR_NOEXEC,
            "rw" | "nodevices" | "nodev" => {}
            other => params.push(match other.split_once('=') {
                Some((key, value)) => Param::text(key, value),
                None => Param::Flag(other),
            }),
        }
    }
    (flags, params)
}

/// Returns a mount of a new file system, on the device or with the name `source`.
pub fn file_system(
    fstype: &str,
    source: &str,
    options: &[String],
    users: BorrowedFd<'_>,
) -> Result<OwnedFd, Error> {
    let (flags, mut params) = read(options);
    if !source.is_empty() {
        params.insert(0, Param::text("source", source));
    }
    let mount = sys::mount::new_fs(fstype, &params, flags)?;
    let attr = Attr {
        idmap: Some(users),
        private: true,
        ..Attr::default()
    };
    sys::mount::set_attr(&mount, &attr, Extent::One, Path::new(source))?;
    Ok(mount)
}

/// Returns a file system that holds only device nodes, at their paths relative to /dev. The host
/// must make the nodes, because a node that a zone makes cannot be opened.
pub fn device_nodes(nodes: &[DeviceNode], first_id: u32) -> Result<OwnedFd, Error> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let params = [Param::text("mode", "0755"), Param::text("size", "256k")];
    let mount = sys::mount::new_fs("tmpfs", &params, flags)?;
    for node in nodes {
        make_node(&mount, node, first_id).map_err(|source| Error {
            call: "mknod",
            subject: node.path.clone(),
            log: Vec::new(),
            source,
        })?;
    }
    Ok(mount)
}

fn make_node(mount: &OwnedFd, node: &DeviceNode, first_id: u32) -> io::Result<()> {
    let path = node.path.strip_prefix("/dev").unwrap_or(&node.path);
    let path = relative(path);
    for folder in path.ancestors().skip(1).collect::<Vec<_>>().iter().rev() {
        if folder.as_os_str().is_empty() {
            continue;
        }
        match rustix::fs::mkdirat(mount, *folder, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let kind = if node.block {
        FileType::BlockDevice
    } else {
        FileType::CharacterDevice
    };
    let device = rustix::fs::makedev(node.major, node.minor);
    rustix::fs::mknodat(mount, &path, kind, Mode::empty(), device)?;
    let owner = Uid::from_raw(first_id + node.uid);
    let group = Gid::from_raw(first_id + node.gid);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(mount, &path, Some(owner), Some(group), flags)?;
    // chmod is not subject to the umask, unlike mknod.
    let mode = Mode::from_raw_mode(node.mode);
    Ok(rustix::fs::chmodat(mount, &path, mode, AtFlags::empty())?)
}

/// Attaches a mount on a new folder or file of the host. The mount point is a folder if the root of
/// the mount is a folder, otherwise a file.
pub fn hold(mount: &OwnedFd, folder: &Path, name: &str) -> Result<(), Error> {
    let at = folder.join(name);
    let fail = |call, errno: Errno| Error {
        call,
        subject: at.clone(),
        log: Vec::new(),
        source: errno.into(),
    };
    let stat = rustix::fs::fstat(mount).map_err(|errno| fail("fstat", errno))?;
    let mode = Mode::from_raw_mode(0o700);
    if FileType::from_raw_mode(stat.st_mode).is_dir() {
        rustix::fs::mkdirat(CWD, &at, mode).map_err(|errno| fail("mkdir", errno))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, &at, flags, mode).map_err(|errno| fail("create", errno))?;
    }
    sys::mount::attach(mount, CWD, &at)
}

/// Converts an absolute path of the zone to a path relative to the zone's root.
pub fn relative(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_behind_links_are_refused() {
        // The path of the temporary folder may contain a symbolic link.
        let folder = std::env::temp_dir().canonicalize().unwrap();
        let folder = folder.join(format!("zones-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("secret/log")).unwrap();
        std::fs::create_dir_all(folder.join("plain/log")).unwrap();
        std::os::unix::fs::symlink(folder.join("secret"), folder.join("export")).unwrap();
        assert!(without_links(&folder.join("plain/log")).is_ok());
        for bad in ["export", "export/log", "plain/../export/log"] {
            let error = without_links(&folder.join(bad)).unwrap_err();
            assert_eq!(error.errno(), Errno::LOOP.raw_os_error(), "{bad}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
