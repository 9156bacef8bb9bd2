//! Returns the properties of a configuration as Rust types, such as paths and numbers.

use std::fmt;
use std::path::PathBuf;

use label::Label;
use serde::{Deserialize, Serialize};

use super::{Config, Error, Resource, Value};
use crate::brands::{self, Brand, Family};
use crate::plan::network::{Published, Transport};
use crate::table;

/// The name of the attribute that decides if a zone boots again after a failure.
pub const RESTART: &str = "restart";

/// The value of [`RESTART`] for a zone that boots again after a failure.
pub const ON_FAILURE: &str = "on-failure";

/// The property with the sensitivity label of the zone.
pub const LABEL: &str = "label";

/// The owner of the network stack that the zone uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpType {
    /// The zone uses the host's network stack, and only the addresses that its configuration names.
    Shared,
    /// The zone has its own network stack.
    Exclusive,
}

impl fmt::Display for IpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}

/// The action on the zone when the host shuts down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Autoshutdown {
    /// The zone's init stops all processes in order.
    #[default]
    Shutdown,
    /// All processes of the zone are killed.
    Halt,
    /// The memory of the zone is saved, and the next boot of the zone resumes from it.
    Suspend,
}

/// The group in which a zone boots when the host boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BootPriority {
    /// The zone boots before all zones of other priorities.
    High,
    /// The zone boots after the high and before the low zones.
    #[default]
    Normal,
    /// The zone boots after all zones of other priorities.
    Low,
}

impl BootPriority {
    /// Every priority, in the order in which zones boot.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Returns the word of the priority in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// A file system to mount in the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The mount point as the zone sees it.
    pub dir: PathBuf,
    /// The source of the mount: a host directory, a device, or another source that the file system
    /// type accepts.
    pub special: String,
    /// The raw device that is checked before the mount.
    pub raw: Option<PathBuf>,
    /// The type of the file system; `lofs` is a bind mount of a host directory.
    pub fstype: String,
    /// The mount options.
    pub options: Vec<String>,
}

/// A user who may administer a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The name of the user.
    pub user: String,
    /// The authorizations of the user, as words of the table.
    pub auths: Vec<String>,
}

/// CPUs that only one zone may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedicatedCpu {
    /// The minimum and the maximum number of CPUs.
    pub ncpus: Option<(u32, u32)>,
    /// The importance of the zone's claim when the host has too few CPUs.
    pub importance: Option<u32>,
    /// The CPUs of the zone, as numbers and ranges.
    pub cpus: Vec<String>,
    /// The cores whose CPUs the zone has, as numbers and ranges.
    pub cores: Vec<String>,
    /// The sockets whose CPUs the zone has, as numbers and ranges.
    pub sockets: Vec<String>,
}

impl Config {
    /// Returns the directory of the zone, with its tokens expanded. The returned path is empty if
    /// no zonepath is set.
    #[must_use]
    pub fn zonepath(&self) -> PathBuf {
        let zonepath = self.get("zonepath");
        let spec = table::global("zonepath");
        let expanded = spec.and_then(|spec| self.expanded(spec, zonepath));
        expanded.unwrap_or_else(|| zonepath.to_owned()).into()
    }

    /// Sets the directory of the zone.
    pub fn set_zonepath(&mut self, zonepath: &str) -> Result<(), Error> {
        self.set("zonepath", zonepath)
    }

    /// Returns the sensitivity label of the zone, or `None` if the zone has no label.
    #[must_use]
    pub fn label(&self) -> Option<Label> {
        // The table accepts only labels.
        self.get(LABEL).parse().ok()
    }

    /// Returns the brand's name as configured.
    #[must_use]
    pub fn brand(&self) -> &str {
        self.get("brand")
    }

    /// Returns the behaviour of the brand. Configurations have only known brands; an unknown brand
    /// would behave like native.
    #[must_use]
    pub fn family(&self) -> Family {
        if self.name.is_global() {
            return Family::Global;
        }
        brands::find(self.brand()).map_or(Family::Native, |brand: &Brand| brand.family)
    }

