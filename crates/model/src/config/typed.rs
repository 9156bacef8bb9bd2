//! What the rest of the system asks a configuration, in proper types.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, Error, Value};
use crate::brands::{self, Brand, Family};
use crate::table;

/// Whose network stack the zone uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpType {
    /// The host's, within the addresses it is given.
    Shared,
    /// Its own.
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

/// A file system to mount in the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The mount point as the zone sees it.
    pub dir: PathBuf,
    /// A host directory, a device, or what else the type takes.
    pub special: String,
    /// The raw device to check first.
    pub raw: Option<PathBuf>,
    /// The type; `lofs` is a bind of a host directory.
    pub fstype: String,
    /// The mount options.
    pub options: Vec<String>,
}

impl Config {
    /// The directory of the zone, with its tokens expanded; empty when not set.
    #[must_use]
    pub fn zonepath(&self) -> PathBuf {
        self.expanded("zonepath", self.get("zonepath")).into()
    }

    /// Sets the directory of the zone.
    pub fn set_zonepath(&mut self, zonepath: &str) -> Result<(), Error> {
        self.set("zonepath", zonepath)
    }

    /// The brand's name as configured.
    #[must_use]
    pub fn brand(&self) -> &str {
        self.get("brand")
    }

    /// What the brand acts as. Only known brands get into a configuration;
    /// were there another, it would act as native.
    #[must_use]
    pub fn family(&self) -> Family {
        brands::find(self.brand()).map_or(Family::Native, |brand: &Brand| brand.family)
    }

    /// Whether the zone boots with the host.
    #[must_use]
    pub fn autoboot(&self) -> bool {
        self.get("autoboot") == "true"
    }

    /// The arguments for boots that name none.
    #[must_use]
    pub fn bootargs(&self) -> &str {
        self.get("bootargs")
    }

    /// The privilege specification; empty means the default set.
    #[must_use]
    pub fn limitpriv(&self) -> &str {
        self.get("limitpriv")
    }

    /// The resource pool; empty means the default pool.
    #[must_use]
    pub fn pool(&self) -> &str {
        self.get("pool")
    }

    /// The scheduling class; empty means the host's.
    #[must_use]
    pub fn scheduling_class(&self) -> &str {
        self.get("scheduling-class")
    }

    /// The file system types the zone may mount.
    pub fn fs_allowed(&self) -> impl Iterator<Item = &str> {
        let types = self.get("fs-allowed").split(',');
        types.map(str::trim).filter(|one| !one.is_empty())
    }

    /// Whose network stack the zone uses.
    #[must_use]
    pub fn ip_type(&self) -> IpType {
        if self.get("ip-type") == "exclusive" {
            IpType::Exclusive
        } else {
            IpType::Shared
        }
    }

    /// The host id the zone sees, where it is not the host's.
    #[must_use]
    pub fn hostid(&self) -> Option<u32> {
        let text = self.get("hostid");
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }

    /// The value of the attr resource with this name.
    #[must_use]
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.resources_of("attr")
            .find(|(_, attr)| attr.get("name") == name)
            .map(|(_, attr)| attr.get("value"))
    }

    /// The file systems in the order in which they were added.
    pub fn filesystems(&self) -> impl Iterator<Item = FileSystem> {
        self.resources_of("fs").map(|(_, fs)| FileSystem {
            dir: self.expanded("dir", fs.get("dir")).into(),
            special: fs.get("special").to_owned(),
            raw: (!fs.get("raw").is_empty()).then(|| fs.get("raw").into()),
            fstype: fs.get("type").to_owned(),
            options: fs.list("options").iter().filter_map(simple).collect(),
        })
    }

    /// The directories shared with the host; any makes a sparse zone.
    #[must_use]
    pub fn inherited_dirs(&self) -> Vec<PathBuf> {
        self.resources_of("inherit-pkg-dir")
            .map(|(_, dir)| dir.get("dir").into())
            .collect()
    }

    /// Tokens were checked when the value was set; text that somehow has an
    /// unknown one stands as it is.
    fn expanded(&self, property: &str, text: &str) -> String {
        table::expand(property, text, self.name.as_str()).unwrap_or_else(|_| text.to_owned())
    }
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
    use crate::config::Resource;

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
}
