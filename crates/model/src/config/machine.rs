//! Reads the settings of a kernel zone's guest from the zone's configuration.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Config, Value};
use crate::brands::Family;
use crate::table;

/// Memory of a guest whose configuration does not set the size, in bytes.
pub const MEMORY: u64 = 4 << 30;

/// Unit of a guest's memory, in bytes: the size must be a multiple of this unit.
pub const MEMORY_UNIT: u64 = 1 << 20;

/// Minimum memory in which a guest's kernel starts, in bytes.
pub const LEAST_MEMORY: u64 = 64 << 20;

/// Number of processors of a guest whose configuration does not set the number.
const CPUS: u32 = 1;

/// Returns the path on this host that a storage URI names: `file:///PATH`, `dev:/PATH`, or the path
/// itself. Storage on another host has no path.
#[must_use]
pub fn storage_path(uri: &str) -> Option<PathBuf> {
    let path = match uri.split_once(':') {
        Some(("file" | "dev", rest)) => match rest.strip_prefix("//") {
            Some(path) => path.strip_prefix("localhost").unwrap_or(path),
            None => rest,
        },
        _ => uri,
    };
    let path = Path::new(path);
    let plain = |part| matches!(part, Component::Normal(_) | Component::RootDir);
    (path.is_absolute() && path.components().all(plain)).then(|| path.to_owned())
}

/// The source of the key that protects the memory image of a suspended guest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// The key is in a file in the zonepath. If the key file is missing, it is created.
    Own(PathBuf),
    /// The key is in a file of the host.
    File(PathBuf),
    /// The key itself is in the configuration.
    Raw(String),
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(path) | Self::File(path) => path.fmt(f),
            Self::Raw(_) => f.write_str("raw"),
        }
    }
}

/// The rules for signatures of loaders and kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedBoot {
    /// True if the guest may start only loaders and kernels with a trusted signature. False if
    /// signatures are not checked, and each boot only says so.
    pub enforced: bool,
    /// URIs of further trusted certificates, beside the certificates that sign most loaders.
    pub certificates: Vec<String>,
}

/// A disk of a kernel zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDisk {
    /// The number of the disk.
    pub id: u32,
    /// The position of the disk in the boot order, if the configuration sets one.
    pub boot: Option<u32>,
    /// The location of the guest's disk: a storage URI, or the path of a device.
    pub storage: String,
    /// The size that the disk must have, in bytes, if the configuration sets one.
    pub size: Option<u64>,
}

impl Config {
    /// Returns the memory of the guest in bytes.
    #[must_use]
    pub fn machine_memory(&self) -> u64 {
        self.capped_memory_physical().unwrap_or(MEMORY)
    }

    /// Returns the number of bytes that QEMU needs beside the guest's memory, for its own data and
    /// for translated instructions.
    #[must_use]
    pub fn machine_overhead(&self) -> u64 {
        (512 << 20) + self.machine_memory() / 32
    }

    /// Returns the path of the image of the suspended guest, or `None` if the configuration sets no
    /// path.
    #[must_use]
    pub fn suspend_path(&self) -> Option<PathBuf> {
        let one = self.resources_of("suspend").next()?;
        match self.text(one, "path") {
            path if path.is_empty() => storage_path(&self.text(one, "storage")),
            path => Some(path.into()),
        }
    }

    /// Returns the key source of the `keysource` resource, or `None` if the zone uses its own key.
    #[must_use]
    pub fn keysource(&self) -> Option<KeySource> {
        let one = self.resources_of("keysource").next()?;
        Some(match self.text(one, "file") {
            path if path.is_empty() => KeySource::Raw(one.get("raw").to_owned()),
            path => KeySource::File(path.into()),
        })
    }

    /// Returns the rules of the `verified-boot` resource, or `None` if no signatures are checked.
    #[must_use]
    pub fn verified_boot(&self) -> Option<VerifiedBoot> {
        let mut resources = self.resources_of("verified-boot");
        let one = resources.find(|one| one.get("policy") != "none")?;
        let certificates = one.list("cert").iter().filter_map(|value| match value {
            Value::Simple(uri) => Some(uri.clone()),
            _ => None,
        });
        Some(VerifiedBoot {
            enforced: one.get("policy") == "enforce",
            certificates: certificates.collect(),
        })
    }

