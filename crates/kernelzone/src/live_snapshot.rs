//! Snapshots of the disks of a running kernel zone.
//!
//! On btrfs, and on xfs with reflinks, the snapshot has copies of the disks that share their blocks.
//! They are made while the guest is paused, and the disks stay as they are.
//!
//! On other file systems the guest writes to a new, empty file on top of each disk from the moment of
//! the snapshot on. The former files never change again. The snapshot has a hard link to each of them.
//!
//! | step, in order | a crash after the step leaves |
//! |---|---|
//! | make the new files | files that the next operation removes |
//! | link the disks' files to `.half` | `.half`, which the next operation removes |
//! | **write the record with the new files** | a record that fits the disks: the new files are empty |
//! | QEMU puts the new files on the disks | disks with one more file, and no snapshot |
//! | **rename `.half` to the snapshot's name** | - |
//!
//! The record is written before QEMU uses the new files: otherwise a power failure between the two
//! would lose all that the guest wrote since. A QEMU that did not use them after all writes to the
//! former files, and [`mend`] takes the new files out of the record.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use host::uuid::new_uuid;
use host::{Error, Host};
use model::Config;
use storage::Name;
use vm::Format;
use vm::machine::Part;
use vm::snapshot::Stack;

use crate::clone::{MAX_BASES, link_as};
use crate::disks;
use crate::install::{TOP, copy_or_share};
use crate::kept::{self, Taking};
use crate::new_file::{create, write_new};
use crate::record::{Base, Disk, Record};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A new, empty file for a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The number of the disk.
    pub disk: u32,
    /// The properties of the file.
    pub part: Part,
    /// The path of the file.
    pub path: PathBuf,
}

/// A snapshot of a running zone that is being made.
#[derive(Debug)]
pub struct Live {
    taking: Taking,
    zonepath: PathBuf,
    /// The record with the new files.
    after: Record,
    /// True if the snapshot has copies of the disks that share their blocks.
    shares: bool,
    /// The new files; none if the copies share blocks.
    pub overlays: Vec<Overlay>,
}

/// Begins a snapshot: makes the new files, and links the files of the disks. `stacks` are the disks
/// in the machine. The remains of killed commands are removed first.
///
/// # Errors
/// Fails with [`Error::Refused`] if a snapshot with this name exists, if a disk is not in the
/// zonepath, or if a disk has too many files. No file is left then.
pub fn begin(
    host: &Host,
    config: &Config,
    zonepath: &Path,
    name: &Name,
    stacks: &BTreeMap<u32, Stack>,
) -> Result<Live, Error> {
    let mut before = kept::admit(host, config, zonepath, name)?;
    // A disk that is not in the machine is not part of the moment.
    before.disks.retain(|disk| stacks.contains_key(&disk.id));
    let places = disks::places(host, config);
    for place in places.iter().filter(|place| stacks.contains_key(&place.id)) {
        if before.disk(place.id).is_none() {
            return Err(Error::Refused(format!(
                "disk {} is not in machine.json: reboot the zone first.",
                place.id
            )));
        }
    }
    for disk in &before.disks {
        check(disk, &stacks[&disk.id])?;
    }
    let mut live = Live {
        after: Record::load(zonepath)?,
        taking: Taking::new(zonepath, before),
        zonepath: zonepath.to_owned(),
        shares: false,
        overlays: Vec::new(),
    };
    match live.make(config) {
        Ok(()) => Ok(live),
        Err(why) => {
            live.abandon();
            Err(Error::Refused(why.to_string()))
        }
    }
}

/// Returns the reason if a disk cannot get one more file.
pub(crate) fn why_full(record: &Record, config: &Config) -> Option<String> {
    let mut disks = record.disks.iter();
    if let Some(disk) = disks.find(|disk| disk.bases.len() >= MAX_BASES) {
        return Some(format!(
            "disk {} stands on {MAX_BASES} files already, and each snapshot of the running zone adds one: merge them first (zoneadm merge)",
            disk.id
        ));
    }
    let files = record.disks.iter().map(|disk| disk.bases.len() + 2).sum();
    disks::why_too_many(files, config)
}

