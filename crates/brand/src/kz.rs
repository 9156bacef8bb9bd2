//! The kz brand: a kernel zone, a guest with its own kernel that QEMU runs.
//!
//! QEMU is the zone's only process. Like every zone, this zone has its own root: a few empty
//! folders on which the host's libraries and QEMU's files are mounted, and the kernel with which
//! the guest starts. The guest's system is on its disks, beside the root.

mod guest;
mod options;

use std::path::Path;

use model::Config;
use model::config::machine::{LEAST_MEMORY, MEMORY_UNIT, storage_path};
use model::table::short_size;

use crate::boot::{BootError, BootRequest, BootSpec};
use crate::install::{Error, InstallRequest, Installed, check_empty};
use crate::platform::Platform;
use crate::tree::{Meta, Tree};
use crate::{Brand, HostFacts};

pub use guest::{Kernel, MAX_BOOT_FILE_BYTES as MAX_KERNEL_BYTES, find_kernel, make_disk};
pub use options::{Firmware, Options, Source};

/// The kz brand.
#[derive(Debug)]
pub struct Kz;

const PLATFORM: Platform = Platform {
    name: "kz",
    ..Platform::LINUX
};

/// The path of the guest's kernel in the zone's root, as QEMU sees it.
pub const KERNEL: &str = "/boot/vmlinuz";
/// The path of the guest's initial RAM disk, as QEMU sees it.
pub const INITRD: &str = "/boot/initrd.img";

/// The folders of the root, and the links for their old names.
const DIRS: &[&str] = &[
    "boot",
    "dev",
    "etc",
    "proc",
    "run",
    "sys",
    "tmp",
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/share",
];
const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
];

/// Maximum number of processors of a QEMU guest.
const MAX_CPUS: u32 = 255;

impl Brand for Kz {
    fn platform(&self) -> &'static Platform {
        &PLATFORM
    }

    fn verify(&self, config: &Config, host: &HostFacts) -> Vec<String> {
        let mut problems = Vec::new();
        if vm::program::path(&host.root).is_none() {
            problems.push(format!(
                "could not verify brand {}: {}",
                config.brand(),
                vm::program::missing()
            ));
        }
        if !cfg!(target_arch = "x86_64") {
            problems.push("could not verify brand kz: only for x86_64".to_owned());
        }
        if config.zonepath().as_os_str().is_empty() {
            problems.push(
                "could not verify zonepath: not set; the disks and the record of the machine are stored there"
                    .to_owned(),
            );
        }
        let cpus = config.machine_cpus();
        if !(1..=MAX_CPUS).contains(&cpus) {
            problems.push(format!(
                "could not verify virtual-cpu: {cpus} processors; a machine has 1 to {MAX_CPUS}"
            ));
        }
        problems.extend(memory(config.machine_memory()));
        problems.extend(disks(config));
        let certificates = config.verified_boot().map(|one| one.certificates);
        for uri in certificates.iter().flatten() {
            if storage_path(uri).is_none() {
                problems.push(format!(
                    "could not verify verified-boot cert={uri}: certificates are on this host here: file:///PATH"
                ));
            }
        }
        problems
    }

    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error> {
        let root = Tree::open(request.root)?;
        check_empty(&root)?;
        let mut done = Installed::default();
        for dir in DIRS {
            if root.make_dir(Path::new(dir), Meta::root(0o755))? {
                done.directories += 1;
            }
        }
        for (link, target) in LINKS {
            root.symlink(Path::new(link), Path::new(target), 0, 0)?;
            done.links += 1;
        }
        Ok(done)
    }

    fn boot(&self, _request: &BootRequest<'_>) -> Result<BootSpec, BootError> {
        // The verb makes QEMU's command line, so there is nothing to choose here.
        Err(BootError::None("nothing: a machine has no init".to_owned()))
    }
}

