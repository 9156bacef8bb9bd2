//! Snapshots of the disks of a kernel zone. See [`live_snapshot`](crate::live_snapshot) for a running
//! zone.
//!
//! ```text
//! <zonepath>/
//!   disk-snapshots/<name>/snapshot.json   time, and the machine's record
//!   disk-snapshots/<name>/<file>          a copy of each file that the guest writes to
//!   disk-snapshots/<name>/<base>          a hard link to each base file
//!   disk-snapshots/.half                  one that is being made or removed: does not count
//! ```
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | take | copy the files to `.half` | `.half`, which the next operation removes |
//! | | **rename `.half` to `<name>`** | - |
//! | destroy | **rename `<name>` to `.half`** | `.half`, which the next operation removes |
//! | | remove `.half` | - |
//! | rollback | copy the files to new names in the zonepath | files that the next operation removes |
//! | | **write the record with the new names** | the former files, which the next operation removes |
//! | | remove the former files | - |
//!
//! A copy shares its blocks with the disk where the file system can do that (btrfs, xfs with
//! reflinks). Elsewhere the data of a halted zone is copied, without the holes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
pub use storage::{BadName, Name};
use store::atomic;
use store::format::{self, Stored};

use crate::clone::link_as;
use crate::disks::{self, own_name};
use crate::install::{TOP, copy_or_share, is_ours};
use crate::new_file::create;
use crate::record::{Nvram, Record};
use host::uuid::new_uuid;
use host::{Error, Host};
use model::Config;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Name of the folder in the zonepath that holds the snapshots.
pub const FOLDER: &str = "disk-snapshots";

/// Name of a snapshot that is being made or removed. No name of a snapshot begins with a dot.
const HALF: &str = ".half";

/// Name of the file that describes a snapshot.
const ABOUT: &str = "snapshot.json";

/// The format of that file.
const FORMAT: u64 = 1;

/// Maximum number of bytes of that file that are read.
const MAX_ABOUT_BYTES: u64 = 1 << 20;

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    /// The time of the snapshot, in seconds since 1970.
    created: u64,
    /// The record of the machine. Its files are files of the snapshot.
    record: Record,
    /// The time of the last write to each file that the guest can change, in nanoseconds since 1970;
    /// empty for a snapshot of a running zone.
    #[serde(default)]
    written: BTreeMap<String, i64>,
}

/// A snapshot of a kernel zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The name of the snapshot.
    pub name: Name,
    /// The time of the snapshot, in seconds since 1970.
    pub created: u64,
    /// The largest number of files of a disk: the one that the guest writes to, and those below it.
    pub files: usize,
}

/// A file that a snapshot copies, and the new file.
pub type Pair = (PathBuf, PathBuf);

/// A snapshot that is being made.
#[derive(Debug)]
pub struct Taking {
    folder: PathBuf,
    record: Record,
    written: BTreeMap<String, i64>,
    /// The files whose content the guest can change, with their copies, which are empty at first.
    pub pairs: Vec<Pair>,
}

/// Returns the folder with the snapshots of the zone at `zonepath`.
fn folder(zonepath: &Path) -> PathBuf {
    zonepath.join(FOLDER)
}

/// Returns the snapshots of a zone, the oldest first.
///
/// # Errors
/// Fails if the description of a snapshot cannot be read.
pub fn list(zonepath: &Path) -> Result<Vec<Kept>, Error> {
    let mut found = Vec::new();
    for name in names(zonepath)? {
        let about = about(zonepath, &name)?;
        found.push(Kept {
            name,
            created: about.created,
            files: about
                .record
                .disks
                .iter()
                .map(|disk| disk.bases.len() + 1)
                .max()
                .unwrap_or(0),
        });
    }
    found.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    Ok(found)
}

/// Returns the names of the snapshots of a zone.
///
/// # Errors
/// Fails if the folder of the snapshots cannot be read.
pub fn names(zonepath: &Path) -> Result<Vec<Name>, Error> {
    let entries = match fs::read_dir(folder(zonepath)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::io("read the snapshots"))?,
    };
    let entries = entries.filter_map(|one| one.ok()?.file_name().to_str()?.parse().ok());
    Ok(entries.collect())
}

