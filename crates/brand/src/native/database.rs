//! The package database of a new zone: dpkg's records of the files in the inherited directories.
//! They are copied unchanged wherever patching needs the exact bytes.
//!
//! Only records of packages in the status file are copied, and only the kinds of records that
//! packages contain. Any other file stays on the host. Locks, backups, the answers of debconf
//! (which contain passwords) and the state of apt are not copied.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use packages::Package;
use packages::dpkg::{DIR, Dpkg};
use rustix::fs::FileType;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::install::Error;
use crate::native::fill::{Fill, relative};
use crate::tree::{Meta, Tree, is};

/// Maximum size of one record, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// The kinds of files that packages install in `info`.
const KINDS: &[&str] = &[
    "conffiles",
    "config",
    "list",
    "md5sums",
    "postinst",
    "postrm",
    "preinst",
    "prerm",
    "shlibs",
    "symbols",
    "templates",
    "triggers",
];

/// The directories of the database.
const DIRS: &[&str] = &["alternatives", "info", "parts", "triggers", "updates"];

/// Single files that are copied unchanged. `statoverride` is copied line by line.
const FILES: &[&str] = &["arch", "cmethopt", "diversions", "status", "info/format"];

/// The files of the package lists that are in the zone's own part of the root.
#[derive(Debug, Default)]
pub struct Listed {
    /// Paths below `/etc` and `/var` that packages contain, with files and links.
    pub names: BTreeSet<PathBuf>,
}

/// The locks of dpkg: dpkg holds them while it works, and apt holds them while it calls dpkg.
const LOCKS: [&str; 2] = ["lock-frontend", "lock"];

/// Timeout for dpkg on the host to finish its work.
const DPKG_LOCK_TIMEOUT: Duration = Duration::from_secs(240);

/// Interval between checks of dpkg's locks.
const DPKG_LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits while dpkg works on the host. This function does not hold the locks, because that would
/// break an upgrade that starts now. [`copy`] notices such an upgrade.
pub fn wait_until_idle(fill: &mut Fill<'_>) -> Result<(), Error> {
    let source = Source::open(fill)?;
    let end = Instant::now() + DPKG_LOCK_TIMEOUT;
    let mut told = false;
    while source.is_locked()? && Instant::now() < end {
        if !told {
            (fill.progress)("Waiting for dpkg, which is at work on the host.");
            told = true;
        }
        std::thread::sleep(DPKG_LOCK_POLL_INTERVAL);
    }
    Ok(())
}

/// Copies the database. Returns the paths in its file lists.
pub fn copy(fill: &mut Fill<'_>, packages: &[Package]) -> Result<Listed, Error> {
    let source = Source::open(fill)?;
    source.check_idle()?;
    let before = source.version()?;
    for dir in DIRS {
        fill.dir(&Path::new(DIR).join(dir), Meta::root(0o755))?;
    }
    let mut buffer = Vec::new();
    for file in FILES {
        copy_record(fill, &source.tree, Path::new(file), &mut buffer)?;
    }
    copy_overrides(fill, &source.tree)?;
    let listed = copy_info(fill, &source.tree, packages, &mut buffer)?;
    for name in source.tree.names(Path::new("triggers"))? {
        if name != "Lock" {
            let name = Path::new("triggers").join(name);
            copy_record(fill, &source.tree, &name, &mut buffer)?;
        }
    }
    if source.version()? != before {
        return Err(source.busy());
    }
    source.check_idle()?;
    Ok(listed)
}

/// Copies the choices of those alternatives that were copied.
pub fn copy_alternatives(fill: &mut Fill<'_>) -> Result<(), Error> {
    let source = Source::open(fill)?;
    let mut buffer = Vec::new();
    for name in source.tree.names(Path::new("alternatives"))? {
        if fill.has(&Path::new("etc/alternatives").join(&name))? {
            let name = Path::new("alternatives").join(name);
            copy_record(fill, &source.tree, &name, &mut buffer)?;
        }
    }
    Ok(())
}

/// The package database of the host.
struct Source {
    tree: Tree,
    path: PathBuf,
}

impl Source {
    /// Links in the path of the database belong to the host, so they are followed.
    fn open(fill: &Fill<'_>) -> Result<Self, Error> {
        let path = fill.host.show(Path::new(DIR));
        let tree = Tree::open(&path)?;
        Ok(Self { tree, path })
    }

