//! Gives a zone its own identity. This module has the one list of everything that must differ
//! between a zone and its clones.
//!
//! | in the zone | becomes |
//! |---|---|
//! | `/etc/machine-id` | the zone's own id |
//! | `/etc/hostname` | the zone's name |
//! | `/etc/hosts` | as it was, with the zone's name for 127.0.1.1 |
//! | the seed of cloud-init | of another instance ([`crate::first_boot::seed::renew`]) |
//! | files in `FORGOTTEN` | absent: the programs that need them make them anew |
//! | files of a profile ([`lay`]) | copied, last |
//!
//! | outside the zone | becomes |
//! |---|---|
//! | name, zonepath, uuid, range of user and group ids | the zone's own (the index) |
//! | files in [`CONFIGURED`] | the default, where a clone is configured like its origin |
//! | Ethernet address of an anet | of the zone's own, unless one is configured |
//!
//! The same function serves an install, whose root is complete, and a clone, whose root is a new,
//! empty top over layers. Changed files of a clone are written to the top, and each directory above
//! them is created with the attributes that it has in the layers.

mod profile;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::ZoneName;
use rustix::fs::FileType;

use crate::Error;
use crate::tree::{Meta, Tree, is};

pub use profile::lay;

/// Properties that no two zones may share: the type of resource (empty for a property of the zone),
/// and the name. Network addresses are not in this list: an administrator who sets an address on a
/// zone has to set another one on its clone.
pub const CONFIGURED: &[(Option<&str>, &str)] = &[(None, "hostid"), (Some("anet"), "mac-address")];

/// Maximum size of an `/etc/hosts` that is changed, in bytes. A larger file is replaced.
const MAX_HOSTS: u64 = 64 << 10;

/// The identity of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the zone, which is its host name.
    pub name: ZoneName,
    /// The content of `/etc/machine-id`: 32 hexadecimal digits.
    pub machine_id: String,
}

/// A file that belongs to one system and is removed from a clone: secrets, seeds, leases and
/// registrations.
#[derive(Clone, Copy, Debug)]
struct Forgotten {
    dir: &'static str,
    /// The prefix and the suffix of the file names.
    prefix: &'static str,
    suffix: &'static str,
}

const fn file(dir: &'static str, name: &'static str) -> Forgotten {
    Forgotten {
        dir,
        prefix: name,
        suffix: "",
    }
}

/// Names match by prefix and suffix, so `random-seed` also matches `random-seed.tmp`.
const FORGOTTEN: &[Forgotten] = &[
    file("etc/ssh", "ssh_host_"),
    file("etc/dropbear", "dropbear_"),
    // A key with which systemd seals credentials for this system only.
    file("var/lib/systemd", "credential.secret"),
    file("var/lib/systemd", "random-seed"),
    file("var/lib/urandom", "random-seed"),
    file("var/lib/seedrng", "seed."),
    // This is usually a link to /etc/machine-id. A copy would keep the old id.
    file("var/lib/dbus", "machine-id"),
    Forgotten {
        dir: "var/lib/dhcp",
        prefix: "",
        suffix: ".leases",
    },
    file("var/lib/dhcpcd", "duid"),
    file("etc", "dhcpcd.duid"),
    file("var/lib/NetworkManager", "secret_key"),
    file("etc/iscsi", "initiatorname.iscsi"),
    file("etc/nvme", "host"),
];

/// Gives the zone whose root, or whose new top, is at `top` the identity `identity`.
///
/// `layers` are the roots of the layers below the top, the uppermost first; empty for a root
/// without layers. With layers, the top is new and empty. Files are not synced.
///
/// # Errors
/// Fails if the top cannot be written, or if a layer cannot be read.
pub fn apply(top: &Path, layers: &[PathBuf], identity: &Identity) -> Result<(), Error> {
    let mut stack = Stack::open(top, layers)?;
    let name = identity.name.as_str();
    let hosts = stack.read(Path::new("etc/hosts"), MAX_HOSTS)?;
    let own = [
        (
            "etc/machine-id",
            0o444,
            format!("{}\n", identity.machine_id).into_bytes(),
        ),
        ("etc/hostname", 0o644, format!("{name}\n").into_bytes()),
        ("etc/hosts", 0o644, hosts_for(hosts.as_deref(), name)),
    ];
    for (file, mode, content) in own {
        stack.replace(Path::new(file), Meta::root(mode), &content)?;
    }
    for forgotten in FORGOTTEN {
        stack.forget(forgotten)?;
    }
    Ok(())
}