    /// Returns true if the zone boots when the host boots.
    #[must_use]
    pub fn autoboot(&self) -> bool {
        self.get("autoboot") == "true"
    }

    /// Returns the action on the zone when the host shuts down.
    #[must_use]
    pub fn autoshutdown(&self) -> Autoshutdown {
        match self.get("autoshutdown") {
            "halt" => Autoshutdown::Halt,
            "suspend" => Autoshutdown::Suspend,
            _ => Autoshutdown::Shutdown,
        }
    }

    /// Returns the group in which the zone boots.
    #[must_use]
    pub fn boot_priority(&self) -> BootPriority {
        match self.get("boot-priority") {
            "high" => BootPriority::High,
            "low" => BootPriority::Low,
            _ => BootPriority::Normal,
        }
    }

    /// Returns the boot arguments for a boot that names no arguments.
    #[must_use]
    pub fn bootargs(&self) -> &str {
        self.get("bootargs")
    }

    /// Returns the privilege specification. An empty specification means the default set.
    #[must_use]
    pub fn limitpriv(&self) -> &str {
        self.get("limitpriv")
    }

    /// Returns the resource pool. An empty name means the default pool.
    #[must_use]
    pub fn pool(&self) -> &str {
        self.get("pool")
    }

    /// Returns the scheduling class. An empty name means the scheduling class of the host.
    #[must_use]
    pub fn scheduling_class(&self) -> &str {
        self.get("scheduling-class")
    }

    /// Returns the file system types that the zone may mount.
    pub fn fs_allowed(&self) -> impl Iterator<Item = &str> {
        let types = self.get("fs-allowed").split(',');
        types.map(str::trim).filter(|one| !one.is_empty())
    }

    /// Returns the owner of the network stack that the zone uses.
    #[must_use]
    pub fn ip_type(&self) -> IpType {
        if self.get("ip-type") == "exclusive" {
            IpType::Exclusive
        } else {
            IpType::Shared
        }
    }

    /// Returns the host id that the zone sees, or `None` if the zone sees the host's id.
    #[must_use]
    pub fn hostid(&self) -> Option<u32> {
        let text = self.get("hostid");
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }

    /// Returns the limit of the files of each new zone in bytes, which the global zone has, or `None` if
    /// no limit is set.
    #[must_use]
    pub fn default_quota(&self) -> Option<u64> {
        // The table accepts only sizes, which it stores in bytes, `none` and an empty text.
        self.get("default-quota").parse().ok()
    }