fn about(zonepath: &Path, name: &Name) -> Result<About, Error> {
    let path = folder(zonepath).join(name.as_str()).join(ABOUT);
    let fail = |why: String| {
        Error::Refused(format!(
            "{}: {why}; remove the snapshot with destroy-snapshot.",
            path.display()
        ))
    };
    let file = File::open(&path).map_err(|error| fail(error.to_string()))?;
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_ABOUT_BYTES), &mut text)
        .map_err(|error| fail(error.to_string()))?;
    format::check_json(&path, &text, FORMAT)?;
    let about: About = serde_json::from_slice(&text).map_err(|error| fail(error.to_string()))?;
    about
        .record
        .check()
        .map_err(|error| fail(error.to_string()))?;
    Ok(about)
}

/// Returns the names of the record's files that the guest can change.
pub(crate) fn changing(record: &Record) -> impl Iterator<Item = &str> {
    let disks = record.disks.iter().filter_map(|disk| disk.file.as_deref());
    disks.chain(record.nvram.iter().map(|nvram| nvram.file.as_str()))
}

fn refused(error: &AnyError) -> Error {
    Error::Refused(error.to_string())
}

impl Taking {
    /// Returns a snapshot of a zone with this record, without files.
    pub(crate) fn new(zonepath: &Path, record: Record) -> Self {
        Self {
            folder: folder(zonepath),
            record,
            written: BTreeMap::new(),
            pairs: Vec::new(),
        }
    }

    /// Returns the folder of the unfinished snapshot.
    pub(crate) fn half(&self) -> PathBuf {
        self.folder.join(HALF)
    }

    /// Returns the record of the machine at the moment of the snapshot.
    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }
}

/// Removes the remains of killed commands, and returns the record of a zone that can get a snapshot
/// with this name.
///
/// # Errors
/// Fails with [`Error::Refused`] if a snapshot with this name exists, or a disk is not in the
/// zonepath.
pub(crate) fn admit(
    host: &Host,
    config: &Config,
    zonepath: &Path,
    name: &Name,
) -> Result<Record, Error> {
    collect(host, config, zonepath)?;
    let record = Record::load(zonepath)?;
    if folder(zonepath).join(name.as_str()).exists() {
        return Err(Error::Refused(format!("has a snapshot {name} already.")));
    }
    let places = disks::places(host, config);
    if let Some(place) = places.iter().find(|place| !disks::is_own(place, zonepath)) {
        return Err(Error::Refused(format!(
            "disk {} ({}) is not in the zonepath, so no snapshot can contain it: remove the device, or make snapshots with the tools of its storage.",
            place.id,
            place.path.display()
        )));
    }
    Ok(record)
}

/// Begins a snapshot: makes its files, which are empty. The caller copies the content of
/// [`Taking::pairs`] and calls [`complete`]. The remains of killed commands are removed first.
///
/// # Errors
/// Fails with [`Error::Refused`] if a snapshot with this name exists, or a disk is not in the
/// zonepath.
pub fn begin(host: &Host, config: &Config, zonepath: &Path, name: &Name) -> Result<Taking, Error> {
    let mut taking = Taking::new(zonepath, admit(host, config, zonepath, name)?);
    taking.written = written(&taking.record, zonepath)?;
    let (half, record) = (taking.half(), &taking.record);
    let make = || -> Result<Vec<Pair>, AnyError> {
        fs::create_dir_all(&half)?;
        let mut pairs = Vec::new();
        for file in changing(record) {
            let (from, to) = (zonepath.join(file), half.join(file));
            create(&to)?;
            pairs.push((from, to));
        }
        for base in record.disks.iter().flat_map(|disk| &disk.bases) {
            link_as(&zonepath.join(&base.name), &half.join(&base.name))?;
        }
        Ok(pairs)
    };
    let pairs = make();
    match pairs {
        Ok(pairs) => {
            taking.pairs = pairs;
            Ok(taking)
        }
        Err(why) => {
            let _ = fs::remove_dir_all(&half);
            Err(refused(&why))
        }
    }
}

