//! What a kernel zone has beside its root, on its way: the record of its machine, the files
//! of its disks, and what it was suspended to.
//!
//! A file goes as its blocks that are not zeros. The target reads back what it has written,
//! and compares digests. Files that disks stand on never change, so they are known by their
//! digests: one that a zone of the target has is not sent.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use model::Config;
use model::config::machine::KeySource;
use serde::{Deserialize, Serialize};
use storage::Digest;
use storage::sparse::{self, BLOCK, Sum};
use store::index::Index;
use vm::Format;

use super::wire::{Wire, plain};
use crate::machine::record::{Disk, Record};
use crate::machine::{self, clone, disks, image};
use crate::subject::Subject;
use crate::{Error, Host, flatten, suspend};

/// What is said of a machine before anything of it is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cargo {
    pub(super) record: Record,
    /// An image of its memory comes along.
    pub(super) suspended: bool,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// One of a disk, by its name in the zonepath.
    Disk(String),
    /// The memory of the suspended machine.
    Image,
    /// The zone's key for such images.
    Key,
}

/// What is said of a file before its blocks come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) role: Role,
    size: u64,
    /// When it was written last, in nanoseconds since 1970: an image of memory fits only
    /// disks that nobody has written to since.
    written: i64,
}

/// What the source has to send.
pub(super) struct Load {
    pub(super) cargo: Cargo,
    files: Vec<(Role, PathBuf)>,
}

impl Load {
    /// That of a zone; nothing for one that is no machine.
    ///
    /// # Errors
    /// [`Error::Refused`] for a machine that cannot go as a whole.
    pub(super) fn of(
        host: &Host,
        subject: &Subject,
        config: &Config,
    ) -> Result<Option<Self>, Error> {
        if !machine::is_machine(config) {
            return Ok(None);
        }
        let zonepath = &subject.zonepath;
        let mut record = Record::load(zonepath)?;
        refuse_elsewhere(host, config, &record, zonepath)?;
        note_digests(&mut record, zonepath)?;
        let suspended = suspend::is_suspended(host, &subject.entry, config);
        let mut files: Vec<(Role, PathBuf)> = record
            .files()
            .map(|name| (Role::Disk(name.to_owned()), zonepath.join(name)))
            .collect();
        if let (true, Some(path)) = (suspended, image::path(host, config)) {
            files.push((Role::Image, path));
            // One that the configuration names is the other host's affair.
            if let KeySource::Own(path) = image::key_source(config, zonepath) {
                files.push((Role::Key, path));
            }
        }
        Ok(Some(Self {
            cargo: Cargo { record, suspended },
            files,
        }))
    }

    /// Leaves out what the target has.
    pub(super) fn without(&mut self, have: &[String]) {
        self.files.retain(|(role, _)| match role {
            Role::Disk(name) => !have.contains(name),
            _ => true,
        });
    }

    /// How many files there are, and how much they take on the disk.
    pub(super) fn size(&self) -> (usize, u64) {
        let taken = |path: &PathBuf| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
        let bytes = self.files.iter().map(|(_, path)| taken(path)).sum();
        (self.files.len(), bytes)
    }

    /// Sends all of them; `answer` waits until the target has one.
    pub(super) fn send<R: Read, W: Write>(&self, wire: &mut Wire<R, W>) -> io::Result<()> {
        for (role, path) in &self.files {
            let file = File::open(path)?;
            let meta = file.metadata()?;
            let size = meta.len();
            let seconds = meta.mtime().saturating_mul(1_000_000_000);
            let head = Head {
                role: role.clone(),
                size,
                written: seconds.saturating_add(meta.mtime_nsec()),
            };
            wire.say_json(b'f', &head)?;
            let mut sum = Sum::new(size);
            let mut stream = wire.stream();
            sparse::blocks(&file, size, &mut |at, block| {
                sum.add(at, block);
                let length = u32::try_from(block.len()).map_err(io::Error::other)?;
                let mut piece = Vec::with_capacity(12 + block.len());
                piece.extend(at.to_be_bytes());
                piece.extend(length.to_be_bytes());
                piece.extend(block);
                stream.write_all(&piece)
            })?;
            stream.end()?;
            wire.say(b's', sum.end().to_string().as_bytes())?;
            wire.expect(b'k')?;
        }
        Ok(())
    }
}

