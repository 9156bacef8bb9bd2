//! The rules of labels for what zones share: a folder, a dataset or a device of the host belongs to
//! one label. A zone reads a lower zone only by the view that the programs mount, and writes to no
//! other label.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use label::{Label, Relation};
use model::config::{FileSystem, LABEL};
use model::plan::DeviceNode;
use model::{Config, ZoneName, privilege};
use store::index::Index;
use store::{lock, xml};
use sys::mountinfo::Mount;

use super::sources::{Looked, closed_folders};
use host::{Error, Host, devices};
use subject::layer_folders;

/// Types of file systems whose content another host or a program decides about, as statfs(2) and
/// linux/magic.h number them.
const REMOTE: [(i64, &str); 9] = [
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb"),
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x7375_7245, "coda"),
    (0x786f_4256, "vboxsf"),
];

/// Words by which an `fs` resource names such file systems.
const REMOTE_TYPES: [&str; 11] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "fuse",
    "fuseblk",
    "ceph",
    "9p",
    "afs",
    "virtiofs",
    "glusterfs",
];

/// Takes the lock under which zones with labels are checked and started, one after another.
pub(crate) fn lock(host: &Host) -> Result<File, Error> {
    Ok(lock::exclusive(&host.root.run().join(".labels.lock"))?)
}

/// Refuses a copy of a zone's files to a zone whose label does not dominate the label of the files.
pub(crate) fn admit_copy(from: &Config, to: &Config) -> Result<(), Error> {
    let (Some(low), high) = (from.label(), to.label()) else {
        return Ok(());
    };
    if high.is_some_and(|high| high.dominates(low)) {
        return Ok(());
    }
    let shown = high.map_or_else(|| "no label".to_owned(), |high| format!("the label {high}"));
    Err(Error::Refused(format!(
        "has {shown}, and the files of zone {} have the label {low}: a copy at a label that does not dominate {low} would lower the label of the files.",
        from.name()
    )))
}

/// Returns the problems of a zone with a label.
pub(super) fn problems(host: &Host, index: &Index, config: &Config) -> Vec<String> {
    let Some(label) = config.label() else {
        return Vec::new();
    };
    let mut lines = of_zone(config);
    let mut compared = Compared {
        looked: Looked::default(),
        mounts: sys::mountinfo::own().unwrap_or_default(),
    };
    let nodes: Vec<DeviceNode> = devices::nodes(config.device_patterns());
    lines.extend(of_folders(host, index, config, &mut compared));
    for entry in index.entries() {
        let zone = &entry.name;
        if zone == config.name() {
            continue;
        }
        // The verify of the other zone reports why its configuration cannot be read.
        let Ok(other) = xml::load(&host.root, zone) else {
            continue;
        };
        let relation = other.label().map(|other| label.relation(other));
        let runs = || xml::load_running(&host.root, zone).is_ok();
        let theirs = || devices::nodes(other.device_patterns());
        if !nodes.is_empty() && (relation != Some(Relation::Equal) || runs()) {
            lines.extend(of_devices(&nodes, &theirs(), zone));
        }
        if relation == Some(Relation::Equal) {
            continue;
        }
        let name = described(zone, other.label());
        lines.extend(of_file_systems(config, &other, &name, &mut compared));
        lines.extend(of_datasets(config, &other, &name));
    }
    lines
}

fn described(zone: &ZoneName, label: Option<Label>) -> String {
    match label {
        Some(label) => format!("zone {zone}, whose label is {label}"),
        None => format!("zone {zone}, which has no label"),
    }
}

/// Returns the problems of the zone alone.
fn of_zone(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let privileges = config.get("limitpriv");
    let openings = privilege::openings(privileges, config.ip_type(), false);
    let openings = openings.unwrap_or_default();
    for (open, name) in [
        (openings.unfiltered, "sys_unfiltered"),
        (openings.io_uring, "proc_io_uring"),
    ] {
        if open {
            lines.push(format!(
                "could not verify limitpriv {name}: a zone with a {LABEL} runs under the whole filter of system calls: remove {name}"
            ));
        }
    }
    for fs in config.filesystems() {
        let why = match fs.fstype.as_str() {
            "lofs" => remote(Path::new(&fs.special)),
            fstype => {
                let kind = fstype.split('.').next().unwrap_or(fstype);
                let found = REMOTE_TYPES.iter().find(|one| **one == kind);
                found.copied()
            }
        };
        if let Some(kind) = why {
            lines.push(format!(
                "could not verify fs {}: {} is on a file system of type {kind}, whose reads and writes other hosts or programs see: a zone with a {LABEL} uses local file systems only",
                fs.dir.display(),
                fs.special
            ));
        }
    }
    lines
}