/// Checks that QEMU has a disk as the record says.
fn check(disk: &Disk, stack: &Stack) -> Result<(), Error> {
    if disk.bases.len() != stack.below || disk.size != stack.size {
        return Err(Error::Refused(format!(
            "the machine has disk {} with {} files and {} bytes, and machine.json with {} files and {} bytes: run zoneadm apply, or reboot the zone.",
            disk.id,
            stack.below + 1,
            stack.size,
            disk.bases.len() + 1,
            disk.size
        )));
    }
    Ok(())
}

impl Live {
    fn make(&mut self, config: &Config) -> Result<(), AnyError> {
        let half = self.taking.half();
        fs::create_dir_all(&half)?;
        self.shares = self.share()?;
        if !self.shares {
            if let Some(why) = why_full(self.taking.record(), config) {
                return Err(format!("{why}.").into());
            }
            self.stack()?;
        }
        for base in self.taking.record().disks.iter().flat_map(|one| &one.bases) {
            link_as(&self.zonepath.join(&base.name), &half.join(&base.name))?;
        }
        Ok(File::open(&self.zonepath)?.sync_all()?)
    }

    /// Makes the copies that share blocks with the disks. [`Live::copy`] makes them again when the
    /// guest is paused. Returns false, and leaves no file, if the file system cannot share blocks.
    fn share(&mut self) -> Result<bool, AnyError> {
        let half = self.taking.half();
        let files = kept::changing(self.taking.record());
        let paths = |file: &str| (self.zonepath.join(file), half.join(file));
        let pairs: Vec<kept::Pair> = files.map(paths).collect();
        let mut shares = true;
        for (from, to) in &pairs {
            let target = create(to)?;
            shares &= rustix::fs::ioctl_ficlone(&target, File::open(from)?).is_ok();
            if !shares {
                break;
            }
        }
        match shares {
            true => self.taking.pairs = pairs,
            false => pairs.iter().for_each(|(_, to)| {
                // The file may not have been made.
                let _ = fs::remove_file(to);
            }),
        }
        Ok(shares)
    }

    /// Makes the new file of each disk, and links the former file.
    fn stack(&mut self) -> Result<(), AnyError> {
        let half = self.taking.half();
        for disk in &self.taking.record().disks {
            let file = disk.file.as_deref().ok_or("a disk has no file")?;
            // This is a link and never a copy: the guest still writes to the file.
            fs::hard_link(self.zonepath.join(file), half.join(file))?;
            let name = format!("{TOP}{}", new_uuid()?);
            let path = self.zonepath.join(&name);
            write_new(&path, &vm::overlay::empty(disk.size)?)?;
            self.overlays.push(Overlay {
                disk: disk.id,
                part: disks::part(&path, Format::Qcow2)?,
                path,
            });
            let sealed = Base {
                name: file.to_owned(),
                format: disk.format,
                digest: None,
            };
            let after = self.after.disks.iter_mut().find(|one| one.id == disk.id);
            let after = after.ok_or("a disk is not in the record")?;
            after.bases.insert(0, sealed);
            after.file = Some(name);
            after.format = Format::Qcow2;
        }
        if let Some(nvram) = &self.taking.record().nvram {
            let to = half.join(&nvram.file);
            create(&to)?;
            let pair = (self.zonepath.join(&nvram.file), to);
            self.taking.pairs.push(pair);
        }
        Ok(())
    }

    /// Writes the record with the new files, if there are any.
    ///
    /// # Errors
    /// Fails as [`Record::save`] does.
    pub fn write_record(&self) -> Result<(), Error> {
        match self.overlays.is_empty() {
            true => Ok(()),
            false => self.after.save(&self.zonepath),
        }
    }