    /// Returns the value of the attr resource with this name.
    #[must_use]
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.resources_of("attr")
            .find(|attr| attr.get("name") == name)
            .map(|attr| attr.get("value"))
    }

    /// Returns true if the zone boots again after it ended without a command of the administrator.
    #[must_use]
    pub fn restarts_on_failure(&self) -> bool {
        self.attr(RESTART) == Some(ON_FAILURE)
    }

    /// Returns the file systems in the order in which they were added.
    pub fn filesystems(&self) -> impl Iterator<Item = FileSystem> {
        self.resources_of("fs").map(|fs| FileSystem {
            dir: self.text(fs, "dir").into(),
            special: fs.get("special").to_owned(),
            raw: (!fs.get("raw").is_empty()).then(|| fs.get("raw").into()),
            fstype: fs.get("type").to_owned(),
            options: fs.list("options").iter().filter_map(simple).collect(),
        })
    }

    /// Returns the ports of the host that lead to the zone. Incomplete publish resources are left
    /// out; `verify` reports them.
    #[must_use]
    pub fn published(&self) -> Vec<Published> {
        let resources = self.resources_of("publish");
        resources.filter_map(published_by).collect()
    }

    /// Returns the directories that the zone shares with the host. A zone that shares directories
    /// with the host is a sparse zone.
    #[must_use]
    pub fn inherited_dirs(&self) -> Vec<PathBuf> {
        self.resources_of("inherit-pkg-dir")
            .map(|dir| dir.get("dir").into())
            .collect()
    }

    /// Returns the devices of the host that the zone can use, as paths or patterns. If the zone
    /// administers datasets, the devices include `/dev/zfs`.
    pub fn device_patterns(&self) -> impl Iterator<Item = String> {
        let devices = self.resources_of("device");
        let zfs = self.datasets().next().map(|_| "/dev/zfs".to_owned());
        devices
            .map(|device| self.text(device, "match"))
            .filter(|text| !text.is_empty())
            .chain(zfs)
    }

    /// Returns the ZFS datasets that the zone administers.
    pub fn datasets(&self) -> impl Iterator<Item = String> {
        self.resources_of("dataset")
            .map(|dataset| self.text(dataset, "name"))
    }

    /// Returns the users who may administer the zone.
    pub fn admins(&self) -> impl Iterator<Item = Admin> {
        self.resources_of("admin").map(|admin| Admin {
            user: admin.get("user").to_owned(),
            auths: admin.get("auths").split(',').map(str::to_owned).collect(),
        })
    }

    /// Returns the limit of a resource control such as `zone.max-lwps`: the lowest of its values.
    /// As on Solaris, a limit of threads or processes with the action `none` does not count. The
    /// action of all other resource controls has no effect.
    #[must_use]
    pub fn rctl_limit(&self, rctl: &str) -> Option<u64> {
        let mut found = self
            .resources_of("rctl")
            .filter(|one| one.get("name") == rctl);
        let values = found.next()?.list("value").iter();
        let may_pass = ["zone.max-lwps", "zone.max-processes"].contains(&rctl);
        values
            .filter(|value| !(may_pass && value.field("action") == Some("none")))
            .filter_map(|value| value.field("limit")?.parse().ok())
            .min()
    }

    /// Returns the maximum of physical memory in bytes. For a kernel zone, physical memory is the
    /// memory of the guest.
    #[must_use]
    pub fn capped_memory_physical(&self) -> Option<u64> {
        self.resources_of("capped-memory")
            .next()?
            .get("physical")
            .parse()
            .ok()
    }

    /// Returns the CPUs that only this zone may use.
    #[must_use]
    pub fn dedicated_cpu(&self) -> Option<DedicatedCpu> {
        let one = self.resources_of("dedicated-cpu").next()?;
        let list = |name| one.list(name).iter().filter_map(simple).collect();
        Some(DedicatedCpu {
            ncpus: table::cpu_range(one.get("ncpus")),
            importance: one.get("importance").parse().ok(),
            cpus: list("cpus"),
            cores: list("cores"),
            sockets: list("sockets"),
        })
    }

    /// Returns a property of a resource with its tokens expanded.
    pub(super) fn text(&self, resource: &Resource, property: &str) -> String {
        let text = resource.get(property);
        self.expanded_in(resource, property, text)
            .unwrap_or_else(|| text.to_owned())
    }
}

/// Returns the ports that a `publish` resource names, or `None` if the resource names no ports.
pub(crate) fn published_by(resource: &Resource) -> Option<Published> {
    let (first, last) = table::port_range(resource.get("host-port"))?;
    let inside = match resource.get("zone-port") {
        "" => first,
        ports => table::port_range(ports)?.0,
    };
    Some(Published {
        protocol: match resource.get("protocol") {
            "udp" => Transport::Udp,
            _ => Transport::Tcp,
        },
        address: resource.get("host-address").parse().ok(),
        first,
        last,
        inside,
    })
}