fn remote(path: &Path) -> Option<&'static str> {
    let stat = rustix::fs::statfs(path).ok()?;
    // The type of the number differs between architectures.
    #[allow(clippy::unnecessary_cast)]
    let number = stat.f_type as i64 & 0xffff_ffff;
    let found = REMOTE.iter().find(|(known, _)| *known == number);
    found.map(|(_, name)| *name)
}

/// Returns a problem for each source that overlaps with the zonepath or the layers of a zone, or
/// with a folder of the zone programs: files of other labels are there, also for a reader.
fn of_folders(host: &Host, index: &Index, config: &Config, compared: &mut Compared) -> Vec<String> {
    let sources: Vec<FileSystem> = lofs(config).collect();
    if sources.is_empty() {
        return Vec::new();
    }
    let mut folders = closed_folders(host, index);
    for entry in index.entries() {
        for folder in layer_folders(&host.root.path(&entry.zonepath)) {
            folders.insert(folder, "the layers of zones".to_owned());
        }
    }
    let mut lines = Vec::new();
    for fs in sources.iter().filter(|fs| is_read_only(fs)) {
        let special = Path::new(&fs.special);
        let found = folders
            .iter()
            .find_map(|(folder, owner)| Some((compared.relation(special, folder)?, folder, owner)));
        if let Some((relation, folder, owner)) = found {
            lines.push(format!(
                "could not verify fs {}: {} {relation} {} ({owner}): a zone with a {LABEL} reads other zones only at /zone/NAME/export",
                fs.dir.display(),
                fs.special,
                folder.display()
            ));
        }
    }
    lines
}

/// Returns a problem for each source that overlaps with a source of a zone of another label, unless
/// both zones only read it.
fn of_file_systems(
    config: &Config,
    other: &Config,
    name: &str,
    compared: &mut Compared,
) -> Vec<String> {
    let mut lines = Vec::new();
    for ours in config.filesystems() {
        for theirs in other.filesystems() {
            let plain = ours.fstype == "lofs" && theirs.fstype == "lofs";
            if plain && is_read_only(&ours) && is_read_only(&theirs) {
                continue;
            }
            let (own, their) = (Path::new(&ours.special), Path::new(&theirs.special));
            if !own.is_absolute() || !their.is_absolute() {
                continue;
            }
            if let Some(relation) = compared.relation(own, their) {
                lines.push(format!(
                    "could not verify fs {}: {} {relation} {}, the source of fs {} of {name}: two labels share no folder that one of them can write to",
                    ours.dir.display(),
                    ours.special,
                    theirs.special,
                    theirs.dir.display()
                ));
            }
        }
    }
    lines
}

