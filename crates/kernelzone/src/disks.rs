//! Finds and makes the files of a guest's disks.

use std::fs;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::Config;
use model::config::machine::storage_path;
use rustix::fs::{CWD, Mode, OFlags, openat};
use vm::machine::{Disk, Part};
use vm::{Format, Kind};

use crate::new_file::create_or_open;
use crate::record::{self, Record};
use host::{Error, Host};

/// Size in bytes of a new disk if the user gives no size.
pub(crate) const DEFAULT_DISK_BYTES: u64 = 16 << 30;

/// A disk of the configuration, with its path on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the disk.
    pub id: u32,
    /// Position of the disk in the boot order.
    pub boot: Option<u32>,
    /// The file or device to which the guest writes.
    pub path: PathBuf,
    /// The size that the disk must have, in bytes, if the configuration sets one.
    pub size: Option<u64>,
}

impl Place {
    /// Returns the key that orders disks: the zone is installed on the disk with the lowest one, and
    /// starts from it.
    pub(crate) fn order(&self) -> (u32, u32) {
        (self.boot.unwrap_or(u32::MAX), self.id)
    }

    /// Returns the size in bytes of a new, empty disk at this place.
    pub(crate) fn new_size(&self) -> u64 {
        self.size.unwrap_or(DEFAULT_DISK_BYTES)
    }
}

/// Returns the paths of a configuration's disks. Paths in the zonepath are below the alternate
/// root, like the zonepath. Paths of devices and other paths are paths of this host.
pub fn places(host: &Host, config: &Config) -> Vec<Place> {
    let zonepath = config.zonepath();
    let disks = config.machine_disks();
    // Firmware accepts each boot position only once. If two disks have the same priority, the disk
    // with the lower number gets the earlier position.
    let mut order: Vec<(u32, u32)> = disks
        .iter()
        .filter_map(|disk| Some((disk.boot?, disk.id)))
        .collect();
    order.sort_unstable();
    let rank = |id| (0..).zip(&order).find(|(_, one)| one.1 == id);
    disks
        .into_iter()
        .filter_map(|disk| {
            let path = storage_path(&disk.storage)?;
            Some(Place {
                id: disk.id,
                boot: rank(disk.id).map(|(rank, _)| rank),
                path: match path.starts_with(&zonepath) {
                    true => host.root.path(&path),
                    false => path,
                },
                size: disk.size,
            })
        })
        .collect()
}

/// Returns true if a disk is in the zonepath. Disks in the zonepath are made and removed with the
/// zone.
pub fn is_own(place: &Place, zonepath: &Path) -> bool {
    place.path.parent() == Some(zonepath)
}

/// Returns the file name of a disk in the zonepath, or `None` for a disk outside the zonepath.
pub(crate) fn own_name(place: &Place, zonepath: &Path) -> Option<String> {
    is_own(place, zonepath).then(|| {
        let name = place.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    })
}

/// A disk with the paths of its files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The disk as QEMU gets it.
    pub disk: Disk,
    /// The paths of the disk's files: the file that the guest writes to, then the files below it.
    pub paths: Vec<PathBuf>,
}

/// Maximum number of file descriptors that one message passes to an init.
pub const MAX_PASSED: usize = sys::passing::MAX_DESCRIPTORS - 1;

/// Maximum number of files of all disks of a guest. One message passes these files together with
/// the guest's other files.
const MAX_DISK_FILES: usize = MAX_PASSED - 16;

/// Returns the reason if the guest of this configuration cannot have this number of disk files.
pub(crate) fn why_too_many(files: usize, config: &Config) -> Option<String> {
    let most = MAX_DISK_FILES.saturating_sub(config.resources_of("anet").count());
    (files > most).then(|| {
        format!("its disks stand on {files} files, and QEMU is given {most} at the most: install it from the images of its disks (qemu-img convert)")
    })
}

/// Returns the recorded disk at this path. A recorded disk is ignored if the configuration has
/// moved the disk into or out of the zonepath since.
pub(crate) fn known<'a>(
    place: &Place,
    record: &'a Record,
    zonepath: &Path,
) -> Option<&'a record::Disk> {
    let known = record.disk(place.id);
    known.filter(|disk| disk.file.is_some() == is_own(place, zonepath))
}

/// Returns true if a disk was added to the configuration after the zone was installed, and its file
/// must still be made in the zonepath. The file is missing, or it is empty because a crash
/// interrupted its creation.
fn is_to_be_made(place: &Place, record: &Record, zonepath: &Path) -> bool {
    let unknown = is_own(place, zonepath) && known(place, record, zonepath).is_none();
    unknown
        && match fs::symlink_metadata(&place.path) {
            Ok(meta) => meta.is_file() && meta.len() == 0,
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
}

/// Makes the disks in the zonepath that were added to the configuration after the zone was
/// installed. The new disks are empty, like all disks except the first after an install. Returns a
/// sentence for each new disk.
///
/// # Errors
/// Fails with [`Error::Io`] if the file cannot be made, and as [`Record::save`] does.
pub fn make_added(host: &Host, config: &Config, zonepath: &Path) -> Result<Vec<String>, Error> {
    let mut record = Record::load(zonepath)?;
    let mut made = Vec::new();
    for place in places(host, config) {
        if !is_to_be_made(&place, &record, zonepath) {
            continue;
        }
        let shown = place.path.display();
        create_or_open(&place.path)
            .and_then(|file| {
                file.set_len(place.new_size())
                    .and_then(|()| file.sync_all())
            })
            .map_err(Error::io(format!("make the disk {shown}")))?;
        made.push(format!(
            "the disk {shown} was added since the zone was installed, and was made: empty, of {}",
            model::table::short_size(place.new_size())
        ));
        record.disks.retain(|disk| disk.id != place.id);
        record.disks.push(record::Disk {
            id: place.id,
            size: place.new_size(),
            file: own_name(&place, zonepath),
            format: Format::Raw,
            bases: Vec::new(),
            port: None,
        });
    }
    if !made.is_empty() {
        record.save(zonepath)?;
    }
    Ok(made)
}

/// Selects whether [`files`] accepts a disk that [`make_added`] would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The disk is accepted. The plan of a boot shows the disk, and the image of a suspended zone
    /// does not fit a guest with the new disk.
    Planned,
    /// The disk is refused, like any missing file.
    Refused,
}

