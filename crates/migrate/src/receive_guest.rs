//! Receives the files of a guest on the target.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use model::Config;
use storage::Digest;
use storage::sparse::BLOCK_BYTES;
use store::index::Index;
use vm::Format;

use crate::guest::{Cargo, Head, Role};
use crate::wire::{Arrange, Frame, Wire, plain};
use host::{Error, Host, flatten};
use kernelzone::record::{Disk, Record};
use kernelzone::{clone, disks, image, shared_disk};

/// The files of a guest that the target still waits for.
#[derive(Debug)]
pub(super) struct Unloading {
    record: Record,
    zonepath: PathBuf,
    /// The disk files, and the file of firmware variables, that have not arrived completely.
    lacks: Vec<String>,
    /// The missing files of which a draft has arrived. The changes to the draft must follow.
    drafts: Vec<String>,
    /// The files of disks that were made for a live migration.
    made: Vec<String>,
    /// The path of the suspend image, until the image is complete.
    image: Option<PathBuf>,
    key: PathBuf,
    /// The path of the suspend image of a guest with disks on shared storage.
    image_of_shared: Option<PathBuf>,
    /// True if a file at the path of the image may be the unfinished image of a killed `receive`.
    again: bool,
}

impl Unloading {
    /// Checks the files that the source has announced.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if a disk has no device in this host's configuration of the
    /// zone.
    pub(super) fn new(
        host: &Host,
        config: &Config,
        zonepath: &Path,
        cargo: &Cargo,
        again: bool,
    ) -> Result<Self, Error> {
        let record = cargo.record.clone();
        record
            .check()
            .map_err(|error| Error::Refused(error.to_string()))?;
        check_disks(host, config, zonepath, cargo)?;
        let lacks: Vec<String> = record.files().map(str::to_owned).collect();
        let path = image::path(host, config).filter(|_| cargo.suspended);
        if cargo.suspended && path.is_none() {
            return Err(Error::Refused(
                "the configuration has no path for the image of the suspended zone: add the resource suspend."
                    .to_owned(),
            ));
        }
        if let Some(path) = path.as_ref().filter(|path| !again && image::exists(path)) {
            return Err(Error::Refused(format!(
                "{} is there already.",
                path.display()
            )));
        }
        let image_of_shared = path.clone().filter(|_| !cargo.shared.is_empty());
        Ok(Self {
            record,
            zonepath: zonepath.to_owned(),
            lacks,
            drafts: Vec::new(),
            made: Vec::new(),
            image: path,
            key: image::own_key_path(zonepath),
            image_of_shared,
            again,
        })
    }

    /// Returns true if a guest with disks on shared storage may have run here from its image, which
    /// is removed before the guest runs. The image on the source does not fit the disks any more.
    pub(super) fn has_run_on_shared_disks(&self) -> bool {
        let image = self.image_of_shared.as_ref();
        image.is_some_and(|path| !image::exists(path))
    }

