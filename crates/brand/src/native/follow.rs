//! Makes a sparse zone follow its host. After the host's packages have changed, or on another host,
//! the zone's own part of each package is updated to the host's version.
//!
//! | files | result |
//! |---|---|
//! | a configuration file as it was packaged | the host's, if that is as packaged now |
//! | one that was changed in the zone | stays; the host's is put beside it as `.dpkg-dist` |
//! | one of a new package | the host's, if that is as packaged |
//! | the package database | the host's, overrides of the zone's own kept |
//! | the loader's cache, alternatives, folders | made as at install; links of the zone's own stay |
//! | system accounts of new packages | added, locked, where name and number are free |
//!
//! Only records of the package database are removed. The caller has a snapshot and can undo
//! everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use model::Config;
use packages::Database;
use packages::dpkg::{DIR, Dpkg};

use crate::install::{Error, Installed};
use crate::native::fill::{Fill, relative};
use crate::native::{accounts, conffiles, database, generated, links, sparse};
use crate::tree::{Meta, Tree};

/// Maximum size of a file that is compared or changed, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Folders of the database whose records are replaced.
const RECORDS: &[&str] = &["", "info", "triggers", "updates", "alternatives", "parts"];

/// The changes that follow the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Configuration files that were replaced or added.
    pub taken: u64,
    /// Configuration files that were changed in the zone. They stay unchanged.
    pub kept: Vec<PathBuf>,
    /// Accounts and groups that were added.
    pub accounts: Vec<String>,
}

