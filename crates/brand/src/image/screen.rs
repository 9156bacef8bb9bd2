//! Screens a tree that another program has written, such as a restored backup. The result has only
//! what an archive could have put into a root.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::content::is_allowed_attribute;
use super::limits::{LIMITS, Limits};
use super::printable::{harmless, shown};
use super::unpack::MAX_ID;
use crate::Error;
use crate::tree::{Meta, Tree};

/// The numbers of objects that [`screen`] has seen or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screened {
    /// The number of files, folders and links that stay.
    pub members: u64,
    /// The number of removed device nodes and sockets.
    pub removed: u64,
    /// The number of removed extended attributes.
    pub attributes: u64,
}

/// Screens the tree at `root`: removes device nodes, sockets, and extended attributes without a
/// meaning in a zone. Access control lists stay. `origin` names the source in messages.
///
/// # Errors
/// Fails with [`Error::Member`] for an owner that no zone has, and with [`Error::Source`] for more
/// members than a root may have. The tree is then partly screened.
pub fn screen(root: &Path, origin: &Path) -> Result<Screened, Error> {
    screen_within(root, origin, LIMITS)
}

fn screen_within(root: &Path, origin: &Path, limits: Limits) -> Result<Screened, Error> {
    let tree = Tree::open(root)?;
    let mut done = Screened::default();
    // The list has paths and no descriptors, so a deep tree needs no more descriptors.
    let mut open = vec![PathBuf::new()];
    while let Some(name) = open.pop() {
        let Some(stat) = tree.stat(&name)? else {
            continue;
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if matches!(
            kind,
            FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Socket
                | FileType::Unknown
        ) {
            tree.remove(&name)?;
            done.removed += 1;
            continue;
        }
        done.members += 1;
        if done.members > limits.members {
            return Err(Error::Source {
                origin: origin.to_owned(),
                problem: format!("more than {} members", limits.members),
            });
        }
        let Meta { uid, gid, .. } = Meta::of(&stat);
        if uid > MAX_ID || gid > MAX_ID {
            return Err(Error::Member {
                origin: origin.to_owned(),
                member: shown(&name),
                problem: harmless(&format!("owner {uid}:{gid}; a zone has ids up to {MAX_ID}")),
            });
        }
        done.attributes += tree.drop_attributes(&name, keeps)?;
        if kind == FileType::Directory {
            let names = tree.names(&name)?;
            open.extend(names.into_iter().map(|inner| name.join(inner)));
        }
    }
    Ok(done)
}

/// Returns true for an attribute that a file of a zone keeps in a backup.
fn keeps(name: &str) -> bool {
    matches!(name, "system.posix_acl_access" | "system.posix_acl_default")
        || is_allowed_attribute(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    const FEW: Limits = Limits {
        members: 4,
        bytes: 0,
        path: 0,
    };

    #[test]
    fn removes_sockets_and_keeps_files_links_and_their_attributes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/shadow", at("link")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let named = rustix::fs::setxattr(
            at("file"),
            "user.colour",
            b"red",
            rustix::fs::XattrFlags::empty(),
        );
        let done = screen_within(dir.path(), Path::new("the backup"), FEW);
        if rustix::process::geteuid().as_raw() <= MAX_ID {
            let done = done.unwrap();
            assert_eq!((done.members, done.removed, done.attributes), (3, 1, 0));
            assert!(at("file").exists() && !at("socket").exists());
            assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
            let mut value = [0; 8];
            if named.is_ok() {
                let length = rustix::fs::getxattr(at("file"), "user.colour", &mut value).unwrap();
                assert_eq!(&value[..length], b"red");
            }
        }
    }

    #[test]
    fn attributes_of_overlay_and_of_the_host_do_not_stay() {
        for name in ["user.x", "security.capability", "system.posix_acl_access"] {
            assert!(keeps(name), "{name}");
        }
        for name in [
            "trusted.overlay.redirect",
            "user.overlay.opaque",
            "security.selinux",
            "security.ima",
        ] {
            assert!(!keeps(name), "{name}");
        }
    }

    #[test]
    fn refuses_more_members_than_a_root_may_have() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let error = screen_within(dir.path(), Path::new("the backup"), FEW);
        let error = error.unwrap_err().to_string();
        let expected = match rustix::process::geteuid().as_raw() > MAX_ID {
            true => "a zone has ids up to",
            false => "more than 4 members",
        };
        assert!(error.contains(expected), "{error}");
    }
}
