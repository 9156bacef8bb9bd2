//! Devices, file systems and exported directories.

use crate::report::{Finding, Section};
use crate::system::System;

/// A line of fstab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mounted device or directory.
    pub special: String,
    /// The mount point, with blanks unescaped.
    pub dir: String,
    /// The file system type.
    pub kind: String,
}

impl Mount {
    fn is_of_a_device(&self) -> bool {
        let marks = ["/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID="];
        marks.iter().any(|mark| self.special.starts_with(mark))
    }

    fn is_of_the_network(&self) -> bool {
        let kinds = [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "ceph",
            "glusterfs",
            "fuse.sshfs",
            "9p",
            "afs",
        ];
        kinds.contains(&self.kind.as_str())
    }

    /// Returns true if the mount holds data that is separate from the system's.
    pub fn is_data(&self) -> bool {
        // Directories that a copy of the system includes, even if they were separate file
        // systems.
        let copied = ["/", "/usr", "/var", "/tmp", "/home", "/root", "/opt"];
        let is_place = self.dir.starts_with('/') && !self.dir.starts_with("/boot");
        (self.is_of_a_device() || self.is_of_the_network())
            && is_place
            && self.kind != "swap"
            && !copied.contains(&self.dir.as_str())
    }
}

/// Returns the lines of fstab.
pub fn mounts(system: &System) -> Vec<Mount> {
    let lines = system.lines("etc/fstab").into_iter();
    let mount = |line: String| {
        let mut fields = line.split_whitespace().map(plain);
        Some(Mount {
            special: fields.next()?,
            dir: fields.next()?,
            kind: fields.next()?,
        })
    };
    lines.filter_map(mount).collect()
}

/// fstab writes blanks as \040.
fn plain(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t")
}

/// Returns the report sections about storage.
pub fn check(system: &System) -> Vec<Section> {
    let (mut devices, mut swap, mut network) = (Vec::new(), Vec::new(), Vec::new());
    for mount in mounts(system) {
        let Mount { special, dir, kind } = &mount;
        if kind == "swap" {
            let advice =
                "swap is the host's: remove it from the zone's /etc/fstab, see capped-memory";
            swap.push(Finding::new(special, advice));
        } else if mount.is_of_a_device() {
            let advice = match mount.is_data() {
                true => format!("mounted on {dir}: mount it on the host and add an fs resource"),
                false => format!("mounted on {dir}: remove it from the zone's /etc/fstab"),
            };
            devices.push(Finding::new(special, advice));
        } else if mount.is_of_the_network() {
            let advice =
                format!("mounted on {dir} ({kind}): mount it on the host and add an fs resource");
            network.push(Finding::new(special, advice));
        }
    }
    devices.extend(configured_devices(system));
    vec![
        Section::new(
            "devices",
            "The following devices are used. A zone has none but those of its device resources:",
            devices,
        ),
        Section::new(
            "swap",
            "The following swap space is used. A zone has none of its own:",
            swap,
        ),
        Section::new(
            "filesystems",
            "The following file systems of other hosts are mounted. A zone cannot mount them:",
            network,
        ),
        Section::new(
            "shares",
            "The following directories are shared. A zone has no NFS server:",
            shares(system),
        ),
    ]
}

/// Returns the devices that files of /etc name.
fn configured_devices(system: &System) -> Vec<Finding> {
    let mut devices = Vec::new();
    for line in system.lines("etc/crypttab") {
        let name = line.split_whitespace().next().unwrap_or_default();
        devices.push(Finding::new(
            name,
            "encrypted, in /etc/crypttab: the host opens it",
        ));
    }
    for file in ["etc/mdadm/mdadm.conf", "etc/mdadm.conf"] {
        for line in system.lines(file) {
            if let Some(name) = line
                .strip_prefix("ARRAY ")
                .and_then(|rest| rest.split_whitespace().next())
            {
                devices.push(Finding::new(
                    name,
                    format!("an array, in /{file}: the host assembles it"),
                ));
            }
        }
    }
    for rules in system.names("etc/udev/rules.d") {
        if rules.ends_with(".rules")
            && !system
                .lines(&format!("etc/udev/rules.d/{rules}"))
                .is_empty()
        {
            let advice = "rules for devices: those of a zone come from its device resources";
            devices.push(Finding::new(format!("/etc/udev/rules.d/{rules}"), advice));
        }
    }
    devices
}

/// Returns the directories that are shared by NFS.
fn shares(system: &System) -> Vec<Finding> {
    let mut exports = system.paths("etc/exports.d", ".exports");
    exports.push("etc/exports".to_owned());
    let shares = exports.iter().flat_map(|file| system.lines(file));
    let found = shares.map(|line| {
        let dir = line
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        Finding::new(dir, "shared by NFS: share it from the host")
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn file_systems_of_fstab_are_read() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("etc")).unwrap();
        let fstab = "UUID=1 / ext4 defaults 0 1\n/dev/sda1 /boot/efi vfat x 0 0\nLABEL=data /srv/my\\040data xfs x 0 2\n\
                     /dev/sda2 none swap sw 0 0\nnas:/home /home/nas nfs x 0 0\ntmpfs /tmp tmpfs x 0 0\nodd\n";
        fs::write(tree.path().join("etc/fstab"), fstab).unwrap();
        fs::write(tree.path().join("etc/exports"), "/srv *(ro)\n#/x\n").unwrap();
        let system = System::open(tree.path()).unwrap();
        let data: Vec<String> = mounts(&system)
            .into_iter()
            .filter(Mount::is_data)
            .map(|mount| mount.dir)
            .collect();
        assert_eq!(data, ["/srv/my data", "/home/nas"]);
        let sections = check(&system);
        let names: Vec<Vec<&str>> = sections
            .iter()
            .map(|section| section.findings.iter().map(|one| &*one.subject).collect())
            .collect();
        assert_eq!(names[0], ["/dev/sda1", "LABEL=data", "UUID=1"]);
        assert_eq!(names[1], ["/dev/sda2"]);
        assert_eq!(names[2], ["nas:/home"]);
        assert_eq!(names[3], ["/srv"]);
    }
}