/// Disks that lie elsewhere do not go along: nobody knows whether the other host has the
/// same there.
fn refuse_elsewhere(
    host: &Host,
    config: &Config,
    record: &Record,
    zonepath: &Path,
) -> Result<(), Error> {
    for place in disks::places(host, config) {
        let known = record
            .disk(place.id)
            .is_some_and(|disk| disk.file.is_some());
        if !known || !disks::is_own(&place, zonepath) {
            return Err(Error::Refused(format!(
                "its disk {} is {}: only disks that lie in the zonepath go along.",
                place.id,
                place.path.display()
            )));
        }
    }
    Ok(())
}

/// Stores the digests of files that never change.
fn note_digests(record: &mut Record, zonepath: &Path) -> Result<(), Error> {
    let mut new = false;
    for base in record.disks.iter_mut().flat_map(|disk| &mut disk.bases) {
        if base.digest.is_none() {
            let path = zonepath.join(&base.name);
            let digest = File::open(&path).and_then(|file| Digest::of_blocks(&file));
            let digest = digest.map_err(Error::io(format!("read {}", path.display())))?;
            base.digest = Some(digest.to_string());
            new = true;
        }
    }
    match new {
        true => record.save(zonepath),
        false => Ok(()),
    }
}

/// What the target still waits for.
#[derive(Debug)]
pub(super) struct Unloading {
    record: Record,
    zonepath: PathBuf,
    /// Files of disks that are not there yet.
    lacks: Vec<String>,
    /// Where the image of the memory goes to, until it is there.
    image: Option<PathBuf>,
    key: PathBuf,
    /// Whether an image may be what an earlier one left that was killed.
    again: bool,
}

impl Unloading {
    /// Looks at what would come.
    ///
    /// # Errors
    /// [`Error::Refused`] for what has no place here.
    pub(super) fn new(
        host: &Host,
        config: &Config,
        zonepath: &Path,
        cargo: &Cargo,
        again: bool,
    ) -> Result<Self, Error> {
        let record = cargo.record.clone();
        record.check().map_err(Error::Refused)?;
        let places = disks::places(host, config);
        for disk in &record.disks {
            let place = places.iter().find(|place| place.id == disk.id);
            if !place.is_some_and(|place| disks::is_own(place, zonepath)) {
                return Err(Error::Refused(format!(
                    "has no place in its zonepath for disk {}: give the zone a device with this id whose storage is a file there.",
                    disk.id
                )));
            }
        }
        let lacks: Vec<String> = record.files().map(str::to_owned).collect();
        let path = image::path(host, config).filter(|_| cargo.suspended);
        if cargo.suspended && path.is_none() {
            return Err(Error::Refused(
                "has no place for the image of the suspended zone: add the resource suspend."
                    .to_owned(),
            ));
        }
        if let Some(path) = path.as_ref().filter(|path| !again && image::exists(path)) {
            return Err(Error::Refused(format!(
                "{} is there already.",
                path.display()
            )));
        }
        Ok(Self {
            record,
            zonepath: zonepath.to_owned(),
            lacks,
            image: path,
            key: image::own_key_path(zonepath),
            again,
        })
    }

    /// Begins: the record is there, and what other zones have of what disks stand on.
    /// Returns the names of those.
    pub(super) fn begin(&mut self, host: &Host) -> Result<Vec<String>, Error> {
        self.record.save(&self.zonepath)?;
        let mut have = Vec::new();
        for base in self.record.disks.iter().flat_map(|disk| &disk.bases) {
            let Some(found) = base.digest.as_ref().map(|digest| known(host, digest)) else {
                continue;
            };
            if let Some(found) = found? {
                let path = self.zonepath.join(&base.name);
                clone::link_as(&found, &path)
                    .map_err(|error| Error::Refused(format!("{}: {error}", found.display())))?;
                have.push(base.name.clone());
            }
        }
        self.lacks.retain(|name| !have.contains(name));
        Ok(have)
    }

