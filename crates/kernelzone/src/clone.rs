//! Makes the disks of a clone in a short time, whatever the size of the origin's disks.
//!
//! If the file system can share blocks (btrfs, xfs), each file of the clone is such a copy.
//! Otherwise the file that the origin writes to becomes a base file, which never changes again.
//! Each of the two zones gets a hard link to the base file, and a new, empty overlay on it. The
//! origin's record is replaced in one step. No file of the origin changes before that step.

use std::fs::{self, File};
use std::path::Path;

use model::Config;
use vm::Format;

use crate::disks::{self, Place, is_own};
use crate::install::{BASE, TOP, copy_or_share};
use crate::new_file::write_new;
use crate::record::{Base, Disk, Record};
use host::uuid::new_uuid;
use host::{Error, Host};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Maximum number of files below a disk's overlay. Each file makes the first read of a block
/// slower.
pub(crate) const MAX_BASES: usize = 24;

/// Makes the disks, the firmware variables and the record of the clone at `to` from the halted
/// origin at `from`.
pub fn make(host: &Host, config: &Config, from: &Path, to: &Path) -> Result<(), AnyError> {
    let mut origin = Record::load(from)?;
    // If the file system cannot share blocks, each disk of the clone has one base file more than
    // the origin's disk had.
    let files = origin.disks.iter().map(|disk| disk.bases.len() + 2).sum();
    if let Some(why) = disks::why_too_many(files, config) {
        return Err(Error::Refused(format!("the origin cannot be cloned: {why}")).into());
    }
    let places = disks::places(host, config);
    let mut ours = Vec::new();
    for at in 0..origin.disks.len() {
        let disk = &origin.disks[at];
        let place = places.iter().find(|place| place.id == disk.id);
        let Some(place) = place.filter(|place| is_own(place, to)) else {
            return Err(format!(
                "no device of the clone stores disk {} of the origin in the zonepath of the clone: add a device with this id whose storage is a file there",
                disk.id
            )
            .into());
        };
        ours.push(match share(disk, from, place, to)? {
            Some(made) => made,
            None => stand_on(&mut origin, at, from, place, to)?,
        });
    }
    let nvram = crate::uefi::copy(&origin, from, to)?;
    let record = Record {
        nvram,
        model: origin.model,
        start: origin.start,
        disks: ours,
        ports: origin.ports,
        room: origin.room,
        cards: origin.cards,
        boots: 0,
    };
    Ok(record.save(to)?)
}

/// Returns the name of the file to which the guest of the origin writes this disk.
fn top_of(disk: &Disk) -> Result<String, AnyError> {
    Ok(disk
        .file
        .clone()
        .ok_or_else(|| format!("disk {} of the origin is not in its zonepath", disk.id))?)
}

/// Makes a copy of a disk that shares blocks with the origin's disk. Returns `None` if the file
/// system cannot share blocks.
fn share(disk: &Disk, from: &Path, place: &Place, to: &Path) -> Result<Option<Disk>, AnyError> {
    let source = File::open(from.join(top_of(disk)?))?;
    let target = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&place.path)
        .map_err(|error| format!("{}: {error}", place.path.display()))?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
        fs::remove_file(&place.path)?;
        return Ok(None);
    }
    closed(&target)?;
    Ok(Some(Disk {
        file: disks::own_name(place, to),
        bases: link_bases(disk, from, to)?,
        ..disk.clone()
    }))
}

fn closed(file: &File) -> Result<(), AnyError> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.set_permissions(fs::Permissions::from_mode(0o600))?)
}

/// Links each base file of the origin's disk into the zonepath of the clone.
fn link_bases(disk: &Disk, from: &Path, to: &Path) -> Result<Vec<Base>, AnyError> {
    let mut bases = Vec::new();
    for base in &disk.bases {
        bases.push(Base {
            name: link(&from.join(&base.name), to)?,
            format: base.format,
            digest: base.digest.clone(),
        });
    }
    Ok(bases)
}

/// Makes a hard link to a file that never changes, or a copy if the zonepath is on another file
/// system. Returns the name of the link.
fn link(file: &Path, to: &Path) -> Result<String, AnyError> {
    let name = format!("{BASE}{}", new_uuid()?);
    link_as(file, &to.join(&name))?;
    Ok(name)
}

/// Makes a hard link to `file` at `path`, or a copy if `path` is on another file system.
pub fn link_as(file: &Path, path: &Path) -> Result<(), AnyError> {
    match fs::hard_link(file, path) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error()) => {
            let copy = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)?;
            closed(&copy)?;
            copy_or_share(&File::open(file)?, &copy)?;
        }
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    }
    Ok(())
}