fn simple(value: &Value) -> Option<String> {
    match value {
        Value::Simple(text) => Some(text.clone()),
        Value::Complex(_) | Value::List(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneName;

    fn resource(name: &str, properties: &[(&str, &str)]) -> Resource {
        let mut resource = Resource::new(table::resource(name).unwrap());
        for (property, value) in properties {
            resource.set(property, value).unwrap();
        }
        resource
    }

    #[test]
    fn tokens_follow_a_rename() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/%{zonename}").unwrap();
        assert_eq!(config.zonepath(), PathBuf::from("/zones/web1"));
        config.rename("web2".parse().unwrap());
        assert_eq!(config.zonepath(), PathBuf::from("/zones/web2"));
    }

    #[test]
    fn defaults_of_an_empty_configuration() {
        let config = Config::new("web1".parse().unwrap());
        assert_eq!(config.zonepath(), PathBuf::new());
        assert_eq!(config.brand(), "native");
        assert_eq!(config.ip_type(), IpType::Shared);
        assert!(!config.autoboot());
        assert_eq!(config.hostid(), None);
        assert_eq!(config.fs_allowed().count(), 0);
    }

    #[test]
    fn the_default_quota_is_in_bytes() {
        let mut global = Config::new(ZoneName::global());
        assert_eq!(global.default_quota(), None);
        global.set("default-quota", "20G").unwrap();
        assert_eq!(global.default_quota(), Some(20 << 30));
        global.set("default-quota", "none").unwrap();
        assert_eq!(global.default_quota(), None);
    }

    #[test]
    fn resources_come_out_in_their_types() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("hostid", "0xBEEF").unwrap();
        config.set("fs-allowed", "ext4, tmpfs").unwrap();
        let mut data = resource(
            "fs",
            &[
                ("dir", "/data/%{zonename}"),
                ("special", "/srv"),
                ("type", "lofs"),
            ],
        );
        data.add_value("options", "ro".into()).unwrap();
        config.add(data).unwrap();
        config
            .add(resource("inherit-pkg-dir", &[("dir", "/usr")]))
            .unwrap();
        config
            .add(resource(
                "attr",
                &[("name", "init"), ("type", "string"), ("value", "/x")],
            ))
            .unwrap();
        assert_eq!(config.hostid(), Some(0xbeef));
        assert_eq!(config.fs_allowed().collect::<Vec<_>>(), ["ext4", "tmpfs"]);
        assert_eq!(config.attr("init"), Some("/x"));
        assert_eq!(config.attr("other"), None);
        for (value, restarts) in [("on-failure", true), ("never", false), ("always", false)] {
            let mut config = config.clone();
            let properties = [("name", RESTART), ("type", "string"), ("value", value)];
            config.add(resource("attr", &properties)).unwrap();
            assert_eq!(config.restarts_on_failure(), restarts, "{value}");
        }
        assert!(!config.restarts_on_failure());
        assert_eq!(config.inherited_dirs(), [PathBuf::from("/usr")]);
        let expected = FileSystem {
            dir: "/data/web1".into(),
            special: "/srv".to_owned(),
            raw: None,
            fstype: "lofs".to_owned(),
            options: vec!["ro".to_owned()],
        };
        assert_eq!(config.filesystems().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn a_number_that_denies_nothing_is_no_limit() {
        let value = |limit: &str, action: &str| {
            let fields = [("priv", "privileged"), ("limit", limit), ("action", action)];
            Value::Complex(fields.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec())
        };
        let limit = |name: &str, values: &[Value]| {
            let mut config = Config::new("web1".parse().unwrap());
            let mut rctl = resource("rctl", &[("name", name)]);
            rctl.set_value("value", Value::List(values.to_vec()))
                .unwrap();
            config.add(rctl).unwrap();
            config.rctl_limit(name)
        };
        let (low, high) = (value("5", "none"), value("9", "deny"));
        assert_eq!(limit("zone.max-lwps", std::slice::from_ref(&low)), None);
        let both = [low.clone(), high];
        assert_eq!(limit("zone.max-processes", &both), Some(9));
        assert_eq!(
            limit("zone.cpu-shares", std::slice::from_ref(&low)),
            Some(5)
        );
        assert_eq!(limit("zone.cpu-cap", &[low]), Some(5));
    }
}