/// Updates the own part of a sparse zone to the host. `root` is the complete root of the halted
/// zone, writable.
///
/// # Errors
/// Fails with [`Error::Refused`] for a zone that is not sparse, or a host without dpkg. Fails with
/// other errors for files that cannot be read or written; the root is then partly changed.
pub fn follow(
    config: &Config,
    host_root: &Path,
    root: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Followed, Error> {
    let layout =
        sparse::of(config, host_root).map_err(|error| Error::io("look at", host_root, error))?;
    let Some(layout) = layout else {
        return Err(Error::Refused(
            "the zone does not share the host's programs".to_owned(),
        ));
    };
    let host = Tree::open(host_root)?;
    let accounts = accounts::Accounts::of(&host)?;
    let mut fill = Fill {
        host,
        root: Tree::open(root)?,
        layout,
        accounts,
        done: Installed::default(),
        last_parent: PathBuf::new(),
        progress,
    };
    let Some(former) = open(root)? else {
        return Err(Error::Refused("the zone has no dpkg database".to_owned()));
    };
    if fill.host.stat(Path::new(DIR))?.is_some() {
        database::wait_until_idle(&mut fill)?;
    }
    let Some(dpkg) = open(host_root)? else {
        return Err(Error::Refused("the host has no dpkg database".to_owned()));
    };
    let mut followed = Followed {
        accounts: add_accounts(&mut fill)?,
        ..Followed::default()
    };
    take_conffiles(&mut fill, &former, &dpkg, &mut followed)?;
    (fill.progress)(&format!(
        "Taking over the records of {} packages.",
        dpkg.packages().len()
    ));
    let overrides = overrides_of(&fill)?;
    remove_records(&fill)?;
    let listed = database::copy(&mut fill, dpkg.packages())?;
    keep_overrides(&fill, &overrides)?;
    let shipped = database::make_listed_dirs(&mut fill, &listed)?;
    generated::follow(&mut fill)?;
    database::copy_alternatives(&mut fill)?;
    links::make_packaged(&mut fill, &shipped)?;
    Ok(followed)
}

fn open(root: &Path) -> Result<Option<Dpkg>, Error> {
    Dpkg::open(root).map_err(Error::from)
}

/// Returns the packaged checksums of configuration files.
fn packaged(dpkg: &Dpkg) -> BTreeMap<PathBuf, [u8; 16]> {
    let unpacked = dpkg.packages().iter();
    let unpacked = unpacked.filter(|package| package.status.is_unpacked());
    unpacked
        .flat_map(|package| &package.conffiles)
        .filter(|one| !one.remove_on_upgrade && !one.obsolete)
        .filter_map(|one| Some((relative(&one.path)?.to_owned(), one.md5?)))
        .collect()
}

fn take_conffiles(
    fill: &mut Fill<'_>,
    former: &Dpkg,
    dpkg: &Dpkg,
    followed: &mut Followed,
) -> Result<(), Error> {
    let before = packaged(former);
    for (name, md5) in packaged(dpkg) {
        if before.get(&name) == Some(&md5)
            || fill.is_inherited(&name)
            || conffiles::is_filled_otherwise(&name)
        {
            continue;
        }
        let own = fill.root.read(&name, MAX_FILE)?;
        let own = own.map(|(content, _)| <[u8; 16]>::from(Md5::digest(&content)));
        if own == Some(md5) {
            continue;
        }
        // Only a file with its packaged content is public. Changes by the host's administrator stay
        // on the host.
        let here = fill.host.read(&name, MAX_FILE)?;
        let Some((content, stat)) = here.filter(|(text, _)| Md5::digest(text)[..] == md5) else {
            fill.leave_out(&name, "changed on this host");
            continue;
        };
        let mut meta = Meta::of(&stat);
        meta.mode &= 0o777;
        let untouched = match (own, before.get(&name)) {
            (Some(own), Some(before)) => own == *before,
            // A file that the zone's administrator removed is not created again, as with dpkg.
            (None, Some(_)) => continue,
            (own, None) => own.is_none() && !fill.has(&name)?,
        };
        if untouched {
            fill.root.remove(&name)?;
            fill.file(&name, meta, &content)?;
            followed.taken += 1;
        } else {
            let mut beside = name.clone().into_os_string();
            beside.push(".dpkg-dist");
            let beside = PathBuf::from(beside);
            fill.root.remove(&beside)?;
            fill.file(&beside, meta, &content)?;
            followed.kept.push(Path::new("/").join(&name));
        }
    }
    Ok(())
}

/// Removes the files of the zone's package database, and no folders.
fn remove_records(fill: &Fill<'_>) -> Result<(), Error> {
    for folder in RECORDS {
        let folder = Path::new(DIR).join(folder);
        for name in fill.root.names(&folder)? {
            let name = folder.join(name);
            let is_folder = fill
                .root
                .stat(&name)?
                .is_some_and(|stat| crate::tree::is(&stat, rustix::fs::FileType::Directory));
            if !is_folder {
                fill.root.remove(&name)?;
            }
        }
    }
    Ok(())
}

/// Returns the overrides that the zone's administrator has set.
fn overrides_of(fill: &Fill<'_>) -> Result<Vec<u8>, Error> {
    let read = fill.root.read(&overrides(), MAX_FILE)?;
    Ok(read.map(|(content, _)| content).unwrap_or_default())
}

fn overrides() -> PathBuf {
    Path::new(DIR).join("statoverride")
}

/// Adds the overrides of files for which the host has no override.
fn keep_overrides(fill: &Fill<'_>, former: &[u8]) -> Result<(), Error> {
    let mut all = overrides_of(fill)?;
    // The fields of a line are: user group mode path.
    let path = |line: &[u8]| {
        line.splitn(4, |&byte| byte == b' ')
            .nth(3)
            .map(<[u8]>::to_vec)
    };
    let known: BTreeSet<_> = all.split(|&byte| byte == b'\n').filter_map(path).collect();
    let before = all.len();
    for line in former.split(|&byte| byte == b'\n') {
        if path(line).is_some_and(|path| !known.contains(&path)) {
            all.extend_from_slice(line);
            all.push(b'\n');
        }
    }
    if all.len() == before {
        return Ok(());
    }
    fill.root.remove(&overrides())?;
    fill.root.write(&overrides(), Meta::root(0o644), &all)
}

/// Adds accounts and groups whose name and id are both unused in the zone.
fn add_accounts(fill: &mut Fill<'_>) -> Result<Vec<String>, Error> {
    let mut added = BTreeSet::new();
    // passwd and group decide, and the shadow files follow them.
    let mut known: [BTreeSet<String>; 2] = Default::default();
    for (name, meta, wanted) in fill.accounts.files() {
        let path = Path::new("etc").join(name);
        let Some((content, stat)) = fill.root.read(&path, MAX_FILE)? else {
            continue;
        };
        let text = String::from_utf8_lossy(&content).into_owned();
        let field = |line: &str, n: usize| line.split(':').nth(n).unwrap_or_default().to_owned();
        let names: BTreeSet<String> = text.lines().map(|line| field(line, 0)).collect();
        let is_shadow = name.ends_with("shadow");
        let numbers: BTreeSet<String> = text.lines().map(|line| field(line, 2)).collect();
        let of = usize::from(matches!(name, "group" | "gshadow"));
        let more: Vec<&str> = wanted
            .lines()
            .filter(|line| !names.contains(&field(line, 0)))
            .filter(|line| match is_shadow {
                true => known[of].contains(&field(line, 0)),
                false => !numbers.contains(&field(line, 2)),
            })
            .collect();
        if more.is_empty() {
            continue;
        }
        let mut text = text;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for line in more {
            text.push_str(line);
            text.push('\n');
            known[of].insert(field(line, 0));
            added.insert(field(line, 0));
        }
        let meta = Meta {
            mode: meta.mode,
            ..Meta::of(&stat)
        };
        fill.root.remove(&path)?;
        fill.root.write(&path, meta, text.as_bytes())?;
    }
    Ok(added.into_iter().collect())
}