    /// Copies the files without a new file on top: the variables of the UEFI firmware, and the disks
    /// if the copies share blocks. The guest must be paused.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`], for example if the file system is full.
    pub fn copy(&self) -> Result<(), Error> {
        for (from, to) in &self.taking.pairs {
            let copied = || -> Result<(), AnyError> {
                let target = fs::OpenOptions::new().write(true).open(to)?;
                let source = File::open(from)?;
                // The guest must not stand still while a whole disk is copied.
                match self.shares {
                    true => Ok(rustix::fs::ioctl_ficlone(&target, &source)?),
                    false => copy_or_share(&source, &target),
                }
            };
            copied().map_err(|error| Error::Refused(format!("{}: {error}", to.display())))?;
        }
        Ok(())
    }

    /// Completes a snapshot whose new files are on the disks. From then on it exists.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`], [`Error::Io`] or [`Error::Store`] if it cannot be written;
    /// then no snapshot exists.
    pub fn complete(self, name: &Name) -> Result<(), Error> {
        for (_, to) in &self.taking.pairs {
            let synced = File::open(to).and_then(|file| file.sync_all());
            synced.map_err(Error::io(format!("write {}", to.display())))?;
        }
        kept::complete(self.taking, name)
    }

    /// Gives up a snapshot. The new files stay if the record names them: see [`mend`].
    pub fn abandon(&self) {
        kept::abandon(&self.taking);
        let record = Record::load(&self.zonepath);
        let named = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            // If the record cannot be read, it may name the file.
            let Ok(record) = &record else { return true };
            record.files().any(|file| Some(file) == name)
        };
        for one in self.overlays.iter().filter(|one| !named(&one.path)) {
            // The next operation on the snapshots removes a file that is left.
            let _ = fs::remove_file(&one.path);
        }
    }
}

/// The least number of files below a disk that are merged. With fewer, a merged disk could be taken
/// for one whose snapshot failed.
pub const LEAST_MERGED: usize = 3;

/// Takes files out of the record that QEMU does not use: because a snapshot failed after the record
/// was written, or because QEMU has merged the files of a disk ([`vm::merge`]). `stacks` are the disks
/// in the machine. Returns true if the record has changed.
///
/// # Errors
/// Fails as [`Record::load`] and [`Record::save`] do. The record is then as before.
pub fn mend(zonepath: &Path, stacks: &BTreeMap<u32, Stack>) -> Result<bool, Error> {
    let mut record = Record::load(zonepath)?;
    let mut unused = Vec::new();
    for disk in &mut record.disks {
        let Some(stack) = stacks.get(&disk.id) else {
            continue;
        };
        if stack.below == 1 && disk.bases.len() >= LEAST_MERGED {
            let lowest = disk.bases.split_off(disk.bases.len() - 1);
            let merged = std::mem::replace(&mut disk.bases, lowest);
            unused.extend(merged.into_iter().map(|base| base.name));
            continue;
        }
        let Some(file) = disk.file.clone().filter(|name| name.starts_with(TOP)) else {
            continue;
        };
        // A file with data is never given up, even if QEMU tells that it does not use the file.
        if disk.bases.len() != stack.below + 1 || !is_empty(&zonepath.join(&file), disk.size) {
            continue;
        }
        let former = disk.bases.remove(0);
        disk.file = Some(former.name);
        disk.format = former.format;
        unused.push(file);
    }
    if unused.is_empty() {
        return Ok(false);
    }
    record.save(zonepath)?;
    for file in unused {
        // The next operation on the snapshots removes files that are left.
        let _ = fs::remove_file(zonepath.join(file));
    }
    Ok(true)
}

