//! The objects of the host behind the file systems, disks and devices of a zone. The same disk can
//! be an `fs`, a `device` and the disk of a kernel zone, so all kinds are compared with each other.

use std::path::{Path, PathBuf};

use host::devices;
use model::Config;
use model::config::machine::storage_path;
use rustix::fs::FileType;

use super::patterns;
use crate::verify::compared::Compared;

/// The part of a configuration that names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A folder or file, mounted by lofs.
    Lofs,
    /// A file system with a type.
    Fs,
    /// A disk or a suspend image of a kernel zone.
    Disk,
    /// A node of a `device`.
    Device,
    /// The zonepath.
    Zonepath,
}

/// The identity of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Device { block: bool, number: (u32, u32) },
    File { device: u64, inode: u64 },
}

/// An object of the host that a zone uses.
#[derive(Debug)]
struct Object {
    kind: Kind,
    /// The name in messages.
    shown: String,
    /// The path, except of a `device`.
    path: Option<PathBuf>,
    id: Option<Id>,
}

impl Object {
    fn at(kind: Kind, shown: String, path: &Path) -> Self {
        Self {
            kind,
            shown,
            path: Some(path.to_owned()),
            id: id_of(path),
        }
    }

    fn is_same(&self, other: &Self, compared: &mut Compared) -> bool {
        match (self.kind, other.kind) {
            // The checks of sources and of devices compare these.
            (Kind::Lofs, Kind::Lofs | Kind::Zonepath) | (Kind::Device, Kind::Device) => false,
            _ if self.id.is_some() && self.id == other.id => true,
            _ => match (&self.path, &other.path) {
                (Some(own), Some(their)) => compared.relation(own, their).is_some(),
                _ => false,
            },
        }
    }
}

fn id_of(path: &Path) -> Option<Id> {
    let stat = rustix::fs::stat(path).ok()?;
    let number = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Id::Device {
            block: true,
            number,
        },
        FileType::CharacterDevice => Id::Device {
            block: false,
            number,
        },
        _ => Id::File {
            device: stat.st_dev,
            inode: stat.st_ino,
        },
    })
}

/// Returns the objects of a zone.
fn objects(config: &Config) -> Vec<Object> {
    let mut found = Vec::new();
    for fs in config.filesystems() {
        let kind = match fs.fstype.as_str() {
            "lofs" => Kind::Lofs,
            _ => Kind::Fs,
        };
        let special = PathBuf::from(&fs.special);
        for path in fs.raw.iter().chain([&special]) {
            if path.is_absolute() {
                let shown = format!("fs {}: {}", fs.dir.display(), path.display());
                found.push(Object::at(kind, shown, path));
            }
        }
    }
    for disk in config.machine_disks() {
        if let Some(path) = storage_path(&disk.storage) {
            let shown = format!("device {}", disk.storage);
            found.push(Object::at(Kind::Disk, shown, &path));
        }
    }
    if let Some(path) = config.suspend_path() {
        let shown = format!("suspend {}", path.display());
        found.push(Object::at(Kind::Disk, shown, &path));
    }
    for node in devices::nodes(patterns(config)) {
        found.push(Object {
            kind: Kind::Device,
            shown: format!("device {}", node.path.display()),
            path: None,
            id: Some(Id::Device {
                block: node.block,
                number: (node.major, node.minor),
            }),
        });
    }
    found
}

/// Returns a problem for each object of a zone that is also an object of a zone of another label,
/// or that lies in the zonepath of that zone.
pub(super) fn problems(
    config: &Config,
    (other, zonepath): (&Config, &Path),
    name: &str,
    compared: &mut Compared,
) -> Vec<String> {
    let ours = objects(config);
    if ours.is_empty() {
        return Vec::new();
    }
    let mut theirs = objects(other);
    let shown = format!("zonepath {}", zonepath.display());
    theirs.push(Object::at(Kind::Zonepath, shown, zonepath));
    let mut lines = Vec::new();
    for own in &ours {
        if let Some(their) = theirs.iter().find(|their| own.is_same(their, compared)) {
            lines.push(format!(
                "could not verify {}: it overlaps with {} of {name}: two labels share no disk and no folder that one of them can write to",
                own.shown, their.shown
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use model::config::Resource;
    use model::table;

    use super::*;

    fn with(brand: &str, kind: &str, properties: &[(&str, &str)]) -> Config {
        let mut config = Config::new("a".parse().unwrap());
        if !brand.is_empty() {
            config.set("brand", brand).unwrap();
        }
        let mut one = Resource::new(table::resource(kind).unwrap());
        for (name, value) in properties {
            one.set(name, value).unwrap();
        }
        config.add(one).unwrap();
        config
    }

    fn fs(fstype: &str, special: &str) -> Config {
        let all = [("dir", "/data"), ("special", special), ("type", fstype)];
        with("", "fs", &all)
    }

    #[test]
    fn one_file_is_no_disk_of_two_labels() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(at("zonepath")).unwrap();
        for name in ["disk", "other", "zonepath/disk0"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::hard_link(at("disk"), at("name")).unwrap();
        let disk = |name: &str| {
            with(
                "kz",
                "device",
                &[("storage", &format!("file://{}", at(name)))],
            )
        };
        let folder = dir.path().to_str().unwrap();
        let mut compared = Compared::new().unwrap();
        for (ours, theirs, same) in [
            (disk("disk"), disk("name"), true),
            (disk("disk"), fs("ext4", &at("name")), true),
            (fs("ext4", &at("disk")), disk("disk"), true),
            (fs("lofs", folder), disk("disk"), true),
            (disk("disk"), fs("lofs", folder), true),
            (disk("zonepath/disk0"), fs("tmpfs", "swap"), true),
            (disk("disk"), disk("other"), false),
            (fs("ext4", &at("disk")), fs("ext4", &at("other")), false),
            (fs("lofs", &at("zonepath")), disk("disk"), false),
        ] {
            let lines = problems(
                &ours,
                (&theirs, &dir.path().join("zonepath")),
                "zone b",
                &mut compared,
            );
            assert_eq!(
                lines.len(),
                usize::from(same),
                "{ours:?} {theirs:?} {lines:?}"
            );
        }
    }

    #[test]
    fn a_device_is_compared_with_the_disks_of_other_zones() {
        // The number counts, and no file system needs to be on the device.
        let node = with("", "device", &[("match", "/dev/loop-control")]);
        let disk = with("kz", "device", &[("storage", "dev:/dev/loop-control")]);
        if !Path::new("/dev/loop-control").exists() {
            eprintln!("skipped: no /dev/loop-control");
            return;
        }
        let mut compared = Compared::new().unwrap();
        for (ours, theirs) in [(&node, &disk), (&disk, &node)] {
            let lines = problems(ours, (theirs, Path::new("/none")), "zone b", &mut compared);
            assert!(
                matches!(&lines[..], [one] if one.contains("it overlaps with device")),
                "{lines:?}"
            );
        }
    }
}