    /// Writes the record, and links the base files of disks that other zones of this host have.
    /// Returns the names of these base files.
    pub(super) fn begin(&mut self, host: &Host) -> Result<Vec<String>, Error> {
        self.record.arrived().save(&self.zonepath)?;
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

    /// Receives a file, of which only the description `head` has been read.
    pub(super) fn take<R: Read, W: Write>(
        &mut self,
        wire: &mut Wire<R, W>,
        head: &Head,
    ) -> Result<(), Error> {
        let odd = || Error::Refused("was sent a file that it does not know.".to_owned());
        if head.size > vm::image::MAX_DISK_BYTES {
            return Err(odd());
        }
        let path = match &head.role {
            Role::Disk(name) => {
                let at = self.lacks.iter().position(|lacking| lacking == name);
                let at = at.ok_or_else(odd)?;
                let path = self.zonepath.join(&self.lacks[at]);
                if !head.draft {
                    self.lacks.swap_remove(at);
                }
                path
            }
            _ if head.draft => return Err(odd()),
            Role::Image => self.image.take().ok_or_else(odd)?,
            Role::Key => self.key.clone(),
        };
        let begun = matches!(&head.role, Role::Disk(name) if self.drafts.contains(name));
        let how = match (begun, head.role == Role::Image && self.again) {
            (true, _) => How::Goes,
            (_, true) => How::Replaces,
            _ => How::New,
        };
        let (file, found) = receive(wire, head, &path, how)?;
        if head.draft {
            if let (Role::Disk(name), false) = (&head.role, begun) {
                self.drafts.push(name.clone());
            }
            return Ok(());
        }
        if let (Role::Disk(name), Some(found)) = (&head.role, found) {
            // Later migrations of other zones trust the digest of this file in the record.
            let mut bases = self.record.disks.iter().flat_map(|disk| &disk.bases);
            let said = bases.find(|base| base.name == *name);
            let said = said.and_then(|base| base.digest.as_deref());
            if said.is_some_and(|said| said.parse() != Ok(found)) {
                return Err(Error::Refused(format!(
                    "{name} is not the file that its record tells of."
                )));
            }
        }
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

    /// Makes the empty files of the disks for a live migration.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the disks are not those that the source announced before.
    pub(super) fn make_disks(&mut self, arrange: &Arrange) -> Result<(), Error> {
        let odd = || Error::Refused("was told of disks that it does not know.".to_owned());
        let own: Vec<_> = self.record.own_disks().collect();
        let ids = own.iter().map(|(disk, _)| disk.id);
        if !ids.eq(arrange.disks.iter().map(|disk| disk.id)) {
            return Err(odd());
        }
        for ((disk, name), arranged) in own.into_iter().zip(&arrange.disks) {
            if !self.lacks.iter().any(|lacking| lacking == name)
                || arranged.size > vm::image::MAX_DISK_BYTES
            {
                return Err(odd());
            }
            let path = self.zonepath.join(name);
            let mut options = fs::OpenOptions::new();
            options.write(true).mode(0o600);
            match self.again {
                true => options.create(true).truncate(true),
                false => options.create_new(true),
            };
            let fail = || Error::io(format!("write {}", path.display()));
            let mut file = options.open(&path).map_err(fail())?;
            self.made.push(name.to_owned());
            match disk.format {
                Format::Raw => file.set_len(arranged.size).map_err(fail())?,
                Format::Qcow2 => {
                    let empty = vm::overlay::empty(arranged.size)
                        .map_err(|error| Error::Refused(format!("{error}.")))?;
                    file.write_all(&empty).map_err(fail())?;
                }
            }
            file.sync_all().map_err(fail())?;
        }
        if let Some(nvram) = &self.record.nvram {
            // The source has sent the firmware variables as a file. The guest writes to this file
            // from now on, so the source must send it again if the live migration is cancelled.
            let name = nvram.file.clone();
            if self.lacks.contains(&name) {
                return Err(Error::Refused(format!("{name} was not sent.")));
            }
            self.made.push(name.clone());
            self.lacks.push(name);
        }
        match self.lacks.iter().find(|name| !self.made.contains(name)) {
            Some(name) => Err(Error::Refused(format!("{name} was not sent."))),
            None => self.sync(),
        }
    }

    /// Removes the files of disks that were made for a live migration.
    pub(super) fn forget_disks(&mut self) -> Result<(), Error> {
        for name in self.made.drain(..) {
            let path = self.zonepath.join(name);
            fs::remove_file(&path).map_err(Error::io(format!("remove {}", path.display())))?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        let path = &self.zonepath;
        let synced = File::open(path).and_then(|folder| folder.sync_all());
        synced.map_err(Error::io(format!("write {}", path.display())))
    }

    /// Fails if a file is missing. Otherwise all files are on stable storage afterwards.
    pub(super) fn finish(&self) -> Result<(), Error> {
        if let Some(name) = self.lacks.first() {
            return Err(Error::Refused(format!("{name} was not sent.")));
        }
        if self.image.is_some() {
            return Err(Error::Refused("no image was sent.".to_owned()));
        }
        self.sync()
    }
}

/// Checks that this host has a place for each disk of the guest: a file in the zonepath for a disk
/// that is sent, and the same storage as the source for a disk that is not.
///
/// # Errors
/// Fails with [`Error::Refused`] if this is not the case.
pub(super) fn check_disks(
    host: &Host,
    config: &Config,
    zonepath: &Path,
    cargo: &Cargo,
) -> Result<(), Error> {
    let places = disks::places(host, config);
    let own = cargo.record.own_disks().map(|(disk, _)| disk.id);
    for id in own {
        let place = places.iter().find(|place| place.id == id);
        if !place.is_some_and(|place| disks::is_own(place, zonepath)) {
            return Err(Error::Refused(format!(
                "no device of the zone stores disk {id} in its zonepath: add a device with this id whose storage is a file there.",
            )));
        }
    }
    for sign in &cargo.shared {
        let place = places.iter().find(|place| place.id == sign.id);
        match place.filter(|place| !disks::is_own(place, zonepath)) {
            Some(place) => shared_disk::check(place, sign)?,
            None => {
                return Err(Error::Refused(format!(
                    "no device of the zone is disk {} outside its zonepath: add a device with this id whose storage is the shared storage.",
                    sign.id
                )));
            }
        }
    }
    // A disk without a sign is not known to be the source's.
    let elsewhere = places
        .iter()
        .filter(|place| !disks::is_own(place, zonepath))
        .find(|place| cargo.shared.iter().all(|sign| sign.id != place.id));
    match elsewhere {
        None => Ok(()),
        Some(place) => Err(Error::Refused(format!(
            "its disk {} is {} here, outside the zonepath, and the source has no such disk.",
            place.id,
            place.path.display()
        ))),
    }
}

/// Returns a base file with this digest from an installed zone of this host; `None` if no zone has
/// such a file.
fn known(host: &Host, digest: &str) -> Result<Option<PathBuf>, Error> {
    let index = Index::load(&host.root)?;
    let installed = index
        .entries()
        .iter()
        .filter(|entry| entry.state == model::State::Installed);
    for entry in installed {
        let zonepath = host.root.path(&entry.zonepath);
        // Most zones are not kernel zones and have no record.
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

/// The expected state of the path of a received file.
#[derive(Clone, Copy, Debug)]
enum How {
    /// No file exists at the path.
    New,
    /// The path may contain the file of an earlier, interrupted migration.
    Replaces,
    /// A draft of the file exists at the path.
    Goes,
}

/// Writes the received blocks to a file. If the file is not a draft, compares its digest with the
/// digest from the source. Returns the file, and its digest if it is not a draft.
fn receive<R: Read, W: Write>(
    wire: &mut Wire<R, W>,
    head: &Head,
    path: &Path,
    how: How,
) -> Result<(File, Option<Digest>), Error> {
    let fail = || Error::io(format!("write {}", path.display()));
    let lost = |error| Error::Io("hear from the source".to_owned(), error);
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match how {
        How::New => options.create_new(true),
        How::Replaces => options.create(true).truncate(true),
        How::Goes => &mut options,
    };
    let file = options.open(path).map_err(fail())?;
    file.set_len(head.size).map_err(fail())?;
    let mut incoming = wire.incoming();
    let mut block = vec![0; BLOCK_BYTES];
    while let Some((at, length)) = next(&mut incoming).map_err(lost)? {
        let end = at.checked_add(length as u64);
        if length > BLOCK_BYTES || end.is_none_or(|end| end > head.size) {
            return Err(lost(io::Error::other("a block that is not in the file")));
        }
        incoming.read_exact(&mut block[..length]).map_err(lost)?;
        file.write_all_at(&block[..length], at).map_err(fail())?;
    }
    incoming.finish().map_err(lost)?;
    // Blocks that are written to the disk now cost no time later, when the guest is paused.
    file.sync_all().map_err(fail())?;
    if head.draft {
        return Ok((file, None));
    }
    let wanted = wire.expect(Frame::FileDigest).map_err(lost)?;
    let found = Digest::of_blocks(&file).map_err(Error::io(format!("read {}", path.display())))?;
    if String::from_utf8_lossy(&wanted).parse() != Ok(found) {
        return Err(Error::Refused(format!(
            "the received {} differs from the sent one: its digest is {found}, not {}.",
            path.display(),
            plain(&wanted)
        )));
    }
    let written = u64::try_from(head.written).unwrap_or(0);
    let written = UNIX_EPOCH + Duration::from_nanos(written);
    file.set_modified(written)
        .and_then(|()| file.sync_all())
        .map_err(fail())?;
    Ok((file, Some(found)))
}

/// Returns the offset and length of the next block; `None` at the end.
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

#[cfg(test)]
mod tests {
    use super::*;
    use kernelzone::record::Start;

    #[test]
    fn a_guest_that_has_run_on_shared_disks_does_not_return_to_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let version = vm::model::Version {
            major: 8,
            minor: 2,
            micro: 2,
        };
        let mut machine = Unloading {
            record: Record {
                model: vm::Model::of_version(&version),
                start: Start::Firmware,
                disks: Vec::new(),
                nvram: None,
                ports: vm::machine::PORTS,
                room: None,
                cards: None,
                boots: 0,
            },
            zonepath: folder.path().to_owned(),
            lacks: Vec::new(),
            drafts: Vec::new(),
            made: Vec::new(),
            image: None,
            key: folder.path().join("key"),
            image_of_shared: Some(image.clone()),
            again: false,
        };
        fs::write(&image, "memory").unwrap();
        assert!(!machine.has_run_on_shared_disks());
        fs::remove_file(&image).unwrap();
        assert!(machine.has_run_on_shared_disks());
        // The source has the disks of this guest as its image knows them.
        machine.image_of_shared = None;
        assert!(!machine.has_run_on_shared_disks());
    }
}