/// Returns true if a file is an overlay to which no guest has written.
fn is_empty(path: &Path, size: u64) -> bool {
    let (Ok(empty), Ok(meta)) = (vm::overlay::empty(size), fs::metadata(path)) else {
        return false;
    };
    // The length is compared first, so that no large file is read.
    meta.len() == empty.len() as u64 && fs::read(path).is_ok_and(|content| content == empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::{BASE, name, zone};

    const SIZE: u64 = 1 << 20;

    /// Returns a zone whose disk has the present size.
    fn running() -> (tempfile::TempDir, Host, Config, PathBuf) {
        let (dir, host, config, zonepath) = zone();
        let mut record = Record::load(&zonepath).unwrap();
        record.disks[0].size = SIZE;
        record.save(&zonepath).unwrap();
        (dir, host, config, zonepath)
    }

    fn stacks(below: usize) -> BTreeMap<u32, Stack> {
        let stack = Stack {
            top: "disk0".to_owned(),
            below,
            size: SIZE,
        };
        BTreeMap::from([(0, stack)])
    }

    fn names(zonepath: &Path) -> Vec<String> {
        let snapshots = kept::names(zonepath).unwrap();
        snapshots.iter().map(ToString::to_string).collect()
    }

    /// Returns the names of the files of the disk, from the top to the bottom.
    fn files(zonepath: &Path) -> Vec<String> {
        let record = Record::load(zonepath).unwrap();
        let disk = &record.disks[0];
        let bases = disk.bases.iter().map(|base| base.name.clone());
        disk.file.clone().into_iter().chain(bases).collect()
    }

    /// Returns true, and says so, if the file system of the tests makes copies and no new files.
    fn copies(zonepath: &Path) -> bool {
        let shares = kept::shares_blocks(zonepath);
        if shares {
            println!("skipped: the file system shares blocks");
        }
        shares
    }

    #[test]
    fn a_snapshot_has_the_former_files_and_the_record_one_more() {
        let (_dir, host, config, zonepath) = running();
        if copies(&zonepath) {
            return;
        }
        let live = begin(&host, &config, &zonepath, &name("one"), &stacks(1)).unwrap();
        assert_eq!(files(&zonepath), ["disk0", BASE]);
        live.write_record().unwrap();
        live.copy().unwrap();
        let top = live.overlays[0].path.clone();
        live.complete(&name("one")).unwrap();
        let top_name = top.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(files(&zonepath), [top_name.as_str(), "disk0", BASE]);
        assert_eq!(names(&zonepath), ["one"]);
        let kept = kept::list(&zonepath).unwrap();
        assert_eq!(kept[0].files, 2);
        // The record fits the machine with one more file.
        assert!(!mend(&zonepath, &stacks(2)).unwrap());
        assert!(begin(&host, &config, &zonepath, &name("two"), &stacks(1)).is_err());
        fs::write(&top, "the guest's data").unwrap();
        // A file with data stays, whatever QEMU tells.
        assert!(!mend(&zonepath, &stacks(1)).unwrap());
        kept::rollback(&host, &config, &zonepath, &name("one")).unwrap();
        let back = files(&zonepath);
        assert_eq!(back[1..], [BASE]);
        assert_eq!(
            fs::read_to_string(zonepath.join(&back[0])).unwrap(),
            "first"
        );
        assert!(!top.exists());
    }

    #[test]
    fn a_cut_at_any_step_leaves_disks_with_all_data() {
        for step in 0..=4 {
            let (_dir, host, config, zonepath) = running();
            if copies(&zonepath) {
                return;
            }
            let live = begin(&host, &config, &zonepath, &name("one"), &stacks(1)).unwrap();
            let mut below = 1;
            if step > 0 {
                live.write_record().unwrap();
            }
            if step > 1 {
                below = 2;
                fs::write(&live.overlays[0].path, "new data").unwrap();
            }
            if step > 2 {
                live.copy().unwrap();
            }
            if step > 3 {
                live.complete(&name("one")).unwrap();
            }
            // The next operation finds what the machine has.
            let mended = mend(&zonepath, &stacks(below)).unwrap();
            assert_eq!(mended, step == 1, "step {step}");
            let found = files(&zonepath);
            assert_eq!(found.len(), below + 1, "step {step}");
            assert_eq!(found[below - 1..], ["disk0", BASE], "step {step}");
            let before = names(&zonepath);
            assert_eq!(before.is_empty(), step < 4, "step {step}");
            let next = begin(&host, &config, &zonepath, &name("next"), &stacks(below)).unwrap();
            next.abandon();
            let left = fs::read_dir(&zonepath).unwrap().flatten();
            let left = left.filter(|one| one.file_name().to_string_lossy().starts_with(TOP));
            assert_eq!(left.count(), below - 1, "step {step}");
            assert_eq!(names(&zonepath), before);
        }
    }

    #[test]
    fn the_variables_of_the_firmware_are_copied_while_the_guest_is_paused() {
        let (_dir, host, config, zonepath) = running();
        let mut record = Record::load(&zonepath).unwrap();
        record.nvram = Some(crate::record::Nvram {
            file: "uefi.nvram".to_owned(),
            size: 6,
            keys: None,
        });
        record.save(&zonepath).unwrap();
        let nvram = zonepath.join("uefi.nvram");
        fs::write(&nvram, "before").unwrap();
        let live = begin(&host, &config, &zonepath, &name("one"), &stacks(1)).unwrap();
        fs::write(&nvram, "paused").unwrap();
        live.write_record().unwrap();
        live.copy().unwrap();
        fs::write(&nvram, "later!").unwrap();
        live.complete(&name("one")).unwrap();
        let kept = zonepath.join(kept::FOLDER).join("one").join("uefi.nvram");
        assert_eq!(fs::read_to_string(kept).unwrap(), "paused");
    }

    #[test]
    fn merged_files_leave_the_record() {
        let (_dir, _host, _config, zonepath) = running();
        let mut record = Record::load(&zonepath).unwrap();
        let disk = &mut record.disks[0];
        let between = |name: &str| {
            fs::write(zonepath.join(name), "between").unwrap();
            Base {
                name: name.to_owned(),
                format: Format::Qcow2,
                digest: None,
            }
        };
        disk.bases.insert(0, between("top-b"));
        disk.bases.insert(0, between("top-a"));
        record.save(&zonepath).unwrap();
        // An unfinished merge leaves all files.
        assert!(!mend(&zonepath, &stacks(3)).unwrap());
        assert!(mend(&zonepath, &stacks(1)).unwrap());
        assert_eq!(files(&zonepath), ["disk0", BASE]);
        assert!(!zonepath.join("top-a").exists() && !zonepath.join("top-b").exists());
        assert!(zonepath.join(BASE).exists() && zonepath.join("disk0").exists());
    }

    #[test]
    fn a_disk_with_too_many_files_or_of_another_size_is_refused() {
        let (_dir, host, config, zonepath) = running();
        let mut record = Record::load(&zonepath).unwrap();
        let base = record.disks[0].bases[0].clone();
        record.disks[0].bases = vec![base; MAX_BASES];
        record.save(&zonepath).unwrap();
        let refused = |stacks: &BTreeMap<u32, Stack>| {
            let error = begin(&host, &config, &zonepath, &name("one"), stacks);
            error.unwrap_err().to_string()
        };
        if !copies(&zonepath) {
            let why = refused(&stacks(MAX_BASES));
            assert!(why.contains("stands on 24 files"), "{why}");
        }
        record.disks[0].bases.truncate(1);
        record.disks[0].size = 2 * SIZE;
        record.save(&zonepath).unwrap();
        let why = refused(&stacks(1));
        assert!(why.contains("run zoneadm apply"), "{why}");
        assert_eq!(Record::load(&zonepath).unwrap(), record);
        assert!(!zonepath.join(kept::FOLDER).join(".half").exists());
    }
}
