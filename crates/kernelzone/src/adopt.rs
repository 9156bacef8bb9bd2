//! Gives this host a kernel zone whose disks are all on shared storage, after the host that had the
//! zone is off.
//!
//! Everything of such a zone that is in its zonepath can be made anew: the record of the machine and
//! the variables of the firmware. All disks must be files. QEMU locks a file, so a host that comes
//! back cannot start the zone while it runs here; a block device has no such lock.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use model::{Config, State};
use vm::Model;

use crate::disks::{self, Place};
use crate::record::{self, Record, Start};
use crate::{facts, image, install, loader, ports, uefi};
use host::{Error, Host, flatten};
use subject::{arrived, away, identity};

/// Files in the zonepath that an attach with `--take-over` makes anew or does without. The marks of
/// migrations are among them: a zone with [`arrived::INCOMING`] has never been of this host, and
/// whether one with [`away::AWAY`] may be given up is the question of the caller.
const REMADE: [&str; 9] = [
    record::FILE,
    identity::FILE,
    identity::LOCK,
    subject::DETACHED,
    subject::FORCED,
    arrived::ARRIVED,
    arrived::INCOMING,
    away::AWAY,
    image::KEY,
];

/// Returns true if all disks of a kernel zone are files outside the zonepath.
#[must_use]
pub fn is_elsewhere(host: &Host, config: &Config, zonepath: &Path) -> bool {
    let places = disks::places(host, config);
    !places.is_empty() && places.iter().all(|place| is_outside(place, zonepath))
}

/// Returns the first disk outside the zonepath that is no file here, with the problem; `None` if
/// there is no such disk.
#[must_use]
pub fn missing(host: &Host, config: &Config, zonepath: &Path) -> Option<String> {
    let places = disks::places(host, config);
    let place = places
        .iter()
        .find(|place| !place.path.starts_with(zonepath) && !is_outside(place, zonepath))?;
    Some(format!(
        "disk {}, {}: expected a file: is its storage mounted? --take-over needs files outside of the zonepath",
        place.id,
        place.path.display()
    ))
}

/// Returns true if a disk is a file outside the zonepath. Links in its path are followed, but the
/// disk itself must be no link.
fn is_outside(place: &Place, zonepath: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_file = fs::symlink_metadata(&place.path).is_ok_and(|meta| meta.is_file());
    is_file && !place.path.starts_with(zonepath) && !real(&place.path).starts_with(real(zonepath))
}

/// Refuses to remove the zonepath of a kernel zone if it has data that an attach with `--take-over`
/// cannot make anew: a disk or a file below one, the memory of a suspended guest, variables of UEFI
/// firmware, the guest's kernel, or any other file. A zone that is not complete may lack
/// its record.
///
/// # Errors
/// Fails with [`Error::Refused`], or with [`Error::Io`] if the zonepath cannot be read.
pub fn refuse_data(
    host: &Host,
    config: &Config,
    zonepath: &Path,
    state: State,
) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::Refused(format!("{why}. Nothing was removed.")));
    let places = disks::places(host, config);
    if places.is_empty() {
        return refuse("its configuration names no disk, so none is on shared storage".into());
    }
    if let Some(place) = places.iter().find(|place| !is_outside(place, zonepath)) {
        return refuse(format!(
            "disk {}, {}: expected a file outside of the zonepath, on storage that every host of the zone has",
            place.id,
            place.path.display()
        ));
    }
    if let Some(path) = image::path(host, config).filter(|path| image::exists(path)) {
        return refuse(format!(
            "it is suspended, and {} has the memory of its guest: boot it first ({})",
            path.display(),
            image::DISCARD
        ));
    }
    match Record::load(zonepath) {
        Ok(record) if matches!(record.start, Start::Kernel { .. }) => {
            return refuse(
                "its kernel is in the zonepath: a kernel zone on shared storage starts by a loader on its disk".into(),
            );
        }
        Err(error) if state != State::Incomplete => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let found = others(zonepath)?;
    let Some(first) = found.first() else {
        return Ok(());
    };
    if first == &zonepath.join(uefi::FILE) {
        return refuse(format!(
            "{} has the variables of its UEFI firmware, such as its boot menu, and no other host has them",
            first.display()
        ));
    }
    refuse(format!(
        "{}: a start does not make this file anew ({} such files): move it away, or uninstall without --shared-disks, which deletes it",
        first.display(),
        found.len()
    ))
}