    fn is_locked(&self) -> Result<bool, Error> {
        let wanted = Flock::from(FlockType::WriteLock);
        for name in LOCKS {
            let Some((file, _)) = self.tree.open_regular(Path::new(name))? else {
                continue;
            };
            let holder = fcntl_getlk(&file, &wanted)
                .map_err(|errno| Error::io("look at", self.path.join(name), errno))?;
            if holder.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails while dpkg has changes that are not in the status file yet.
    fn check_idle(&self) -> Result<(), Error> {
        if self.tree.names(Path::new("updates"))?.is_empty() {
            Ok(())
        } else {
            Err(self.busy())
        }
    }

    /// This value changes whenever dpkg replaces the status file.
    fn version(&self) -> Result<Option<impl PartialEq + use<>>, Error> {
        let stat = self.tree.stat(Path::new("status"))?;
        Ok(stat.map(|stat| (stat.st_ino, stat.st_mtime, stat.st_mtime_nsec)))
    }

    fn busy(&self) -> Error {
        Error::Refused(format!(
            "{}: dpkg is at work on the host, or was interrupted; try again when it is done",
            self.path.display()
        ))
    }
}

fn copy_info(
    fill: &mut Fill<'_>,
    source: &Tree,
    packages: &[Package],
    buffer: &mut Vec<u8>,
) -> Result<Listed, Error> {
    let stems: HashSet<String> = packages.iter().map(Dpkg::info_stem).collect();
    let mut listed = Listed::default();
    for name in source.names(Path::new("info"))? {
        // The name of a package may contain dots, but the kind of a record does not.
        let Some((stem, kind)) = name.to_str().and_then(|name| name.rsplit_once('.')) else {
            continue;
        };
        if !stems.contains(stem) || !KINDS.contains(&kind) {
            continue;
        }
        let copied = copy_record(fill, source, &Path::new("info").join(&name), buffer)?;
        if copied && kind == "list" {
            note_listed(&mut listed, buffer);
        }
    }
    Ok(listed)
}

/// Records the paths of a file list that are below `/etc` and `/var`. Most paths are not, so they
/// cost no allocation.
fn note_listed(listed: &mut Listed, list: &[u8]) {
    for line in list.split(|&byte| byte == b'\n') {
        if line.starts_with(b"/etc/") || line.starts_with(b"/var/") {
            let path = Path::new(OsStr::from_bytes(line));
            listed.names.extend(relative(path).map(Path::to_owned));
        }
    }
}

/// Copies one record that every user may read. The record stays in `buffer`.
fn copy_record(
    fill: &mut Fill<'_>,
    source: &Tree,
    name: &Path,
    buffer: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some((file, stat)) = source.open_regular(name)? else {
        return Ok(false);
    };
    let target = Path::new(DIR).join(name);
    if stat.st_mode & 0o004 == 0 {
        fill.leave_out(&target, "not readable by everybody");
        return Ok(false);
    }
    buffer.clear();
    let read = file
        .take(MAX_FILE + 1)
        .read_to_end(buffer)
        .map_err(|error| Error::io("read", source.show(name), error))?;
    if read as u64 > MAX_FILE {
        fill.leave_out(&target, "too large");
        return Ok(false);
    }
    let mode = stat.st_mode & 0o755;
    fill.file(&target, Meta::root(mode), buffer)?;
    Ok(true)
}

/// Copies the overrides of accounts that the zone has, because dpkg fails on unknown accounts.
fn copy_overrides(fill: &mut Fill<'_>, source: &Tree) -> Result<(), Error> {
    let name = Path::new("statoverride");
    let Some((content, _)) = source.read(name, MAX_FILE)? else {
        return Ok(());
    };
    let mut kept = Vec::new();
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let known = std::str::from_utf8(line).is_ok_and(|line| {
            let mut words = line.split(' ');
            let (user, group) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            fill.accounts.uid(user).is_some() && fill.accounts.gid(group).is_some()
        });
        if known {
            kept.extend_from_slice(line);
        }
    }
    fill.file(&Path::new(DIR).join(name), Meta::root(0o644), &kept)
}

/// Makes the directories that packages contain below `/etc` and `/var`, empty and with the
/// attributes of the host. Returns the links that packages contain there.
pub fn make_listed_dirs(fill: &mut Fill<'_>, listed: &Listed) -> Result<Vec<PathBuf>, Error> {
    let mut links = Vec::new();
    for name in &listed.names {
        if fill.is_inherited(name) || fill.has(name)? {
            continue;
        }
        match fill.host.stat(name)? {
            Some(stat) if is(&stat, FileType::Directory) => fill.dir(name, Meta::of(&stat))?,
            Some(stat) if is(&stat, FileType::Symlink) => links.push(name.clone()),
            _ => {}
        }
    }
    Ok(links)
}
