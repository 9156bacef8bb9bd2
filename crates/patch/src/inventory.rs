//! Reads the packages of a root, and computes a fingerprint of all files that affect the result of
//! a package manager.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use host::{Error, flatten};
use md5::{Digest as _, Md5};
use packages::Status;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use sha2::Sha256;

use crate::manager;
use crate::record::Change;

/// Paths below the root that affect the result of a package manager. For a folder, each file and
/// link in it counts.
const DECIDE: &[&str] = &[
    "var/lib/dpkg/status",
    "var/lib/dpkg/updates",
    "var/lib/dpkg/diversions",
    "var/lib/dpkg/statoverride",
    "var/lib/dpkg/arch",
    "var/lib/dpkg/triggers/File",
    "var/lib/dpkg/triggers/Unincorp",
    "var/lib/dpkg/alternatives",
    "var/lib/apt/extended_states",
    "etc/alternatives",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d",
    "etc/apt/preferences",
    "etc/apt/preferences.d",
    "etc/apt/apt.conf",
    "etc/apt/apt.conf.d",
    "etc/dpkg/dpkg.cfg",
    "etc/dpkg/dpkg.cfg.d",
];

/// The prefix of files, in such a folder, that affect nothing: dpkg reserves space for its next
/// record in them.
const ROOM: &[u8] = b"tmp.i";

/// Maximum size of a file that is read for a fingerprint, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// Maximum number of names in one folder.
const MAX_NAMES: usize = 100_000;

/// The packages of a root, with their fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The fingerprint. The same order has the same result in two roots with equal fingerprints.
    pub fingerprint: String,
    /// The versions of the unpacked packages, by name and architecture.
    pub packages: BTreeMap<(String, String), String>,
    /// The packages that are not installed completely, with their states in the words of dpkg.
    pub broken: Vec<String>,
    /// The packages on hold, which keep their version.
    pub held: Vec<String>,
}

/// Returns the inventory of the system at `root`.
///
/// # Errors
/// Fails if the system has no package database, or if the database is damaged.
pub fn read(root: &Path) -> Result<Inventory, Error> {
    let database = packages::open(root).map_err(|error| Error::Refused(flatten(&error)))?;
    let Some(database) = database else {
        return told(root);
    };
    let mut inventory = Inventory {
        fingerprint: String::new(),
        packages: BTreeMap::new(),
        broken: Vec::new(),
        held: Vec::new(),
    };
    for package in database.packages() {
        match package.status {
            Status::NotInstalled | Status::ConfigFiles => continue,
            Status::Installed => {}
            other => inventory
                .broken
                .push(format!("{} is {}", package.name, word(other))),
        }
        let key = (package.name.clone(), package.architecture.clone());
        inventory.packages.insert(key, package.version.clone());
    }
    let tree = Tree::open(root)?;
    inventory.fingerprint = tree.fingerprint(DECIDE)?;
    inventory.held = tree.held()?;
    Ok(inventory)
}

/// Returns the inventory of a system whose package manager lists its packages itself: only the
/// fingerprint.
fn told(root: &Path) -> Result<Inventory, Error> {
    let none = || Error::Refused("has no package database.".to_owned());
    let manager = manager::of(root)
        .filter(|one| one.tells())
        .ok_or_else(none)?;
    Ok(Inventory {
        fingerprint: Tree::open(root)?.fingerprint(manager.decides())?,
        packages: BTreeMap::new(),
        broken: Vec::new(),
        held: Vec::new(),
    })
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::NotInstalled => "not installed",
        Status::ConfigFiles => "removed",
        Status::HalfInstalled => "half installed",
        Status::Unpacked => "unpacked and not configured",
        Status::HalfConfigured => "half configured",
        Status::TriggersAwaited => "waiting for triggers",
        Status::TriggersPending => "not through with its triggers",
        Status::Installed => "installed",
    }
}

/// Returns the changes between an earlier inventory and a later one.
#[must_use]
pub fn changes(before: &Inventory, after: &Inventory) -> Vec<Change> {
    differences(&before.packages, &after.packages)
}

/// Package versions by name and architecture.
type Versions = BTreeMap<(String, String), String>;

pub(crate) fn differences(before: &Versions, after: &Versions) -> Vec<Change> {
    let mut all = BTreeMap::new();
    for (key, version) in before {
        all.insert(key, (Some(version), None));
    }
    for (key, version) in after {
        all.entry(key).or_insert((None, None)).1 = Some(version);
    }
    all.into_iter()
        .filter(|(_, (from, to))| from != to)
        .map(|((name, architecture), (from, to))| Change {
            package: name.clone(),
            architecture: architecture.clone(),
            from: from.cloned(),
            to: to.cloned(),
        })
        .collect()
}

