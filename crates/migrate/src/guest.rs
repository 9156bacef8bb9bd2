//! Sends the parts of a kernel zone outside its root: the record of the guest, the files of its
//! disks, and its suspend image.
//!
//! Only the blocks of a file that are not zeros are sent. The target reads its written files back
//! and compares digests. The disk files of a running guest are sent as drafts before the guest is
//! suspended. After that only the changed blocks are sent. Disks on shared storage are not sent. Base files of disks never change and are
//! known by their digests, so a base file that a zone of the target has is not sent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::config::machine::KeySource;
use model::{Config, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::Digest;
use storage::sparse::{self, BLOCK_BYTES, Sum};
use vm::Format;

use crate::waiting_guest::{self, NVRAM};
use crate::wire::{Arrange, ArrangeDisk, Frame, Wire};
use control::protocol::LeaveDisk;
use host::{Error, Host};
use kernelzone::disks::Place;
use kernelzone::record::Record;
use kernelzone::shared_disk::{self, Shared, Sign};
use kernelzone::{disks, image};
use platform::kind;
use subject::Subject;
use zone::suspend;

/// The description of a guest, which is sent before any of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cargo {
    pub(super) record: Record,
    /// True if the image of the guest's memory will also be sent.
    pub(super) suspended: bool,
    /// The signs of the disks on shared storage, which are not sent. Sources before this field
    /// refuse such disks.
    #[serde(default)]
    pub(super) shared: Vec<Sign>,
}

/// The purpose of a file that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// A file of a disk, with its name in the zonepath.
    Disk(String),
    /// The image with the memory of the suspended guest.
    Image,
    /// The zone's own key for suspend images.
    Key,
}

/// The description of a file, which is sent before the file's blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) role: Role,
    pub(super) size: u64,
    /// The time of the last write to the file, in nanoseconds since 1970. An image of memory fits
    /// only disks that were not written to since.
    pub(super) written: i64,
    /// True if the guest still writes to the file. The changed blocks are then sent later.
    #[serde(default)]
    pub(super) draft: bool,
}

/// The files of a guest that the source must send.
pub(super) struct Load {
    pub(super) cargo: Cargo,
    files: Vec<(Role, PathBuf)>,
    /// The checksums of the blocks that were sent of each draft, by the path of the file.
    drafts: BTreeMap<PathBuf, Sums>,
    /// The disks on shared storage. Their signs are valid as long as these values live.
    _shared: Vec<Shared>,
}

/// Maps the offset of each block that is not all zeros to the block's checksum.
type Sums = BTreeMap<u64, [u8; 32]>;

impl Load {
    /// Returns the files that a zone must send; `None` for a zone that is not a kernel zone.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if a disk of the guest is outside the zonepath and is not on
    /// shared storage.
    pub(super) fn of(
        host: &Host,
        subject: &Subject,
        config: &Config,
    ) -> Result<Option<Self>, Error> {
        let zonepath = &subject.zonepath;
        let Some(mut record) = kind::of(config).record(zonepath)? else {
            return Ok(None);
        };
        let shared = shared(host, config, &record, zonepath)?;
        note_digests(&mut record, zonepath)?;
        let suspended = suspend::is_suspended(host, &subject.entry, config);
        let files: Vec<(Role, PathBuf)> = record
            .files()
            .map(|name| (Role::Disk(name.to_owned()), zonepath.join(name)))
            .collect();
        let mut load = Self {
            // A running guest will be suspended during the migration.
            cargo: Cargo {
                record,
                suspended: suspended || subject.state == State::Running,
                shared: shared.iter().map(|one| one.sign.clone()).collect(),
            },
            files,
            drafts: BTreeMap::new(),
            _shared: shared,
        };
        if suspended {
            load.add_image(host, config, zonepath);
        }
        Ok(Some(load))
    }

    /// Adds the suspend image of a zone, and the zone's own key, to the files.
    pub(super) fn add_image(&mut self, host: &Host, config: &Config, zonepath: &Path) {
        let Some(path) = image::path(host, config) else {
            return;
        };
        self.files.push((Role::Image, path));
        // A key that the configuration names is not sent: it must exist on the target already.
        if let KeySource::Own(path) = image::key_source(config, zonepath) {
            self.files.push((Role::Key, path));
        }
    }

    /// Removes the files that the target has already from the list of files to send.
    pub(super) fn without(&mut self, have: &[String]) {
        self.files.retain(|(role, _)| match role {
            Role::Disk(name) => !have.contains(name),
            _ => true,
        });
    }

    /// Returns the number of files to send, and the bytes that they occupy on the disk.
    pub(super) fn size(&self) -> (usize, u64) {
        let taken = |path: &PathBuf| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
        let bytes = self.files.iter().map(|(_, path)| taken(path)).sum();
        (self.files.len(), bytes)
    }

