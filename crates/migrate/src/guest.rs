//! Sends the parts of a kernel zone beside its root: the record of its machine, the files of its
//! disks, and its suspend image.
//!
//! A file goes as its blocks that are not zeros. The target reads its written files back, and
//! compares digests. Of a machine that runs the files of its disks go before it is suspended, as
//! drafts, and then the blocks that are others by then. Files that disks stand on never change, so
//! they are known by their digests: one that a zone of the target has is not sent.

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
use kernelzone::record::Record;
use kernelzone::{disks, image};
use platform::kind;
use subject::Subject;
use zone::suspend;

/// The description of a machine that is sent before anything of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cargo {
    pub(super) record: Record,
    /// An image of its memory comes along.
    pub(super) suspended: bool,
}

/// The role of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// A file of a disk, by its name in the zonepath.
    Disk(String),
    /// The memory of the suspended machine.
    Image,
    /// The zone's key for such images.
    Key,
}

/// The description of a file that is sent before its blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) role: Role,
    pub(super) size: u64,
    /// The time of its last write, in nanoseconds since 1970: an image of memory fits only disks
    /// that were not written to since.
    pub(super) written: i64,
    /// The machine writes to it: the changes follow later.
    #[serde(default)]
    pub(super) draft: bool,
}

/// The files that the source has to send.
pub(super) struct Load {
    pub(super) cargo: Cargo,
    files: Vec<(Role, PathBuf)>,
    /// The checksums of blocks that were sent of files that are written to, by their names.
    drafts: BTreeMap<PathBuf, Sums>,
}

/// The sum of each block of a file that is not all zeros, by where it begins.
type Sums = BTreeMap<u64, [u8; 32]>;

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
        let zonepath = &subject.zonepath;
        let Some(mut record) = kind::of(config).record(zonepath)? else {
            return Ok(None);
        };
        refuse_elsewhere(host, config, &record, zonepath)?;
        note_digests(&mut record, zonepath)?;
        let suspended = suspend::is_suspended(host, &subject.entry, config);
        let files: Vec<(Role, PathBuf)> = record
            .files()
            .map(|name| (Role::Disk(name.to_owned()), zonepath.join(name)))
            .collect();
        let mut load = Self {
            // One that runs is suspended on its way.
            cargo: Cargo {
                record,
                suspended: suspended || subject.state == State::Running,
            },
            files,
            drafts: BTreeMap::new(),
        };
        if suspended {
            load.add_image(host, config, zonepath);
        }
        Ok(Some(load))
    }

    /// Adds the image of a zone that is suspended.
    pub(super) fn add_image(&mut self, host: &Host, config: &Config, zonepath: &Path) {
        let Some(path) = image::path(host, config) else {
            return;
        };
        self.files.push((Role::Image, path));
        // A key that the configuration names must exist on the target already.
        if let KeySource::Own(path) = image::key_source(config, zonepath) {
            self.files.push((Role::Key, path));
        }
    }

    /// Skips the files that the target has.
    pub(super) fn without(&mut self, have: &[String]) {
        self.files.retain(|(role, _)| match role {
            Role::Disk(name) => !have.contains(name),
            _ => true,
        });
    }

    /// Returns the number of files, and their size on the disk.
    pub(super) fn size(&self) -> (usize, u64) {
        let taken = |path: &PathBuf| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
        let bytes = self.files.iter().map(|(_, path)| taken(path)).sum();
        (self.files.len(), bytes)
    }

    /// Sends all of them, or the changes to them; waits until the target has each.
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

    /// Returns the description of the disks of a machine that comes while it runs, for the target.
    pub(super) fn arrange(&self, machine: Value) -> io::Result<Arrange> {
        let mut disks = Vec::new();
        for disk in &self.cargo.record.disks {
            let name = disk.file.as_ref().map(|name| Role::Disk(name.clone()));
            let file = self
                .files
                .iter()
                .find(|(role, _)| Some(role) == name.as_ref());
            // The guest decides about the first bytes of a raw disk.
            let size = match (disk.format, file) {
                (Format::Raw, Some((_, path))) => fs::metadata(path)?.len(),
                _ => disk.size,
            };
            disks.push(ArrangeDisk { id: disk.id, size });
        }
        Ok(Arrange { machine, disks })
    }

    /// Returns the disks and the firmware's variables that leave while the machine runs, for
    /// zoneadmd.
    pub(super) fn leaving(&self) -> Vec<LeaveDisk> {
        let record = &self.cargo.record;
        let disks = record.disks.iter().map(|disk| LeaveDisk {
            name: waiting_guest::name(disk.id),
            // Its base is sent as a file.
            whole: disk.bases.is_empty(),
        });
        let nvram = record.nvram.iter().map(|_| LeaveDisk {
            name: NVRAM.to_owned(),
            whole: true,
        });
        disks.chain(nvram).collect()
    }

    /// Sends the files that never change, and takes them off the list of files to send. Also sends
    /// the variables of the firmware: the target starts its machine with them, and gets them again
    /// later.
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

    /// Sends the files of disks that the machine writes to, or the changes to them. Returns the
    /// number of bytes sent.
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

/// A block as it is sent: where it begins, how long it is, and that.
fn piece(at: u64, block: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(block.len()).map_err(io::Error::other)?;
    let mut piece = Vec::with_capacity(12 + block.len());
    piece.extend(at.to_be_bytes());
    piece.extend(length.to_be_bytes());
    piece.extend(block);
    Ok(piece)
}

/// Gives `each` all blocks of a file that are not zeros, and `new` those that are not as
/// `sums` has them, also zeros; `sums` is as the file is afterwards.
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
    // Blocks that became zeros.
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

/// Disks elsewhere are not sent: the other host may have other data at the same path.
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
        // Another, zeros by now, and a new one; the last is longer.
        file.write_all_at(b"x", 7).unwrap();
        file.write_all_at(&[0], 2 * block).unwrap();
        file.write_all_at(b"d", 3 * block).unwrap();
        assert_eq!(send(6 * block), [0, 3 * block, 5 * block, 2 * block]);
        assert_eq!(send(block), [0; 0]);
        assert_eq!(send(6 * block), [0; 0]);
    }
}