fn memory(memory: u64) -> Option<String> {
    let why = if memory < LEAST_MEMORY {
        format!("less than {}", short_size(LEAST_MEMORY))
    } else if memory % MEMORY_UNIT != 0 {
        format!("not a whole number of {}", short_size(MEMORY_UNIT))
    } else {
        return None;
    };
    Some(format!(
        "could not verify capped-memory physical={}: {why}, for the memory of a machine",
        short_size(memory)
    ))
}

/// Maximum number of disks of a guest: the slots that the other devices leave.
const MAX_DISKS: usize = 20;

fn disks(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    let disks = config.machine_disks();
    if disks.is_empty() {
        problems.push(
            "could not verify device: a kernel zone needs a disk: add device with storage"
                .to_owned(),
        );
    }
    if disks.len() > MAX_DISKS {
        problems.push(format!(
            "could not verify device: {} disks; a machine has at most {MAX_DISKS}",
            disks.len()
        ));
    }
    for disk in &disks {
        if storage_path(&disk.storage).is_none() {
            problems.push(format!(
                "could not verify device storage={}: storage is on this host here: file:///PATH or dev:/PATH",
                disk.storage
            ));
        }
    }
    for disk in &disks {
        let possible = 512..=vm::image::MAX_DISK_BYTES;
        let fits = |size: &u64| possible.contains(size) && size % 512 == 0;
        if disk.size.is_some_and(|size| !fits(&size)) {
            problems.push(format!(
                "could not verify device id={}: size must be a multiple of 512 bytes, up to 64T",
                disk.id
            ));
        }
    }
    for (at, disk) in disks.iter().enumerate() {
        let same = |other: &&model::config::machine::MachineDisk| {
            other.id == disk.id || storage_path(&other.storage) == storage_path(&disk.storage)
        };
        if disks[..at].iter().any(|other| same(&other)) {
            problems.push(format!(
                "could not verify device storage={}: another disk has its id {} or its storage",
                disk.storage, disk.id
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use model::config::Resource;

    use super::*;

    fn config(commands: &[(&str, &[(&str, &str)])]) -> Config {
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "kz").unwrap();
        config.set("ip-type", "exclusive").unwrap();
        config.set_zonepath("/zones/k1").unwrap();
        for (name, properties) in commands {
            let mut one = Resource::new(model::table::resource(name).unwrap());
            for (property, value) in *properties {
                one.set(property, value).unwrap();
            }
            config.add(one).unwrap();
        }
        config
    }

    fn verify(config: &Config) -> Vec<String> {
        let host = tempfile::tempdir().unwrap();
        let bin = host.path().join("usr/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("qemu-system-x86_64"), "").unwrap();
        Kz.verify(
            config,
            &HostFacts {
                root: host.path().to_owned(),
            },
        )
    }

    #[test]
    fn every_problem_is_told() {
        let disk: (&str, &[(&str, &str)]) = ("device", &[("storage", "file:///zones/k1/disk0")]);
        assert_eq!(verify(&config(&[disk])), [""; 0]);
        let bad = config(&[
            (
                "device",
                &[("storage", "iscsi://x/luname.naa.1"), ("id", "1")],
            ),
            ("device", &[("storage", "dev:/dev/sdx"), ("id", "2")]),
            ("device", &[("storage", "/dev/sdx"), ("id", "3")]),
            ("virtual-cpu", &[("ncpus", "300")]),
            ("capped-memory", &[("physical", "32m")]),
            ("verified-boot", &[("cert", "https://x/y.pem")]),
        ]);
        let problems = verify(&bad);
        for (problem, expected) in problems.iter().zip([
            "300 processors",
            "less than 64M",
            "storage is on this host",
            "another disk",
            "certificates are on this host",
        ]) {
            assert!(problem.contains(expected), "{problem}");
        }
        assert_eq!(problems.len(), 5);
        assert!(verify(&config(&[]))[0].contains("needs a disk"));
    }

    #[test]
    fn a_missing_qemu_names_the_package_to_install() {
        let host = tempfile::tempdir().unwrap();
        let facts = HostFacts {
            root: host.path().to_owned(),
        };
        let problems = Kz.verify(&config(&[]), &facts);
        assert!(problems[0].contains("install the package qemu-system-x86"));
    }
}