    /// Sends all files, or the changes since their drafts. Waits after each file until the target
    /// has written the file.
    pub(super) fn send<R: Read, W: Write>(&self, wire: &mut Wire<R, W>) -> io::Result<()> {
        for (role, path) in &self.files {
            let file = File::open(path)?;
            let head = head(&file, role, false)?;
            wire.say_json(Frame::File, &head)?;
            let mut sum = Sum::new(head.size);
            let mut stream = wire.stream();
            let mut send = |at, block: &[u8]| stream.write_all(&piece(at, block)?);
            match self.drafts.get(path) {
                None => sparse::blocks(&file, head.size, &mut |at, block| {
                    sum.add(at, block);
                    send(at, block)
                })?,
                Some(then) => {
                    let mut sums = then.clone();
                    let mut each = |at, block: &[u8]| {
                        sum.add(at, block);
                        Ok(())
                    };
                    changes(&file, head.size, &mut sums, &mut each, &mut send)?;
                }
            }
            stream.end()?;
            wire.say(Frame::FileDigest, sum.end().to_string().as_bytes())?;
            wire.expect(Frame::Done)?;
        }
        Ok(())
    }

    /// Returns the description of the guest's disks, with which the target prepares a live
    /// migration.
    pub(super) fn arrange(&self, machine: Value) -> io::Result<Arrange> {
        let mut disks = Vec::new();
        for (disk, name) in self.cargo.record.own_disks() {
            let name = Role::Disk(name.to_owned());
            let file = self.files.iter().find(|(role, _)| *role == name);
            // The size is the length of the file, because a guest could fake another image format
            // in the first bytes of a raw disk.
            let size = match (disk.format, file) {
                (Format::Raw, Some((_, path))) => fs::metadata(path)?.len(),
                _ => disk.size,
            };
            disks.push(ArrangeDisk { id: disk.id, size });
        }
        Ok(Arrange { machine, disks })
    }

    /// Returns the disks and the file of firmware variables that zoneadmd mirrors during a live
    /// migration.
    pub(super) fn leaving(&self) -> Vec<LeaveDisk> {
        let record = &self.cargo.record;
        let disks = record.own_disks().map(|(disk, _)| LeaveDisk {
            name: waiting_guest::name(disk.id),
            // A disk with base files is not mirrored as a whole, because its base files are sent as
            // files.
            whole: disk.bases.is_empty(),
        });
        let nvram = record.nvram.iter().map(|_| LeaveDisk {
            name: NVRAM.to_owned(),
            whole: true,
        });
        disks.chain(nvram).collect()
    }

    /// Sends the base files of the disks and removes them from the list of files to send. Also
    /// sends the firmware variables: the target starts its guest with these variables, and receives
    /// them again later.
    pub(super) fn send_bases<R: Read, W: Write>(
        &mut self,
        wire: &mut Wire<R, W>,
    ) -> io::Result<()> {
        let disks = &self.cargo.record.disks;
        let is_base = |(role, _): &(Role, PathBuf)| {
            let mut bases = disks.iter().flat_map(|disk| &disk.bases);
            matches!(role, Role::Disk(name) if bases.any(|base| base.name == *name))
        };
        let nvram = self.cargo.record.nvram.as_ref();
        let is_nvram = |(role, _): &&(Role, PathBuf)| matches!(role, Role::Disk(name) if nvram.is_some_and(|nvram| nvram.file == *name));
        let nvram: Vec<_> = self.files.iter().filter(is_nvram).cloned().collect();
        let files = std::mem::take(&mut self.files);
        let (bases, others) = files.into_iter().partition(is_base);
        self.files = bases;
        self.files.extend(nvram);
        let sent = self.send(wire);
        self.files = others;
        sent
    }

    /// Sends the disk files that the guest writes to, or the changes since the last call. Returns
    /// the number of bytes sent.
    pub(super) fn draft<R: Read, W: Write>(&mut self, wire: &mut Wire<R, W>) -> io::Result<u64> {
        let mut sent = 0;
        for (role, path) in &self.files {
            let file = File::open(path)?;
            let head = head(&file, role, true)?;
            wire.say_json(Frame::File, &head)?;
            let sums = self.drafts.entry(path.clone()).or_default();
            let mut stream = wire.stream();
            let mut send = |at, block: &[u8]| {
                sent += block.len() as u64;
                stream.write_all(&piece(at, block)?)
            };
            changes(&file, head.size, sums, &mut |_, _| Ok(()), &mut send)?;
            stream.end()?;
            wire.expect(Frame::Done)?;
        }
        Ok(sent)
    }
}