/// Returns the files in the zonepath that are not among [`REMADE`], sorted. The root of a kernel
/// zone has folders, links and, as mount points, empty files.
fn others(zonepath: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![zonepath.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error| Error::Io(format!("read {}", folder.display()), error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let is_remade =
                folder == zonepath && REMADE.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && !is_remade && entry.metadata().map_err(failed)?.len() > 0 {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a new record of the zone into its zonepath. The disks are not changed.
///
/// # Errors
/// Fails with [`Error::Refused`] if the record cannot be made.
pub fn make_record(host: &Host, config: &Config, zonepath: &Path) -> Result<(), Error> {
    let places = disks::places(host, config);
    let qemu = facts::qemu(host).map_err(|error| refused(&error))?;
    let model = Model::of_version(&qemu.version);
    let measured = places
        .iter()
        .map(|place| install::further(place, zonepath))
        .collect::<Result<Vec<_>, _>>();
    let nvram = match needs_uefi(config, &places) {
        true => Some(uefi::make(config, &model, zonepath).map_err(|error| refused(&error))?),
        false => None,
    };
    let disks = measured.map_err(|error| refused(&*error))?;
    let mut record = Record::before_first_boot(model, Start::Firmware, disks, nvram);
    ports::first(&mut record);
    record.save(zonepath)
}

/// Returns true if the first disk starts with UEFI firmware only, or verified boot wants it.
fn needs_uefi(config: &Config, places: &[Place]) -> bool {
    let first = places.iter().min_by_key(|place| place.order());
    let ways = first
        .and_then(|place| File::open(&place.path).ok())
        .and_then(|file| loader::ways(&file).ok());
    config.verified_boot().is_some_and(|one| one.enforced)
        || ways.is_some_and(|ways| ways.uefi && !ways.bios)
}

fn refused(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Refused(format!("{}.", flatten(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Root;

    fn resource(name: &str) -> model::config::Resource {
        model::config::Resource::new(model::table::resource(name).unwrap())
    }

    struct World {
        dir: tempfile::TempDir,
        zonepath: PathBuf,
        disk: PathBuf,
        config: Config,
    }

    /// A kernel zone as an attach with `--take-over` makes it, with one disk elsewhere.
    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let zonepath = dir.path().join("zones/k1");
        fs::create_dir_all(zonepath.join("vol/root/usr/bin")).unwrap();
        std::os::unix::fs::symlink("vol/root", zonepath.join("root")).unwrap();
        for name in [identity::FILE, arrived::ARRIVED] {
            fs::write(zonepath.join(name), "x").unwrap();
        }
        let disk = dir.path().join("shared.raw");
        fs::write(&disk, "data").unwrap();
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "solaris-kz").unwrap();
        config.set("zonepath", "/zones/k1").unwrap();
        let mut world = World {
            dir,
            zonepath,
            disk,
            config,
        };
        world.add_disk(0, &world.disk.clone());
        world.save(Start::Firmware);
        world
    }

    impl World {
        fn add_disk(&mut self, id: u32, path: &Path) {
            let mut device = resource("device");
            device
                .set("storage", &format!("file://{}", path.display()))
                .unwrap();
            device.set("id", &id.to_string()).unwrap();
            self.config.add(device).unwrap();
        }

        fn save(&self, start: Start) {
            let version = vm::model::Version {
                major: 7,
                minor: 2,
                micro: 0,
            };
            let model = Model::of_version(&version);
            let record = Record::before_first_boot(model, start, Vec::new(), None);
            record.save(&self.zonepath).unwrap();
        }

        fn why(&self) -> Option<String> {
            let host = Host::new(Root::new(self.dir.path()), "/none".into(), None);
            refuse_data(&host, &self.config, &self.zonepath, State::Installed)
                .err()
                .map(|error| error.to_string())
        }

        #[track_caller]
        fn is_refused(&self, why: &str) {
            let found = self.why().unwrap_or_default();
            assert!(found.contains(why), "expected {why}, found {found}");
        }
    }

    #[test]
    fn accepts_a_zonepath_that_can_be_made_anew() {
        assert_eq!(world().why(), None);
    }

    #[test]
    fn marks_of_migrations_are_no_data() {
        let one = world();
        for mark in [arrived::ARRIVED, arrived::INCOMING, away::AWAY] {
            fs::write(one.zonepath.join(mark), "1f2e\n").unwrap();
        }
        assert_eq!(one.why(), None);
    }

    #[test]
    fn refuses_a_disk_in_the_zonepath() {
        let mut one = world();
        fs::write(one.zonepath.join("disk1"), "data").unwrap();
        one.add_disk(1, Path::new("/zones/k1/disk1"));
        one.is_refused("disk 1, ");
        // By another name of the zonepath.
        let mut one = world();
        let link = one.dir.path().join("link");
        std::os::unix::fs::symlink(&one.zonepath, &link).unwrap();
        fs::write(one.zonepath.join("vol/root/disk1"), "data").unwrap();
        one.add_disk(1, &link.join("root/disk1"));
        one.is_refused("disk 1, ");
        // A file that is no disk of the configuration any more, also deep in the root.
        for name in ["disk7", "top-1.qcow2", "vol/root/usr/bin/disk7"] {
            let one = world();
            fs::write(one.zonepath.join(name), "data").unwrap();
            one.is_refused(name);
        }
    }

    #[test]
    fn names_a_disk_whose_storage_is_not_mounted() {
        let mut one = world();
        let host = Host::new(Root::new(one.dir.path()), "/none".into(), None);
        assert_eq!(missing(&host, &one.config, &one.zonepath), None);
        // A disk in the zonepath is not on storage of its own.
        one.add_disk(1, Path::new("/zones/k1/disk1"));
        assert_eq!(missing(&host, &one.config, &one.zonepath), None);
        fs::remove_file(&one.disk).unwrap();
        let text = missing(&host, &one.config, &one.zonepath).unwrap();
        assert!(text.starts_with("disk 0, ") && text.contains("is its storage mounted?"));
    }

    #[test]
    fn refuses_a_disk_that_is_missing_or_no_file() {
        let one = world();
        fs::remove_file(&one.disk).unwrap();
        one.is_refused("disk 0, ");
        std::os::unix::fs::symlink("/dev/null", &one.disk).unwrap();
        one.is_refused("disk 0, ");
    }

    #[test]
    fn refuses_the_memory_the_firmware_and_the_kernel_of_a_guest() {
        let mut one = world();
        let image = one.dir.path().join("image");
        fs::write(&image, "memory").unwrap();
        let mut suspend = resource("suspend");
        suspend.set("path", &image.to_string_lossy()).unwrap();
        one.config.add(suspend).unwrap();
        one.is_refused("it is suspended");
        fs::remove_file(&image).unwrap();
        assert_eq!(one.why(), None);
        fs::write(one.zonepath.join(uefi::FILE), "variables").unwrap();
        one.is_refused("the variables of its UEFI firmware");
        let one = world();
        one.save(Start::Kernel {
            initrd: false,
            command_line: String::new(),
        });
        one.is_refused("its kernel is in the zonepath");
    }

    #[test]
    fn refuses_a_zone_without_a_record_unless_it_is_incomplete() {
        let one = world();
        fs::remove_file(one.zonepath.join(record::FILE)).unwrap();
        assert!(one.why().is_some());
        let host = Host::new(Root::new(one.dir.path()), "/none".into(), None);
        assert!(refuse_data(&host, &one.config, &one.zonepath, State::Incomplete).is_ok());
    }
}