/// Turns the origin's disk file into a base file of both zones, and gives each zone an overlay on
/// it.
fn stand_on(
    origin: &mut Record,
    at: usize,
    from: &Path,
    place: &Place,
    to: &Path,
) -> Result<Disk, AnyError> {
    let empty = vm::overlay::empty(origin.disks[at].size)?;
    let disk = &origin.disks[at];
    let top = top_of(disk)?;
    // An overlay that was never written to does not become a base file, because it holds no data.
    let untouched = disk.format == Format::Qcow2
        && !disk.bases.is_empty()
        && fs::metadata(from.join(&top))?.len() == empty.len() as u64;
    if !untouched {
        if disk.bases.len() >= MAX_BASES {
            return Err(Error::Refused(format!(
                "disk {} of the origin stands on {MAX_BASES} files already; install a new origin from its image (qemu-img convert)",
                disk.id
            ))
            .into());
        }
        let new = format!("{TOP}{}", new_uuid()?);
        write_new(&from.join(&new), &empty)?;
        let mut bases = vec![Base {
            name: top,
            format: disk.format,
            digest: None,
        }];
        bases.extend(disk.bases.clone());
        let sealed = Disk {
            file: Some(new.clone()),
            format: Format::Qcow2,
            bases,
            ..disk.clone()
        };
        let before = std::mem::replace(&mut origin.disks[at], sealed);
        if let Err(error) = origin.save(from) {
            origin.disks[at] = before;
            let _ = fs::remove_file(from.join(&new));
            return Err(error.into());
        }
    }
    write_new(&place.path, &empty)?;
    let disk = &origin.disks[at];
    Ok(Disk {
        file: disks::own_name(place, to),
        bases: link_bases(disk, from, to)?,
        ..disk.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use store::Root;
    use vm::Model;

    use super::*;
    use crate::record::Start;

    fn record() -> Record {
        Record {
            model: Model {
                qemu: "7.2.22".to_owned(),
                machine: "pc-q35-7.2".to_owned(),
                cpu: "max".to_owned(),
            },
            start: Start::Firmware,
            disks: vec![Disk {
                id: 0,
                size: 1 << 20,
                file: Some("disk0".to_owned()),
                format: Format::Raw,
                bases: Vec::new(),
                port: None,
            }],
            nvram: None,
            ports: 0,
            room: None,
            cards: None,
            boots: 0,
        }
    }

    fn place(dir: &Path) -> Place {
        Place {
            id: 0,
            boot: None,
            path: dir.join("disk0"),
            size: None,
        }
    }

    #[test]
    fn origin_and_clone_share_the_former_disk() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [a, b, c] = dirs.each_ref().map(tempfile::TempDir::path);
        fs::write(a.join("disk0"), vec![7; 1 << 20]).unwrap();
        let mut origin = record();
        let first = stand_on(&mut origin, 0, a, &place(b), b).unwrap();
        let disk = origin.disks[0].clone();
        assert_eq!(Record::load(a).unwrap(), origin);
        assert_eq!(disk.bases[0].name, "disk0");
        assert_eq!((disk.format, first.format), (Format::Qcow2, Format::Qcow2));
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_eq!(
            inode(&a.join("disk0")),
            inode(&b.join(&first.bases[0].name))
        );
        // A second clone of an origin that has not run adds no layer.
        let second = stand_on(&mut origin, 0, a, &place(c), c).unwrap();
        assert_eq!(origin.disks[0], disk);
        assert_eq!(second.bases.len(), 1);
        // After the origin is removed, the clones still have the base files.
        fs::remove_file(a.join("disk0")).unwrap();
        assert_eq!(fs::read(c.join(&second.bases[0].name)).unwrap()[0], 7);
    }

    #[test]
    fn a_clone_with_too_many_disk_layers_is_refused() {
        let disk = record().disks[0].clone();
        let base = Base {
            name: "base".to_owned(),
            format: Format::Qcow2,
            digest: None,
        };
        let disk = Disk {
            bases: vec![base; 20],
            ..disk
        };
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let host = Host::new(Root::new(to.path()), "/none".into(), None);
        let config = Config::new("k2".parse().unwrap());
        let clone_of = |count| {
            let origin = Record {
                disks: vec![disk.clone(); count],
                ..record()
            };
            origin.save(from.path()).unwrap();
            let failed = make(&host, &config, from.path(), to.path()).unwrap_err();
            assert_eq!(Record::load(from.path()).unwrap(), origin);
            failed.to_string()
        };
        // This configuration has no disk for the clone.
        assert!(clone_of(10).contains("no device of the clone stores disk"));
        let why = clone_of(11);
        assert!(why.contains("stand on 242 files"), "{why}");
    }

    #[test]
    fn an_origin_that_has_run_adds_a_layer() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [a, b, c] = dirs.each_ref().map(tempfile::TempDir::path);
        fs::write(a.join("disk0"), vec![7; 1 << 20]).unwrap();
        let mut origin = record();
        stand_on(&mut origin, 0, a, &place(b), b).unwrap();
        let top = a.join(origin.disks[0].file.clone().unwrap());
        let mut content = fs::read(&top).unwrap();
        content.resize(content.len() + 65536, 1);
        fs::write(&top, content).unwrap();
        let second = stand_on(&mut origin, 0, a, &place(c), c).unwrap();
        assert_eq!(second.bases.len(), 2);
        assert_eq!(second.bases[0].format, Format::Qcow2);
        assert_eq!(second.bases[1].format, Format::Raw);
    }
}
