//! The directories of every Linux system, with their permissions (hier(7)).

use std::path::Path;

use crate::install::Error;
use crate::native::fill::{Fill, relative};
use crate::tree::Meta;

/// A directory, its permissions, and its owner and group if they are not root.
struct Dir(&'static str, u32, &'static str, &'static str);

const fn dir(name: &'static str, mode: u32) -> Dir {
    Dir(name, mode, "", "")
}

const DIRS: &[Dir] = &[
    dir("boot", 0o755),
    dir("dev", 0o755),
    dir("etc", 0o755),
    dir("home", 0o755),
    dir("media", 0o755),
    dir("mnt", 0o755),
    dir("opt", 0o755),
    dir("proc", 0o555),
    dir("root", 0o700),
    dir("run", 0o755),
    dir("srv", 0o755),
    dir("sys", 0o555),
    dir("tmp", 0o1777),
    dir("var", 0o755),
    dir("var/backups", 0o755),
    dir("var/cache", 0o755),
    dir("var/lib", 0o755),
    dir("var/lib/misc", 0o755),
    Dir("var/local", 0o2775, "", "staff"),
    dir("var/log", 0o755),
    Dir("var/mail", 0o2775, "", "mail"),
    dir("var/opt", 0o755),
    dir("var/spool", 0o755),
    dir("var/tmp", 0o1777),
];

/// The folders that must exist before apt runs for the first time.
const APT_DIRS: &[Dir] = &[
    dir("etc/apt/sources.list.d", 0o755),
    dir("var/cache/apt/archives", 0o755),
    Dir("var/cache/apt/archives/partial", 0o700, "_apt", ""),
    dir("var/lib/apt/lists", 0o755),
    Dir("var/lib/apt/lists/partial", 0o700, "_apt", ""),
    dir("var/log/apt", 0o755),
];

const LINKS: &[(&str, &str)] = &[
    ("etc/mtab", "../proc/self/mounts"),
    ("var/lock", "/run/lock"),
    ("var/run", "/run"),
    ("var/spool/mail", "../mail"),
];

/// Makes the directories, the links at the root, and a mount point for each
/// inherited directory.
pub fn make(fill: &mut Fill<'_>, with_apt: bool) -> Result<(), Error> {
    fill.dir(Path::new(""), Meta::root(0o755))?;
    let inherited = fill.layout.dirs.clone();
    for dir in inherited.iter().filter_map(|dir| relative(dir)) {
        fill.dir(dir, Meta::root(0o755))?;
    }
    let links = fill.layout.links.clone();
    for (link, target) in &links {
        if let Some(link) = relative(link) {
            fill.link(link, target)?;
        }
    }
    let apt: &[Dir] = if with_apt { APT_DIRS } else { &[] };
    for Dir(name, mode, user, group) in DIRS.iter().chain(apt) {
        let name = Path::new(name);
        if !fill.is_inherited(name) {
            let meta = Meta {
                mode: *mode,
                uid: fill.accounts.uid(user).unwrap_or(0),
                gid: fill.accounts.gid(group).unwrap_or(0),
            };
            fill.dir(name, meta)?;
        }
    }
    for (link, target) in LINKS {
        let link = Path::new(link);
        if !fill.is_inherited(link) {
            fill.link(link, Path::new(target))?;
        }
    }
    Ok(())
}
