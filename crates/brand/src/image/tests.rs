//! Helpers that the tests of all kinds of sources share, and the tests of their options.

mod archives;
mod btrfs;
mod containers;
mod cpio;
mod directory;
mod layers;
mod squashfs;
mod streams;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use super::content::is_allowed_attribute;
use super::*;

fn parse(words: &[&str]) -> Result<Options, Error> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    Options::parse(&words)
}

#[test]
fn options_name_one_source() {
    assert_eq!(parse(&[]).unwrap().source, None);
    let archive = Some(Source::Archive("/x.tar".into()));
    assert_eq!(parse(&["-a", "/x.tar", "-u"]).unwrap().source, archive);
    assert_eq!(parse(&["-v", "-a/x.tar"]).unwrap().source, archive);
    assert_eq!(
        parse(&["-d", "/x"]).unwrap().source,
        Some(Source::Directory("/x".into()))
    );
}

#[test]
fn wrong_options_are_usage_errors() {
    for words in [
        &["-a"][..],
        &["-a", "x.tar"],
        &["-a", "/x", "-d", "/y"],
        &["-a", "/x", "-a", "/y"],
        &["-q"],
        &["--archive"],
        &["x"],
        &["-"],
        &["-p", "-a", "/x"],
    ] {
        assert!(parse(words).unwrap_err().is_usage(), "{words:?}");
    }
}

#[test]
fn attributes_of_overlay_and_of_the_host_do_not_pass() {
    assert!(is_allowed_attribute("security.capability"));
    assert!(is_allowed_attribute("user.mime_type"));
    for name in [
        "trusted.overlay.opaque",
        "user.overlay.redirect",
        "user.overlay",
        "security.selinux",
        "security.ima",
        "system.posix_acl_access",
    ] {
        assert!(!is_allowed_attribute(name), "{name}");
    }
}

/// Makes a member of a tar archive by hand, because the library would refuse it.
fn member(kind: u8, name: &[u8], link: &[u8], mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(mode);
    let owner = rustix::process::geteuid().as_raw();
    header.set_uid(owner.into());
    header.set_gid(rustix::process::getegid().as_raw().into());
    header.set_mtime(1_000_000_000);
    header.set_size(content.len() as u64);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &str) -> Vec<u8> {
    member(b'0', name.as_bytes(), b"", 0o644, content.as_bytes())
}

fn dir(name: &str) -> Vec<u8> {
    member(b'5', name.as_bytes(), b"", 0o755, b"")
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Makes a root beside two files that must not change.
struct Trial {
    dir: tempfile::TempDir,
    lines: Vec<String>,
}

impl Trial {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::write(dir.path().join("outside"), "outside").unwrap();
        Self {
            dir,
            lines: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }

    fn unpack_within(&mut self, bytes: &[u8], limits: Limits) -> Result<Installed, Error> {
        let archive = self.dir.path().join("archive");
        fs::write(&archive, bytes).unwrap();
        self.install(&Source::Archive(archive), limits)
    }

    fn install(&mut self, source: &Source, limits: Limits) -> Result<Installed, Error> {
        let root = self.path("");
        let done = install_within(&root, source, limits, &mut |line| {
            self.lines.push(line.to_owned());
        });
        let outside = fs::read_to_string(self.dir.path().join("outside")).unwrap();
        assert_eq!(outside, "outside", "nothing outside the root was touched");
        let mut names: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.retain(|name| name != "archive" && name != "source");
        names.sort();
        assert_eq!(
            names,
            ["outside", "root"],
            "nothing was made beside the root"
        );
        done
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<Installed, Error> {
        self.unpack_within(bytes, LIMITS)
    }
}

fn refusal(bytes: &[u8]) -> String {
    Trial::new().unpack(bytes).unwrap_err().to_string()
}