/// Returns the hosts file of a zone called `name`: the given file with the line of 127.0.1.1
/// replaced, or a new file.
pub(crate) fn hosts_for(existing: Option<&[u8]>, name: &str) -> Vec<u8> {
    let own = format!("127.0.1.1\t{name}\n");
    let Some(existing) = existing else {
        let loopback = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
        return format!("{loopback}{own}").into_bytes();
    };
    let mut hosts = Vec::with_capacity(existing.len() + own.len());
    for line in existing.split_inclusive(|&byte| byte == b'\n') {
        let is_own = line
            .strip_prefix(b"127.0.1.1")
            .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace));
        if !is_own {
            hosts.extend_from_slice(line);
        }
    }
    if hosts.last().is_some_and(|&last| last != b'\n') {
        hosts.push(b'\n');
    }
    hosts.extend_from_slice(own.as_bytes());
    hosts
}

/// A top with the layers below it.
#[derive(Debug)]
pub(crate) struct Stack {
    top: Tree,
    layers: Vec<Tree>,
}

impl Stack {
    pub(crate) fn open(top: &Path, layers: &[PathBuf]) -> Result<Self, Error> {
        Ok(Self {
            top: Tree::open(top)?,
            layers: layers
                .iter()
                .map(|layer| Tree::open(layer))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the uppermost tree that has `name`, and the kind of file there. A layer in which a
    /// directory of the path is another kind of file is skipped. All layers belong to the same
    /// zone, so at worst this finds an older file of it.
    fn find(&self, name: &Path) -> Result<Option<(&Tree, rustix::fs::Stat)>, Error> {
        for tree in std::iter::once(&self.top).chain(&self.layers) {
            if let Some(stat) = tree.stat(name)? {
                let whiteout = is(&stat, FileType::CharacterDevice);
                return Ok((!whiteout).then_some((tree, stat)));
            }
        }
        Ok(None)
    }

    pub(crate) fn read(&self, name: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        match self.find(name)? {
            Some((tree, _)) => Ok(tree.read(name, limit)?.map(|(content, _)| content)),
            None => Ok(None),
        }
    }

    /// Returns the content of a file with its owner and mode.
    pub(crate) fn read_with_meta(
        &self,
        name: &Path,
        limit: u64,
    ) -> Result<Option<(Vec<u8>, Meta)>, Error> {
        match self.find(name)? {
            Some((tree, _)) => {
                let found = tree.read(name, limit)?;
                Ok(found.map(|(content, stat)| (content, Meta::of(&stat))))
            }
            None => Ok(None),
        }
    }

    /// Returns true if the root has one of these names.
    pub(crate) fn has_any(&self, names: &[&str]) -> Result<bool, Error> {
        for name in names {
            if self.find(Path::new(name))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a folder in the top, with its missing parents, or sets the owner and mode of the folder
    /// that is there.
    pub(crate) fn folder(&mut self, name: &Path, meta: Meta) -> Result<(), Error> {
        self.make_parents(&name.join("file"))?;
        self.top.make_dir(name, meta).map(|_| ())
    }

    /// Makes a symbolic link in the top, and replaces whatever is there.
    pub(crate) fn link(&mut self, name: &Path, target: &Path) -> Result<(), Error> {
        self.make_parents(name)?;
        self.top.remove(name)?;
        self.top.symlink(name, target, 0, 0)
    }

    /// Writes a file to the top, and replaces whatever is there.
    pub(crate) fn replace(&mut self, name: &Path, meta: Meta, content: &[u8]) -> Result<(), Error> {
        self.make_parents(name)?;
        self.top.remove(name)?;
        self.top.write(name, meta, content)
    }

    /// Creates the parent directories of `name` in the top, with the attributes of the layers.
    fn make_parents(&self, name: &Path) -> Result<(), Error> {
        let Some(parent) = name.parent().filter(|name| !name.as_os_str().is_empty()) else {
            return Ok(());
        };
        match self.top.stat(parent)? {
            Some(stat) if is(&stat, FileType::Directory) => return Ok(()),
            // A link or a file in place of a directory hides the directory below.
            Some(_) => {
                self.top.remove(parent)?;
            }
            None => self.make_parents(parent)?,
        }
        let below = self
            .find(parent)?
            .filter(|(_, stat)| is(stat, FileType::Directory));
        match below {
            Some((layer, stat)) => {
                self.top.make_dir(parent, Meta::of(&stat))?;
                self.top.copy_acls(parent, layer)
            }
            None => self.top.make_dir(parent, Meta::root(0o755)).map(|_| ()),
        }
    }

    fn forget(&mut self, forgotten: &Forgotten) -> Result<(), Error> {
        let dir = Path::new(forgotten.dir);
        if self.layers.is_empty() {
            for name in matching(&self.top, forgotten)? {
                self.top.remove(&dir.join(name))?;
            }
            return Ok(());
        }
        let mut below: Vec<OsString> = Vec::new();
        for layer in &self.layers {
            below.extend(matching(layer, forgotten)?);
        }
        below.sort();
        below.dedup();
        for name in below {
            let name = dir.join(name);
            self.make_parents(&name)?;
            self.top.whiteout(&name)?;
        }
        Ok(())
    }
}

/// Returns the names in `tree` that match `forgotten`. Directories are not removed.
fn matching(tree: &Tree, forgotten: &Forgotten) -> Result<Vec<OsString>, Error> {
    let dir = Path::new(forgotten.dir);
    let mut names = tree.names(dir)?;
    names.retain(|name| matches_name(name, forgotten));
    let mut files = Vec::new();
    for name in names {
        let stat = tree.stat(&dir.join(&name))?;
        if stat.is_some_and(|stat| !is(&stat, FileType::Directory)) {
            files.push(name);
        }
    }
    Ok(files)
}

fn matches_name(name: &OsStr, forgotten: &Forgotten) -> bool {
    let name = name.as_bytes();
    name.starts_with(forgotten.prefix.as_bytes()) && name.ends_with(forgotten.suffix.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    /// The files belong to root, so only root can create them.
    fn is_root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            eprintln!("skipped: not root");
        }
        root
    }

    fn identity(name: &str) -> Identity {
        Identity {
            name: name.parse().unwrap(),
            machine_id: ID.to_owned(),
        }
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn read(root: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(root.path().join(name)).unwrap()
    }

    #[test]
    fn a_complete_root_becomes_the_zone() {
        if !is_root() {
            return;
        }
        let root = tree(&[
            ("etc/machine-id", "old"),
            ("etc/hosts", "10.0.0.1 db\n127.0.1.1 old\n127.0.1.10 kept"),
            ("etc/ssh/ssh_host_rsa_key", "secret"),
            ("etc/ssh/sshd_config", "config"),
            ("var/lib/systemd/random-seed", "seed"),
            ("var/lib/dhcp/dhclient.eth0.leases", "lease"),
            ("var/lib/dbus/machine-id", "old"),
        ]);
        apply(root.path(), &[], &identity("web1")).unwrap();
        assert_eq!(read(&root, "etc/machine-id"), format!("{ID}\n"));
        assert_eq!(read(&root, "etc/hostname"), "web1\n");
        assert_eq!(
            read(&root, "etc/hosts"),
            "10.0.0.1 db\n127.0.1.10 kept\n127.0.1.1\tweb1\n"
        );
        assert_eq!(read(&root, "etc/ssh/sshd_config"), "config");
        for gone in [
            "etc/ssh/ssh_host_rsa_key",
            "var/lib/systemd/random-seed",
            "var/lib/dhcp/dhclient.eth0.leases",
            "var/lib/dbus/machine-id",
        ] {
            assert!(!root.path().join(gone).exists(), "{gone}");
        }
    }

    #[test]
    fn an_empty_root_gets_all_it_needs() {
        if !is_root() {
            return;
        }
        let root = tree(&[]);
        apply(root.path(), &[], &identity("web1")).unwrap();
        assert!(read(&root, "etc/hosts").contains("127.0.0.1\tlocalhost\n"));
        let mode = |name: &str| root.path().join(name).metadata().unwrap().mode() & 0o7777;
        assert_eq!((mode("etc"), mode("etc/machine-id")), (0o755, 0o444));
    }

    #[test]
    fn a_clone_changes_its_top_alone() {
        if !is_root() {
            return;
        }
        let below = tree(&[
            ("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 master\n"),
            ("etc/ssh/ssh_host_rsa_key", "secret"),
            ("etc/ssh/ssh_host_rsa_key.pub", "public"),
            ("var/lib/systemd/random-seed", "seed"),
        ]);
        let above = tree(&[("etc/ssh/x", "")]);
        let set_mode = |dir: &Path, mode| {
            fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(&below.path().join("etc"), 0o700);
        set_mode(&above.path().join("etc"), 0o751);
        set_mode(&above.path().join("etc/ssh"), 0o2750);
        set_mode(&below.path().join("var/lib"), 0o711);
        let top = tree(&[]);
        let layers = [above.path().to_owned(), below.path().to_owned()];
        apply(top.path(), &layers, &identity("web2")).unwrap();

        assert_eq!(read(&top, "etc/hostname"), "web2\n");
        assert_eq!(
            read(&top, "etc/hosts"),
            "127.0.0.1 localhost\n127.0.1.1\tweb2\n"
        );
        let mode = |name: &str| top.path().join(name).metadata().unwrap().mode() & 0o7777;
        assert_eq!(mode("etc"), 0o751, "as the uppermost layer has it");
        assert_eq!(mode("etc/ssh"), 0o2750);
        assert_eq!(mode("var/lib"), 0o711);
        for hidden in [
            "etc/ssh/ssh_host_rsa_key",
            "etc/ssh/ssh_host_rsa_key.pub",
            "var/lib/systemd/random-seed",
        ] {
            let whiteout = top.path().join(hidden).symlink_metadata().unwrap();
            assert!(
                whiteout.file_type().is_char_device() && whiteout.rdev() == 0,
                "{hidden}"
            );
        }
        assert!(
            !top.path().join("var/lib/dbus").exists(),
            "only what is needed"
        );
        assert_eq!(read(&below, "etc/ssh/ssh_host_rsa_key"), "secret");
    }

    #[test]
    fn links_of_the_zone_are_never_followed() {
        if !is_root() {
            return;
        }
        let outside = tree(&[("hosts", "OUTSIDE\n"), ("ssh_host_rsa_key", "kept")]);
        let master = tree(&[]);
        symlink(outside.path(), master.path().join("etc")).unwrap();
        let top = tree(&[]);
        apply(top.path(), &[master.path().to_owned()], &identity("web3")).unwrap();
        assert!(top.path().join("etc").symlink_metadata().unwrap().is_dir());
        assert!(!read(&top, "etc/hosts").contains("OUTSIDE"));

        let root = tree(&[("etc/x", "")]);
        symlink(outside.path(), root.path().join("etc/ssh")).unwrap();
        symlink(outside.path().join("hosts"), root.path().join("etc/hosts")).unwrap();
        apply(root.path(), &[], &identity("web4")).unwrap();
        assert_eq!(read(&outside, "hosts"), "OUTSIDE\n");
        assert_eq!(read(&outside, "ssh_host_rsa_key"), "kept");
        assert!(
            !root
                .path()
                .join("etc/hosts")
                .symlink_metadata()
                .unwrap()
                .is_symlink()
        );
    }
}
