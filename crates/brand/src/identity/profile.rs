//! Copies a profile into a clone: a folder of files that replace files of the clone's root.
//!
//! The profile is copied last, so its files stay: a clone has the host name, the machine id or the
//! ssh keys of its profile.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::Stack;
use crate::Error;
use crate::tree::{Meta, Tree, is};

/// Maximum size of a file in a profile, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Maximum number of files and folders in a profile. More files belong into the origin of the
/// clone.
const MAX_ENTRIES: usize = 10_000;

/// Maximum depth of the folders of a profile.
const MAX_DEPTH: usize = 32;

/// Copies regular files, links and folders of `profile` to the new top at `top`, with their owners
/// and modes. They replace files of the layers below. Existing folders of the zone do not change,
/// even if the profile has them.
///
/// # Errors
/// Fails if the profile contains other kinds of files, if it is too large, or if the top cannot be
/// written.
pub fn lay(top: &Path, layers: &[PathBuf], profile: &Path) -> Result<(), Error> {
    let mut stack = Stack::open(top, layers)?;
    let from = Tree::open(profile)?;
    let refuse = |name: &Path, problem: &str| Error::Member {
        origin: profile.to_owned(),
        member: name.to_string_lossy().escape_debug().to_string(),
        problem: problem.to_owned(),
    };
    let mut pending = vec![PathBuf::new()];
    let mut entries = 0;
    while let Some(folder) = pending.pop() {
        for entry in from.names(&folder)? {
            let name = folder.join(entry);
            entries += 1;
            if entries > MAX_ENTRIES || name.components().count() > MAX_DEPTH {
                return Err(refuse(&name, "a profile has too much in it"));
            }
            let Some(stat) = from.stat(&name)? else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let there = stack.find(&name)?;
                    let is_folder = there.is_some_and(|(_, stat)| is(&stat, FileType::Directory));
                    if !is_folder {
                        stack.make_parents(&name)?;
                        stack.top.remove(&name)?;
                        stack.top.make_dir(&name, Meta::of(&stat))?;
                    }
                    pending.push(name);
                }
                FileType::RegularFile => {
                    let (content, stat) = from
                        .read(&name, MAX_FILE)?
                        .ok_or_else(|| refuse(&name, "larger than 16 MiB"))?;
                    stack.replace(&name, Meta::of(&stat), &content)?;
                }
                FileType::Symlink => {
                    let target = from
                        .read_link(&name)?
                        .ok_or_else(|| refuse(&name, "no link any more"))?;
                    stack.make_parents(&name)?;
                    stack.top.remove(&name)?;
                    stack
                        .top
                        .symlink(&name, &target, stat.st_uid, stat.st_gid)?;
                }
                _ => return Err(refuse(&name, "neither a file nor a link nor a folder")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::super::{Identity, apply};
    use super::*;

    #[test]
    fn files_of_a_profile_replace_those_of_the_clone() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let make = |name: &str, content: &str| {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        make("below/etc/ssh/ssh_host_rsa_key", "secret");
        make("below/etc/ssh/ssh_host_rsa_key.pub", "public");
        make("below/etc/app", "a file of the origin's");
        make("profile/etc/hostname", "fixed\n");
        make("profile/etc/ssh/ssh_host_rsa_key", "given");
        make("profile/etc/app/conf", "a folder now");
        symlink(
            "/usr/share/zoneinfo/UTC",
            scratch.path().join("profile/etc/localtime"),
        )
        .unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::set_permissions(
            at("profile/etc/ssh/ssh_host_rsa_key"),
            fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        fs::set_permissions(at("below/etc"), fs::Permissions::from_mode(0o751)).unwrap();
        fs::create_dir(at("top")).unwrap();
        let (top, layers) = (at("top"), [at("below")]);
        let identity = Identity {
            name: "web2".parse().unwrap(),
            machine_id: "0123456789abcdef0123456789abcdef".to_owned(),
        };
        apply(&top, &layers, &identity).unwrap();
        lay(&top, &layers, &at("profile")).unwrap();
        // A second call works as well, because a top is not always new.
        lay(&top, &layers, &at("profile")).unwrap();

        let read = |name: &str| fs::read_to_string(top.join(name)).unwrap();
        assert_eq!(read("etc/hostname"), "fixed\n");
        assert_eq!(read("etc/ssh/ssh_host_rsa_key"), "given");
        assert_eq!(read("etc/app/conf"), "a folder now");
        assert_eq!(
            read("etc/machine-id"),
            format!("{}\n", identity.machine_id),
            "what it does not have is the clone's own"
        );
        let mode = |name: &str| top.join(name).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("etc/ssh/ssh_host_rsa_key"), 0o600);
        assert_eq!(mode("etc"), 0o751, "a folder that is there stays as it is");
        assert_eq!(
            fs::read_link(top.join("etc/localtime")).unwrap(),
            Path::new("/usr/share/zoneinfo/UTC")
        );
        let public = top.join("etc/ssh/ssh_host_rsa_key.pub");
        assert!(
            public
                .symlink_metadata()
                .unwrap()
                .file_type()
                .is_char_device()
        );

        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("profile/fifo"),
            FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let error = lay(&top, &layers, &at("profile")).unwrap_err();
        assert!(error.to_string().contains("fifo: neither"), "{error}");
    }
}