/// Compares the files of changed packages with their packaged checksums. Configuration files,
/// diverted files and files that were never installed are not compared.
///
/// # Errors
/// Fails with [`Error::Refused`], which names the first file that differs from the packaged one.
pub fn verify(root: &Path, changes: &[Change]) -> Result<(), Error> {
    let database = packages::open(root).map_err(|error| Error::Refused(flatten(&error)))?;
    let Some(database) = database else {
        return Err(Error::Refused("has no package database.".to_owned()));
    };
    let tree = Tree::open(root)?;
    let diverted = tree.text(Path::new("var/lib/dpkg/diversions"))?;
    let diverted: Vec<&str> = diverted.lines().collect();
    for package in database.packages() {
        let changed = changes.iter().any(|change| {
            change.to.is_some()
                && change.package == package.name
                && change.architecture == package.architecture
        });
        if !changed {
            continue;
        }
        let sums = database
            .checksums(package)
            .map_err(|error| Error::Refused(flatten(&error)))?;
        for (path, sum) in sums {
            if path.to_str().is_some_and(|path| diverted.contains(&path)) {
                continue;
            }
            let Some(mut file) = tree.file(&path)? else {
                continue;
            };
            let mut hash = Md5::new();
            std::io::copy(&mut file, &mut hash)
                .map_err(Error::io(format!("read {}", path.display())))?;
            if hash.finalize()[..] != sum {
                return Err(Error::Refused(format!(
                    "{} is not as package {} has it",
                    path.display(),
                    package.name
                )));
            }
        }
    }
    Ok(())
}

/// An open root directory. No path or link in it leads outside the root.
struct Tree(OwnedFd);