    /// Returns true if the configuration has a value that only root may read.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        let set = |one: &super::Resource| {
            let mut properties = one.spec().properties.iter();
            properties.any(|spec| spec.secret && one.is_set(spec.name))
        };
        self.resources.iter().any(set)
    }

    /// Returns true if large pages may hold the guest's memory.
    #[must_use]
    pub fn machine_large_pages(&self) -> bool {
        self.resources_of("capped-memory")
            .all(|one| one.get("pagesize-policy") != "smallest-only")
    }

    /// Returns the number of processors of the guest. For a range of processors, returns the upper
    /// end, because the number cannot change while the guest runs.
    #[must_use]
    pub fn machine_cpus(&self) -> u32 {
        let one = self.resources_of("virtual-cpu").next();
        let range = one.and_then(|one| table::cpu_range(one.get("ncpus")));
        range.map_or(CPUS, |(_, most)| most)
    }

    /// Returns the disks of the guest, in the order of their numbers. Zones of other brands have no
    /// disks.
    #[must_use]
    pub fn machine_disks(&self) -> Vec<MachineDisk> {
        if self.family() != Family::Kz {
            return Vec::new();
        }
        let mut disks: Vec<MachineDisk> = self
            .resources_of("device")
            .filter_map(|device| {
                let storage = ["storage", "match"]
                    .into_iter()
                    .map(|name| self.text(device, name))
                    .find(|text| !text.is_empty())?;
                Some(MachineDisk {
                    id: device.get("id").parse().unwrap_or(0),
                    boot: device.get("bootpri").parse().ok(),
                    storage,
                    size: device.get("size").parse().ok(),
                })
            })
            .collect();
        disks.sort_by_key(|disk| disk.id);
        disks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;

    fn config(resources: &[(&str, &[(&str, &str)])]) -> Config {
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "kz").unwrap();
        for (name, properties) in resources {
            let mut one = Resource::new(table::resource(name).unwrap());
            for (property, value) in *properties {
                one.set(property, value).unwrap();
            }
            config.add(one).unwrap();
        }
        config
    }

    #[test]
    fn storage_is_a_path_of_this_host() {
        for (uri, path) in [
            ("file:///d/x", Some("/d/x")),
            ("file://localhost/d/x", Some("/d/x")),
            ("dev:/dev/sdx", Some("/dev/sdx")),
            ("dev:///dev/sdx", Some("/dev/sdx")),
            ("/dev/zvol/x", Some("/dev/zvol/x")),
            ("dev:sdx", None),
            ("iscsi://host/luname.naa.1", None),
            ("file:///d/../x", None),
            ("d", None),
        ] {
            assert_eq!(storage_path(uri), path.map(PathBuf::from), "{uri}");
        }
    }

    #[test]
    fn unset_properties_have_defaults() {
        let config = config(&[]);
        assert_eq!(config.machine_memory(), 4 << 30);
        assert_eq!(config.machine_cpus(), 1);
        assert!(config.machine_large_pages());
        assert_eq!(config.machine_disks(), []);
        assert_eq!(config.suspend_path(), None);
    }

    #[test]
    fn a_policy_of_none_disables_verified_boot() {
        assert_eq!(config(&[]).verified_boot(), None);
        let none = config(&[("verified-boot", &[("policy", "none")])]);
        assert_eq!(none.verified_boot(), None);
        let plain = config(&[("verified-boot", &[])]).verified_boot().unwrap();
        assert!(!plain.enforced && plain.certificates.is_empty());
        let config = config(&[(
            "verified-boot",
            &[("policy", "enforce"), ("cert", "file:///etc/keys/a.pem")],
        )]);
        let found = config.verified_boot().unwrap();
        assert!(found.enforced);
        assert_eq!(found.certificates, ["file:///etc/keys/a.pem"]);
    }

    #[test]
    fn disks_come_in_the_order_of_their_numbers() {
        let config = config(&[
            ("virtual-cpu", &[("ncpus", "2-4")]),
            (
                "device",
                &[("storage", "file:///d/%{zonename}/disk%{id}"), ("id", "3")],
            ),
            (
                "device",
                &[("storage", "dev:/dev/sdx"), ("bootpri", "0"), ("id", "1")],
            ),
        ]);
        assert_eq!(config.machine_cpus(), 4);
        let disks = config.machine_disks();
        assert_eq!((disks[0].id, disks[0].boot), (1, Some(0)));
        for (name, value) in [("path", "/z/%{zonename}/s"), ("storage", "file:///z/k1/s")] {
            let config = self::config(&[("suspend", &[(name, value)])]);
            assert_eq!(config.suspend_path(), Some(PathBuf::from("/z/k1/s")));
        }
        assert_eq!(disks[1].storage, "file:///d/k1/disk3");
    }
}