fn of_datasets(config: &Config, other: &Config, name: &str) -> Vec<String> {
    let below = |low: &str, high: &str| {
        let rest = low.strip_prefix(high);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut lines = Vec::new();
    for own in config.datasets() {
        let mut theirs = other.datasets();
        if let Some(their) = theirs.find(|their| below(their, &own) || below(&own, their)) {
            lines.push(format!(
                "could not verify zfs dataset {own}: {their} is a dataset of {name}: a dataset belongs to one {LABEL}"
            ));
        }
    }
    lines
}

fn of_devices(own: &[DeviceNode], theirs: &[DeviceNode], zone: &ZoneName) -> Vec<String> {
    let id = |node: &DeviceNode| (node.block, node.major, node.minor);
    let taken: BTreeSet<_> = theirs.iter().map(id).collect();
    let found = own.iter().find(|node| taken.contains(&id(node)));
    let line = found.map(|node| {
        format!(
            "could not verify device {}: zone {zone} has it: with a {LABEL}, a device is in one zone at a time",
            node.path.display()
        )
    });
    line.into_iter().collect()
}

fn lofs(config: &Config) -> impl Iterator<Item = FileSystem> {
    config.filesystems().filter(|fs| fs.fstype == "lofs")
}

fn is_read_only(fs: &FileSystem) -> bool {
    fs.options.iter().any(|option| option == "ro")
}

/// The facts by which folders are compared.
struct Compared {
    looked: Looked,
    mounts: Vec<Mount>,
}

impl Compared {
    /// Returns the relation between two paths as a verb; `None` if they do not overlap. A bind mount
    /// gives a folder another path and other parents, so the paths in the file system are compared
    /// in addition to names and inodes.
    fn relation(&mut self, path: &Path, other: &Path) -> Option<&'static str> {
        let found = self.looked.relation(path, other);
        found.or_else(|| {
            let (path, other) = (self.in_file_system(path)?, self.in_file_system(other)?);
            match path.0 == other.0 {
                true if path.1.starts_with(&other.1) => Some("lies in"),
                true if other.1.starts_with(&path.1) => Some("contains"),
                _ => None,
            }
        })
    }

    /// Returns the file system of a path, and the path in this file system.
    fn in_file_system(&self, path: &Path) -> Option<(Vec<u8>, std::path::PathBuf)> {
        let path = path.canonicalize().ok()?;
        let holds = |mount: &&Mount| path.starts_with(&mount.point);
        // Of the mounts at one point, the last one is visible.
        let mount = self
            .mounts
            .iter()
            .filter(holds)
            .max_by_key(|mount| mount.point.components().count())?;
        let device = rustix::fs::stat(&mount.point).ok()?.st_dev;
        let rest = path.strip_prefix(&mount.point).ok()?;
        let inside = match rest.as_os_str().as_bytes() {
            [] => mount.root.clone(),
            _ => mount.root.join(rest),
        };
        Some((device.to_le_bytes().to_vec(), inside))
    }
}

#[cfg(test)]
mod tests {
    use model::config::Resource;
    use model::table;

    use super::*;

    fn zone(name: &str, label: &str, fs: &[(&Path, &str)]) -> Config {
        let mut config = Config::new(name.parse().unwrap());
        config.set(LABEL, label).unwrap();
        for (source, options) in fs {
            let mut one = Resource::new(table::resource("fs").unwrap());
            one.set("dir", "/data").unwrap();
            one.set("special", source.to_str().unwrap()).unwrap();
            one.set("type", "lofs").unwrap();
            if !options.is_empty() {
                one.set("options", options).unwrap();
            }
            config.add(one).unwrap();
        }
        config
    }

    const LOW: &str = "0x0002-08-00";
    const HIGH: &str = "0x0004-08-68";
    const ASIDE: &str = "0x0004-08-10";

    #[test]
    fn files_are_copied_to_equal_and_higher_labels_only() {
        let (low, high) = (zone("low", LOW, &[]), zone("high", HIGH, &[]));
        let (aside, plain) = (zone("aside", ASIDE, &[]), Config::new("x".parse().unwrap()));
        for (from, to, admitted) in [
            (&low, &low, true),
            (&low, &high, true),
            (&high, &low, false),
            (&high, &aside, false),
            (&aside, &high, false),
            (&high, &plain, false),
            (&plain, &low, true),
        ] {
            assert_eq!(
                admit_copy(from, to).is_ok(),
                admitted,
                "{} {}",
                from.name(),
                to.name()
            );
        }
    }

    #[test]
    fn two_labels_share_no_folder_that_one_of_them_can_write_to() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&inner, &link).unwrap();
        let mut compared = Compared {
            looked: Looked::default(),
            mounts: sys::mountinfo::own().unwrap_or_default(),
        };
        for (ours, our_options, theirs, their_options, refused) in [
            (folder.path(), "", inner.as_path(), "", true),
            (&inner, "", folder.path(), "ro", true),
            (&inner, "ro", folder.path(), "", true),
            (&link, "", &inner, "", true),
            (&inner, "ro", &inner, "ro", false),
        ] {
            let low = zone("low", LOW, &[(ours, our_options)]);
            let high = zone("high", HIGH, &[(theirs, their_options)]);
            let lines = of_file_systems(&low, &high, "zone high", &mut compared);
            assert_eq!(!lines.is_empty(), refused, "{ours:?} {theirs:?} {lines:?}");
        }
    }

    #[test]
    fn a_label_needs_the_whole_filter() {
        let mut config = zone("low", LOW, &[]);
        assert_eq!(of_zone(&config), [""; 0]);
        config
            .set("limitpriv", "default,sys_unfiltered,proc_io_uring")
            .unwrap();
        let lines = of_zone(&config);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("remove sys_unfiltered"), "{lines:?}");
    }
}