fn head(file: &File, role: &Role, draft: bool) -> io::Result<Head> {
    let meta = file.metadata()?;
    let seconds = meta.mtime().saturating_mul(1_000_000_000);
    Ok(Head {
        role: role.clone(),
        size: meta.len(),
        written: seconds.saturating_add(meta.mtime_nsec()),
        draft,
    })
}

/// Returns a block in the form in which it is sent: offset, length, data.
fn piece(at: u64, block: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(block.len()).map_err(io::Error::other)?;
    let mut piece = Vec::with_capacity(12 + block.len());
    piece.extend(at.to_be_bytes());
    piece.extend(length.to_be_bytes());
    piece.extend(block);
    Ok(piece)
}

/// Calls `each` with all blocks of a file that are not zeros. Calls `new` with the blocks whose
/// checksum differs from `sums`, including blocks that became zeros. Updates `sums` to the present
/// state of the file.
fn changes(
    file: &File,
    size: u64,
    sums: &mut Sums,
    each: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    new: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut now = Sums::new();
    sparse::blocks(file, size, &mut |at, block| {
        each(at, block)?;
        let sum = sparse::sum(block);
        if sums.get(&at) != Some(&sum) {
            new(at, block)?;
        }
        now.insert(at, sum);
        Ok(())
    })?;
    // The following blocks were sent earlier and are zeros now.
    let zeros = [0; BLOCK_BYTES];
    for at in sums.keys().filter(|at| !now.contains_key(at)) {
        let left = usize::try_from(size.saturating_sub(*at)).unwrap_or(BLOCK_BYTES);
        if left > 0 {
            new(*at, &zeros[..left.min(BLOCK_BYTES)])?;
        }
    }
    *sums = now;
    Ok(())
}

/// Returns the disks outside the zonepath, which must be on shared storage. They are not sent, and
/// the other host may have other data at the same path.
fn shared(
    host: &Host,
    config: &Config,
    record: &Record,
    zonepath: &Path,
) -> Result<Vec<Shared>, Error> {
    let mut shared = Vec::new();
    for place in disks::places(host, config) {
        let is_own = disks::is_own(&place, zonepath);
        let known = record.disk(place.id);
        let has_file = known.is_some_and(|disk| disk.file.is_some());
        match (is_own, has_file) {
            (true, true) => {}
            (false, false) => shared.push(shared_disk::sign(&place)?),
            (true, false) => {
                return Err(Error::Refused(format!(
                    "its disk {} is {}, which is not the disk that it was installed with: boot the zone first.",
                    place.id,
                    place.path.display()
                )));
            }
            (false, true) => return Err(moved(&place)),
        }
    }
    Ok(shared)
}

/// Returns the refusal of a disk outside the zonepath that the record has as a file in it.
fn moved(place: &Place) -> Error {
    Error::Refused(format!(
        "its disk {} is {}, outside of its zonepath, and the zone was installed with a file in its zonepath: set the storage of the device back to that file. If the disk was moved, and all disks are outside: halt the zone, move the old file away, and give 'zoneadm uninstall --shared-disks' and 'zoneadm attach --take-over'.",
        place.id,
        place.path.display()
    ))
}

/// Computes the missing digests of base files and stores them in the record.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn changed_blocks_bring_the_draft_up_to_date() {
        let (file, draft) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let block = BLOCK_BYTES as u64;
        let mut sums = Sums::new();
        // Returns the offsets of the blocks that were sent.
        let mut send = |size: u64| {
            file.set_len(size).unwrap();
            draft.set_len(size).unwrap();
            let (mut sent, mut sum) = (Vec::new(), Sum::new(size));
            let mut each = |at, block: &[u8]| {
                sum.add(at, block);
                Ok(())
            };
            let mut new = |at, block: &[u8]| {
                sent.push(at);
                draft.write_all_at(block, at)
            };
            changes(&file, size, &mut sums, &mut each, &mut new).unwrap();
            let digest = Digest::of_blocks(&draft).unwrap();
            assert_eq!(digest, Digest::of_blocks(&file).unwrap());
            assert_eq!(digest, sum.end());
            sent
        };
        file.write_all_at(b"a", 0).unwrap();
        file.write_all_at(b"b", 2 * block).unwrap();
        file.write_all_at(b"c", 5 * block).unwrap();
        assert_eq!(send(5 * block + 100), [0, 2 * block, 5 * block]);
        assert_eq!(send(5 * block + 100), [0; 0]);
        // Block 0 changes, block 2 becomes zeros, and block 3 is new. Block 5, the last block,
        // becomes longer.
        file.write_all_at(b"x", 7).unwrap();
        file.write_all_at(&[0], 2 * block).unwrap();
        file.write_all_at(b"d", 3 * block).unwrap();
        assert_eq!(send(6 * block), [0, 3 * block, 5 * block, 2 * block]);
        assert_eq!(send(block), [0; 0]);
        assert_eq!(send(6 * block), [0; 0]);
    }
}