impl Tree {
    fn open(root: &Path) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(root, flags, Mode::empty())
            .map(Self)
            .map_err(|errno| Error::io(format!("open {}", root.display()))(errno.into()))
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Result<Option<OwnedFd>, Error> {
        match sys::root::open(&self.0, path, flags) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(Error::io(format!("open {}", path.display()))(errno.into())),
        }
    }

    /// Opens a regular file in the root; `None` if it does not exist.
    fn file(&self, path: &Path) -> Result<Option<File>, Error> {
        sys::root::file(&self.0, path)
            .map_err(|errno| Error::io(format!("open {}", path.display()))(errno.into()))
    }

    fn text(&self, path: &Path) -> Result<String, Error> {
        let mut bytes = Vec::new();
        if let Some(file) = self.file(path)? {
            file.take(MAX_FILE)
                .read_to_end(&mut bytes)
                .map_err(Error::io(format!("read {}", path.display())))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn fingerprint(&self, names: &[&str]) -> Result<String, Error> {
        let mut hash = Sha256::new();
        for name in names {
            self.add(&mut hash, Path::new(name), 0)?;
        }
        Ok(hex(&hash.finalize()))
    }

    /// Adds a file, a link, or the content of a folder to the fingerprint.
    fn add(&self, hash: &mut Sha256, path: &Path, depth: u32) -> Result<(), Error> {
        let fail = |errno: Errno| Error::io(format!("read {}", path.display()))(errno.into());
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let Some(found) = self.resolve(path, flags)? else {
            hash.update(b"absent");
            return Ok(());
        };
        match kind(&found) {
            Some(FileType::Symlink) => {
                let text = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(fail)?;
                hash.update(text.to_bytes());
            }
            Some(FileType::Directory) if depth == 0 => {
                let Some(folder) = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)? else {
                    return Ok(());
                };
                let mut names = Vec::new();
                for entry in rustix::fs::Dir::read_from(&folder).map_err(fail)? {
                    let entry = entry.map_err(fail)?;
                    let name = entry.file_name().to_bytes().to_vec();
                    if name != b"." && name != b".." && name != ROOM {
                        names.push(name);
                    }
                    if names.len() > MAX_NAMES {
                        return Err(Error::Refused(format!(
                            "{}: too many names",
                            path.display()
                        )));
                    }
                }
                names.sort();
                for name in names {
                    use std::os::unix::ffi::OsStringExt;
                    let name = std::ffi::OsString::from_vec(name);
                    self.add(hash, &path.join(name), depth + 1)?;
                }
            }
            Some(FileType::RegularFile) => {
                if let Some(file) = self.file(path)? {
                    std::io::copy(&mut file.take(MAX_FILE), hash)
                        .map_err(Error::io(format!("read {}", path.display())))?;
                }
            }
            _ => hash.update(b"other"),
        }
        hash.update([0]);
        Ok(())
    }

    /// Returns the packages whose record says `hold`.
    fn held(&self) -> Result<Vec<String>, Error> {
        let text = self.text(Path::new("var/lib/dpkg/status"))?;
        let (mut held, mut name) = (Vec::new(), "");
        for line in text.lines() {
            if let Some(found) = line.strip_prefix("Package: ") {
                name = found;
            } else if line.starts_with("Status: hold ") {
                held.push(name.to_owned());
            }
        }
        Ok(held)
    }
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    let stat = rustix::fs::fstat(file).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn root(status: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("var/lib/dpkg/info")).unwrap();
        fs::write(root.path().join("var/lib/dpkg/status"), status).unwrap();
        root
    }

    fn record(name: &str, status: &str, version: &str) -> String {
        format!("Package: {name}\nStatus: {status}\nArchitecture: all\nVersion: {version}\n\n")
    }

    #[test]
    fn the_fingerprint_depends_on_packages_only() {
        let text = record("a", "install ok installed", "1");
        let (one, two) = (root(&text), root(&text));
        fs::create_dir_all(two.path().join("etc")).unwrap();
        fs::write(two.path().join("etc/hostname"), "other").unwrap();
        let of = |root: &tempfile::TempDir| read(root.path()).unwrap();
        assert_eq!(of(&one), of(&two));
        fs::create_dir_all(two.path().join("etc/apt/preferences.d")).unwrap();
        let empty = of(&two);
        fs::write(two.path().join("etc/apt/preferences.d/pin"), "x").unwrap();
        assert_ne!(of(&two).fingerprint, empty.fingerprint);
    }

    #[test]
    fn a_zone_whose_dpkg_was_killed_is_not_like_others() {
        let text = record("a", "install ok installed", "1");
        let (one, two) = (root(&text), root(&text));
        let updates = two.path().join("var/lib/dpkg/updates");
        for root in [&one, &two] {
            fs::create_dir(root.path().join("var/lib/dpkg/updates")).unwrap();
        }
        let of = |root: &tempfile::TempDir| read(root.path()).unwrap();
        fs::write(updates.join("tmp.i"), "#padding\n").unwrap();
        assert_eq!(of(&one), of(&two));
        let half = record("a", "install reinstreq half-installed", "1");
        fs::write(updates.join("0000"), half).unwrap();
        let found = of(&two);
        assert_ne!(of(&one).fingerprint, found.fingerprint);
        assert_eq!(found.broken, ["a is half installed"]);
    }

    #[test]
    fn changes_holds_and_half_states() {
        let before = [
            record("a", "install ok installed", "1"),
            record("b", "hold ok installed", "1"),
            record("c", "install ok installed", "1"),
        ];
        let after = [
            record("a", "install ok installed", "2"),
            record("b", "hold ok installed", "1"),
            record("c", "deinstall ok config-files", "1"),
            record("d", "install ok half-configured", "1"),
        ];
        let of = |text: &[String]| read(root(&text.concat()).path()).unwrap();
        let (before, after) = (of(&before), of(&after));
        let all: Vec<String> = changes(&before, &after)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(all, ["a 1 -> 2", "c 1 removed", "d 1 new"]);
        assert_eq!(after.held, ["b"]);
        assert_eq!(after.broken, ["d is half configured"]);
    }

    #[test]
    fn files_of_changed_packages_are_as_packaged() {
        let root = root(&record("a", "install ok installed", "2"));
        fs::create_dir_all(root.path().join("opt")).unwrap();
        let sum = "5d41402abc4b2a76b9719d911017c592";
        let sums = format!("{sum}  opt/a\n{sum}  opt/gone\n");
        fs::write(root.path().join("var/lib/dpkg/info/a.md5sums"), sums).unwrap();
        fs::write(root.path().join("opt/a"), "hello").unwrap();
        let change = [Change {
            package: "a".into(),
            architecture: "all".into(),
            from: Some("1".into()),
            to: Some("2".into()),
        }];
        verify(root.path(), &change).unwrap();
        fs::write(root.path().join("opt/a"), "hallo").unwrap();
        let error = verify(root.path(), &change).unwrap_err().to_string();
        assert_eq!(error, "/opt/a is not as package a has it");
        verify(root.path(), &[]).unwrap();
    }
}