/// Copies the content of the files of a halted zone.
///
/// # Errors
/// Fails with [`Error::Refused`], for example if the file system is full.
pub fn copy(taking: &Taking) -> Result<(), Error> {
    for (from, to) in &taking.pairs {
        let copied = || -> Result<(), AnyError> {
            let target = fs::OpenOptions::new().write(true).open(to)?;
            copy_or_share(&File::open(from)?, &target)?;
            Ok(target.sync_all()?)
        };
        copied().map_err(|error| Error::Refused(format!("{}: {error}", to.display())))?;
    }
    Ok(())
}

/// Completes a snapshot whose files are copied. From then on it exists.
///
/// # Errors
/// Fails with [`Error::Refused`] or [`Error::Store`] if it cannot be written; then no snapshot exists.
pub fn complete(taking: Taking, name: &Name) -> Result<(), Error> {
    let half = taking.folder.join(HALF);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let about = About {
        created: now.unwrap_or_default().as_secs(),
        record: taking.record,
        written: taking.written,
    };
    let stored = Stored {
        format: FORMAT,
        content: &about,
    };
    let text =
        serde_json::to_vec_pretty(&stored).map_err(|error| Error::Refused(error.to_string()))?;
    atomic::write(&half.join(ABOUT), &text, 0o600)?;
    rename(&half, &taking.folder.join(name.as_str()))
}

/// Gives up a snapshot that was begun.
pub fn abandon(taking: &Taking) {
    // The next operation on the snapshots removes files that are left.
    let _ = fs::remove_dir_all(taking.folder.join(HALF));
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    let folder = to.parent().unwrap_or(Path::new("/"));
    fs::rename(from, to)
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(Error::io(format!("rename {}", from.display())))
}

/// Removes a snapshot.
///
/// # Errors
/// Fails with [`Error::Refused`] if it does not exist, and with [`Error::Io`].
pub fn destroy(zonepath: &Path, name: &Name) -> Result<(), Error> {
    let folder = folder(zonepath);
    let (half, one) = (folder.join(HALF), folder.join(name.as_str()));
    if !one.exists() {
        return Err(Error::Refused(format!("has no snapshot {name}.")));
    }
    remove_tree(&half)?;
    rename(&one, &half)?;
    remove_tree(&half)
}

/// Removes all snapshots of a zone.
///
/// # Errors
/// Fails with [`Error::Io`].
pub fn destroy_all(zonepath: &Path) -> Result<(), Error> {
    remove_tree(&folder(zonepath))
}

fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Removes what killed commands left: an unfinished snapshot, and the former files of a rollback.
fn collect(host: &Host, config: &Config, zonepath: &Path) -> Result<(), Error> {
    remove_tree(&folder(zonepath).join(HALF))?;
    let record = Record::load(zonepath)?;
    let used: BTreeSet<&str> = record.files().collect();
    let mut left: Vec<String> = Vec::new();
    // A disk whose record names another file was rolled back.
    for place in disks::places(host, config) {
        let rolled = record
            .disk(place.id)
            .is_some_and(|disk| disk.file.is_some());
        left.extend(own_name(&place, zonepath).filter(|_| rolled));
    }
    for entry in fs::read_dir(zonepath).into_iter().flatten().flatten() {
        left.extend(
            entry
                .file_name()
                .to_str()
                .filter(|name| is_ours(name))
                .map(str::to_owned),
        );
    }
    for name in left.iter().filter(|name| !used.contains(name.as_str())) {
        match fs::remove_file(zonepath.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io(format!("remove {name}"))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the disks of a halted zone to a snapshot. Disks that were added since, and disks outside
/// the zonepath, stay as they are.
///
/// # Errors
/// Fails with [`Error::Refused`] if the snapshot does not exist or its files cannot be copied. The
/// zone is then unchanged.
pub fn rollback(host: &Host, config: &Config, zonepath: &Path, name: &Name) -> Result<(), Error> {
    let from = folder(zonepath).join(name.as_str());
    if !from.exists() {
        return Err(Error::Refused(format!("has no snapshot {name}.")));
    }
    collect(host, config, zonepath)?;
    let then = about(zonepath, name)?.record;
    let mut record = Record::load(zonepath)?;
    let mut made = Vec::new();
    if let Err(why) = go_back(&then, &mut record, &from, zonepath, &mut made) {
        for path in made {
            let _ = fs::remove_file(path);
        }
        return Err(refused(&why));
    }
    // If this fails, the record on the disk may already name the new files. The next operation removes
    // those files that it does not name.
    record.save(zonepath)?;
    collect(host, config, zonepath)
}

/// Copies the files of a snapshot to new names, and puts the names into the record.
fn go_back(
    then: &Record,
    record: &mut Record,
    from: &Path,
    zonepath: &Path,
    made: &mut Vec<PathBuf>,
) -> Result<(), AnyError> {
    let mut fresh = |file: &str| -> Result<String, AnyError> {
        let name = format!("{TOP}{}", new_uuid()?);
        let path = zonepath.join(&name);
        let target = create(&path)?;
        made.push(path);
        copy_or_share(&File::open(from.join(file))?, &target)?;
        target.sync_all()?;
        Ok(name)
    };
    for disk in &mut record.disks {
        let before = then.disks.iter().find(|one| one.id == disk.id);
        let Some((before, file)) = before.and_then(|one| Some((one, one.file.as_deref()?))) else {
            continue;
        };
        if disk.file.is_none() {
            continue;
        }
        disk.file = Some(fresh(file)?);
        disk.size = before.size;
        disk.format = before.format;
        disk.bases.clone_from(&before.bases);
    }
    if let (Some(now), Some(before)) = (&mut record.nvram, &then.nvram) {
        *now = Nvram {
            file: fresh(&before.file)?,
            ..before.clone()
        };
    }
    for base in record.disks.iter().flat_map(|disk| &disk.bases) {
        let path = zonepath.join(&base.name);
        if !path.exists() {
            made.push(path.clone());
            link_as(&from.join(&base.name), &path)?;
        }
    }
    // An image of the guest's memory fits the former disks only.
    record.boots = record.boots.saturating_add(1);
    File::open(zonepath)?.sync_all()?;
    Ok(())
}

/// Returns a snapshot that has the present disks of a halted zone.
///
/// # Errors
/// Fails if the record, a snapshot or a disk cannot be read.
pub fn unchanged_since(zonepath: &Path) -> Result<Option<Name>, Error> {
    let record = Record::load(zonepath)?;
    let written = written(&record, zonepath)?;
    for one in list(zonepath)?.into_iter().rev() {
        let about = about(zonepath, &one.name)?;
        // The record counts the boots, so a zone that has run since has another one.
        if about.record == record && about.written == written {
            return Ok(Some(one.name));
        }
    }
    Ok(None)
}

/// Returns the time of the last write to each file that the guest can change, in nanoseconds since
/// 1970.
fn written(record: &Record, zonepath: &Path) -> Result<BTreeMap<String, i64>, Error> {
    let time = |file: &str| {
        let meta = fs::metadata(zonepath.join(file)).map_err(Error::io(format!("read {file}")))?;
        let seconds = meta.mtime().saturating_mul(1_000_000_000);
        Ok((file.to_owned(), seconds.saturating_add(meta.mtime_nsec())))
    };
    changing(record).map(time).collect()
}

/// Returns true if files in the zonepath can share their blocks.
#[must_use]
pub fn shares_blocks(zonepath: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, open};
    let file = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        open(zonepath, flags, Mode::RUSR | Mode::WUSR)
    };
    let (Ok(from), Ok(to)) = (file(), file()) else {
        return false;
    };
    rustix::fs::ioctl_ficlone(&to, &from).is_ok()
}

/// Returns the bytes that a snapshot of a halted zone copies; 0 if the copies share their blocks.
///
/// # Errors
/// Fails if the record or a disk cannot be read.
pub fn bytes_to_copy(zonepath: &Path) -> Result<u64, Error> {
    if shares_blocks(zonepath) {
        return Ok(0);
    }
    let mut bytes = 0_u64;
    for file in changing(&Record::load(zonepath)?) {
        let meta = fs::metadata(zonepath.join(file)).map_err(Error::io(format!("read {file}")))?;
        bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
    }
    Ok(bytes)
}

mod space;

pub use space::{Part, Use, bytes_together, parts, usage};

#[cfg(test)]
pub(crate) mod tests;