    /// Takes a file: `head` was said, its blocks follow.
    pub(super) fn take<R: Read, W: Write>(
        &mut self,
        wire: &mut Wire<R, W>,
        head: &Head,
    ) -> Result<(), Error> {
        let odd = || Error::Refused("was sent a file that it does not know.".to_owned());
        if head.size > vm::image::LARGEST {
            return Err(odd());
        }
        let path = match &head.role {
            Role::Disk(name) => {
                let at = self.lacks.iter().position(|lacking| lacking == name);
                self.zonepath
                    .join(self.lacks.swap_remove(at.ok_or_else(odd)?))
            }
            Role::Image => self.image.take().ok_or_else(odd)?,
            Role::Key => self.key.clone(),
        };
        let replaces = head.role == Role::Image && self.again;
        let file = receive(wire, head, &path, replaces)?;
        match &head.role {
            Role::Disk(name) if self.is_qcow2(name) => vm::image::inspect(&file, name)
                .map(drop)
                .map_err(|error| Error::Refused(format!("{}.", flatten(&error)))),
            _ => Ok(()),
        }
    }

    fn is_qcow2(&self, name: &str) -> bool {
        let is_it = |disk: &Disk| {
            let top = disk.file.as_deref() == Some(name) && disk.format == Format::Qcow2;
            let mut bases = disk.bases.iter();
            top || bases.any(|base| base.name == name && base.format == Format::Qcow2)
        };
        self.record.disks.iter().any(is_it)
    }

    /// Whether all is there; on the disk for certain, then.
    pub(super) fn finish(&self) -> Result<(), Error> {
        if let Some(name) = self.lacks.first() {
            return Err(Error::Refused(format!("{name} was not sent.")));
        }
        if self.image.is_some() {
            return Err(Error::Refused("no image was sent.".to_owned()));
        }
        let path = &self.zonepath;
        let synced = File::open(path).and_then(|folder| folder.sync_all());
        synced.map_err(Error::io(format!("write {}", path.display())))
    }
}

/// A file with this digest that a disk of some zone here stands on.
fn known(host: &Host, digest: &str) -> Result<Option<PathBuf>, Error> {
    let index = Index::load(&host.root)?;
    let installed = index
        .entries()
        .iter()
        .filter(|entry| entry.state == model::State::Installed);
    for entry in installed {
        let zonepath = host.root.path(&entry.zonepath);
        // Most zones are no machines.
        let Ok(record) = Record::load(&zonepath) else {
            continue;
        };
        let mut bases = record.disks.iter().flat_map(|disk| &disk.bases);
        if let Some(base) = bases.find(|base| base.digest.as_deref() == Some(digest)) {
            return Ok(Some(zonepath.join(&base.name)));
        }
    }
    Ok(None)
}

/// Writes the blocks that come to a file, and compares what is in it then with what was
/// sent.
fn receive<R: Read, W: Write>(
    wire: &mut Wire<R, W>,
    head: &Head,
    path: &Path,
    replaces: bool,
) -> Result<File, Error> {
    let fail = || Error::io(format!("write {}", path.display()));
    let lost = |error| Error::Io("hear from the source".to_owned(), error);
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match replaces {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let file = options.open(path).map_err(fail())?;
    file.set_len(head.size).map_err(fail())?;
    let mut incoming = wire.incoming();
    let mut block = vec![0; BLOCK];
    while let Some((at, length)) = next(&mut incoming).map_err(lost)? {
        let end = at.checked_add(length as u64);
        if length > BLOCK || end.is_none_or(|end| end > head.size) {
            return Err(lost(io::Error::other("a block that is not in the file")));
        }
        incoming.read_exact(&mut block[..length]).map_err(lost)?;
        file.write_all_at(&block[..length], at).map_err(fail())?;
    }
    incoming.finish().map_err(lost)?;
    file.sync_all().map_err(fail())?;
    let wanted = wire.expect(b's').map_err(lost)?;
    let found = Digest::of_blocks(&file).map_err(Error::io(format!("read {}", path.display())))?;
    if String::from_utf8_lossy(&wanted).parse() != Ok(found) {
        return Err(Error::Refused(format!(
            "what came of {} is not what was sent: {found}, not {}.",
            path.display(),
            plain(&wanted)
        )));
    }
    let written = u64::try_from(head.written).unwrap_or(0);
    let written = UNIX_EPOCH + Duration::from_nanos(written);
    file.set_modified(written)
        .and_then(|()| file.sync_all())
        .map_err(fail())?;
    Ok(file)
}

/// Place and length of the next block.
fn next(from: &mut impl Read) -> io::Result<Option<(u64, usize)>> {
    let mut at = [0; 8];
    match from.read(&mut at[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut at[1..])?,
    }
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    Ok(Some((
        u64::from_be_bytes(at),
        u32::from_be_bytes(length) as usize,
    )))
}