/// Returns the files of each disk of the guest.
///
/// # Errors
/// Fails with [`Error::Verify`], which names the missing disks.
pub fn files(
    places: &[Place],
    record: &Record,
    zonepath: &Path,
    added: Added,
) -> Result<Vec<Files>, Error> {
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for place in places {
        let planned = added == Added::Planned && is_to_be_made(place, record, zonepath);
        let known = known(place, record, zonepath);
        let bases = known.map_or(&[][..], |disk| &disk.bases);
        let file = known.and_then(|disk| disk.file.as_ref());
        let top = file.map_or_else(|| place.path.clone(), |name| zonepath.join(name));
        let mut paths = vec![top];
        paths.extend(bases.iter().map(|base| zonepath.join(&base.name)));
        let mut formats = vec![known.map_or(Format::Raw, |disk| disk.format)];
        formats.extend(bases.iter().map(|base| base.format));
        let mut parts = Vec::new();
        for (path, format) in paths.iter().zip(formats) {
            match part(path, format) {
                Ok(part) => parts.push(part),
                Err(_) if planned => parts.push(Part {
                    format,
                    block_device: false,
                    direct: false,
                }),
                Err(error) => problems.push(format!(
                    "could not verify device id={}: {}: {error}",
                    place.id,
                    path.display()
                )),
            }
        }
        found.push(Files {
            disk: Disk {
                id: place.id,
                kind: Kind::Disk,
                boot: place.boot,
                read_only: false,
                port: known.and_then(|disk| disk.port),
                parts,
            },
            paths,
        });
    }
    match problems.is_empty() {
        true => Ok(found),
        false => Err(Error::Verify(problems)),
    }
}

/// Adds the CD of an installer after the disks in the boot order. An empty disk cannot start, so
/// the CD starts; after the installation the disk starts.
///
/// # Errors
/// Fails with [`Error::Verify`] if the image of the CD cannot be used. A missing image is no error.
pub(crate) fn add_cd(disks: &mut Vec<Files>, cd: &Path) -> Result<(), Error> {
    let part = match part(cd, Format::Raw) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|error| {
            let problem = format!("could not verify the CD {}: {error}", cd.display());
            Error::Verify(vec![problem])
        })?,
    };
    if let (Some(first), false) = (
        disks.iter().map(|files| files.disk.id).min(),
        disks.iter().any(|files| files.disk.boot.is_some()),
    ) {
        let disk = disks.iter_mut().find(|files| files.disk.id == first);
        disk.into_iter().for_each(|files| files.disk.boot = Some(0));
    }
    let next = |numbers: &mut dyn Iterator<Item = u32>| numbers.max().map_or(0, |most| most + 1);
    let id = next(&mut disks.iter().map(|files| files.disk.id));
    let boot = next(&mut disks.iter().filter_map(|files| files.disk.boot));
    disks.push(Files {
        disk: Disk {
            id,
            kind: Kind::Cd,
            boot: Some(boot),
            read_only: true,
            port: None,
            parts: vec![part],
        },
        paths: vec![cd.to_owned()],
    });
    Ok(())
}

/// Returns a raw disk that the guest cannot write to, behind the given disks.
pub(crate) fn read_only(disks: &[Files], path: &Path) -> Result<Files, Error> {
    let last = disks.iter().map(|files| files.disk.id).max();
    let part = part(path, Format::Raw)
        .map_err(Error::io(format!("look at the disk {}", path.display())))?;
    Ok(Files {
        disk: Disk {
            id: last.map_or(0, |last| last.saturating_add(1)),
            kind: Kind::Disk,
            boot: None,
            read_only: true,
            port: None,
            parts: vec![part],
        },
        paths: vec![path.to_owned()],
    })
}

/// Returns the properties of a disk's file. Fails if the path is neither a file nor a block device.
pub(crate) fn part(path: &Path, format: Format) -> std::io::Result<Part> {
    let kind = fs::symlink_metadata(path)?.file_type();
    // Names of disks below /dev are symbolic links.
    let kind = match kind.is_symlink() && path.starts_with("/dev") {
        true => fs::metadata(path)?.file_type(),
        false => kind,
    };
    let block_device = kind.is_block_device();
    if !block_device && !kind.is_file() {
        return Err(std::io::Error::other("neither a file nor a block device"));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    Ok(Part {
        format,
        block_device,
        // If the file system has no direct I/O (tmpfs), QEMU uses the host's page cache.
        direct: openat(CWD, path, flags, Mode::empty()).is_ok(),
    })
}

/// Opens a disk. Names of disks below /dev are symbolic links; other links are refused.
pub(crate) fn open(path: &Path, write: bool) -> std::io::Result<fs::File> {
    let mut flags = OFlags::NONBLOCK;
    if !path.starts_with("/dev") {
        flags |= OFlags::NOFOLLOW;
    }
    fs::OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)
}

/// Returns the length of a file or block device in bytes. A seek also finds the size of a device.
pub(crate) fn length(path: &Path) -> std::io::Result<u64> {
    open(path, false)?.seek(SeekFrom::End(0))
}
