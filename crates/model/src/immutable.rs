//! Immutable zones: the files that a zone with a `file-mac-profile` can and cannot change.
//!
//! The zone's root is mounted read-only. Further mounts of the same file system lie over it: some
//! folders stay writable, and in these folders other files stay read-only, such as the record of
//! the installed packages. The folders between both are mounts too, because the kernel lets nobody
//! rename a mount point. Otherwise, root of the zone could rename `/var/lib` and make another one.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Config;

/// The property of a zone that selects its profile.
pub const PROPERTY: &str = "file-mac-profile";

/// The value of the property for zones that have zones of their own, which no zone has here.
pub const DYNAMIC: &str = "dynamic-zones";

/// A profile: the files that an immutable zone cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The zone changes no file that outlives a boot.
    Strict,
    /// The zone changes its data: most of /var, and /home, /srv and /opt.
    FixedConfiguration,
    /// The zone also changes its configuration in /etc, and root's home.
    FlexibleConfiguration,
}

impl Profile {
    /// Every profile, the strictest first.
    pub const ALL: [Self; 3] = [
        Self::Strict,
        Self::FixedConfiguration,
        Self::FlexibleConfiguration,
    ];

    /// Returns the profile of a configuration; `None` for a zone that is not immutable.
    #[must_use]
    pub fn of(config: &Config) -> Option<Self> {
        let value = config.get(PROPERTY);
        Self::ALL.into_iter().find(|one| one.name() == value)
    }

    /// Returns the value of the property.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::FixedConfiguration => "fixed-configuration",
            Self::FlexibleConfiguration => "flexible-configuration",
        }
    }

    /// Returns the top folders that stay writable. Each is a folder below the root of the zone.
    const fn writable(self) -> &'static [&'static str] {
        match self {
            Self::Strict => &[],
            Self::FixedConfiguration => &["/home", "/opt", "/srv", "/var"],
            Self::FlexibleConfiguration => &["/etc", "/home", "/opt", "/root", "/srv", "/var"],
        }
    }

    /// Returns the folders of which every boot makes a new, empty one in memory. `/run` is not in
    /// the list, because every zone has it in memory.
    #[must_use]
    pub const fn in_memory(self) -> &'static [&'static str] {
        match self {
            Self::Strict => &["/tmp", "/var/tmp"],
            Self::FixedConfiguration | Self::FlexibleConfiguration => &["/tmp"],
        }
    }

    /// Returns the mounts over the read-only root.
    #[must_use]
    pub fn layout(self) -> Layout {
        let tops: Vec<PathBuf> = self.writable().iter().map(PathBuf::from).collect();
        let below = |path: &Path| tops.iter().any(|top| path.starts_with(top));
        let kept: Vec<Kept> = KEPT
            .iter()
            .filter(|row| below(Path::new(row.path)))
            .map(|row| Kept {
                path: row.path.into(),
                made: row.made,
            })
            .collect();
        let mut pinned: Vec<PathBuf> = Vec::new();
        for one in &kept {
            let between = one.path.ancestors().skip(1);
            for folder in between.take_while(|folder| below(folder) && !is_top(folder)) {
                if !pinned.iter().any(|other| other == folder) {
                    pinned.push(folder.to_owned());
                }
            }
        }
        // An outer folder is mounted before the folders in it.
        pinned.sort();
        Layout {
            profile: self,
            writable: tops,
            pinned,
            kept,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns true for a folder that lies directly in the root of the zone.
fn is_top(path: &Path) -> bool {
    path.components().count() == 2
}

/// A file or folder that stays read-only in a writable folder.
struct Row {
    path: &'static str,
    /// True if the boot makes a missing folder: an empty folder means that nothing is configured,
    /// and root of the zone could otherwise make the folder.
    made: bool,
}

const fn kept(path: &'static str) -> Row {
    Row { path, made: false }
}

const fn made(path: &'static str) -> Row {
    Row { path, made: true }
}

/// The files and folders that stay read-only in writable folders, of every distribution: the
/// record of the packages, downloaded packages, the sources of packages, and programs that a
/// service starts by itself after a boot. A zone has only some of them.
const KEPT: &[Row] = &[
    // Debian and Ubuntu.
    kept("/etc/apt"),
    kept("/etc/dpkg"),
    kept("/var/cache/apt"),
    kept("/var/lib/apt"),
    kept("/var/lib/dpkg"),
    // Fedora, Red Hat and SUSE.
    kept("/etc/dnf"),
    kept("/etc/yum"),
    kept("/etc/yum.conf"),
    kept("/etc/yum.repos.d"),
    kept("/etc/zypp"),
    kept("/var/cache/dnf"),
    kept("/var/cache/libdnf5"),
    kept("/var/cache/yum"),
    kept("/var/cache/zypp"),
    kept("/var/lib/alternatives"),
    kept("/var/lib/dnf"),
    kept("/var/lib/rpm"),
    kept("/var/lib/yum"),
    kept("/var/lib/zypp"),
    // Alpine and Arch.
    kept("/etc/apk"),
    kept("/etc/pacman.conf"),
    kept("/etc/pacman.d"),
    kept("/var/cache/apk"),
    kept("/var/cache/pacman"),
    kept("/var/lib/apk"),
    kept("/var/lib/pacman"),
    // Packages of all distributions.
    kept("/var/lib/flatpak"),
    kept("/var/lib/snapd"),
    // Jobs of cron and at, scripts of cloud-init, and services of users without a login.
    made("/var/spool/cron"),
    made("/var/spool/at"),
    kept("/var/spool/incron"),
    kept("/var/lib/cloud"),
    made("/var/lib/systemd/linger"),
];

/// The mounts over the read-only root of an immutable zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The profile of the zone.
    pub profile: Profile,
    /// The folders that stay writable, absolute in the zone.
    pub writable: Vec<PathBuf>,
    /// The writable folders that root of the zone cannot rename or remove.
    pub pinned: Vec<PathBuf>,
    /// The files and folders that stay read-only in writable folders.
    pub kept: Vec<Kept>,
}

/// A file or folder that stays read-only in a writable folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The path, absolute in the zone.
    pub path: PathBuf,
    /// True if the boot makes a missing folder, provided that the folder above exists.
    pub made: bool,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lay out {}", self.profile)?;
        if self.writable.is_empty() {
            return f.write_str(": no folder is writable");
        }
        f.write_str(": writable")?;
        self.writable
            .iter()
            .try_for_each(|path| write!(f, " {}", path.display()))?;
        f.write_str(", but not")?;
        self.kept
            .iter()
            .try_for_each(|one| write!(f, " {}", one.path.display()))
    }
}

/// The use of its profile that a boot makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// The profile is in force.
    #[default]
    Sealed,
    /// The zone is writable until its next boot (`boot -w`).
    Writable,
    /// The zone is writable until its services have started, and then reboots by itself: at the
    /// first boot after its installation, and with `boot -W`.
    Assembling,
}

/// The profile of a boot of an immutable zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Immutable {
    /// The profile of the zone.
    pub profile: Profile,
    /// The use that the boot makes of the profile.
    pub access: Access,
}

impl Immutable {
    /// Returns true if the zone cannot change the files of its profile.
    #[must_use]
    pub fn is_sealed(self) -> bool {
        self.access == Access::Sealed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<Profile> {
        let mut config = Config::new("web".parse().unwrap());
        config.set(PROPERTY, value).unwrap();
        Profile::of(&config)
    }

    #[test]
    fn a_zone_without_a_profile_is_not_immutable() {
        assert_eq!(of(""), None);
        assert_eq!(of("none"), None);
        for profile in Profile::ALL {
            assert_eq!(of(profile.name()), Some(profile));
            assert_eq!(profile.to_string(), profile.name());
        }
    }

    #[test]
    fn strict_has_no_writable_folder() {
        let layout = Profile::Strict.layout();
        assert!(layout.writable.is_empty() && layout.pinned.is_empty() && layout.kept.is_empty());
        assert_eq!(layout.to_string(), "lay out strict: no folder is writable");
    }

    #[test]
    fn every_folder_between_a_writable_and_a_read_only_one_is_pinned() {
        for profile in Profile::ALL {
            let layout = profile.layout();
            for one in &layout.kept {
                let mut folders = one.path.ancestors().skip(1).collect::<Vec<_>>();
                // The root is no mount point that the zone could rename.
                folders.retain(|folder| *folder != Path::new("/"));
                let (top, between) = folders.split_last().unwrap();
                assert!(layout.writable.iter().any(|path| path == top), "{top:?}");
                for folder in between {
                    assert!(
                        layout.pinned.iter().any(|path| path == folder),
                        "{folder:?}"
                    );
                }
            }
            let sorted = layout.pinned.is_sorted();
            assert!(sorted, "{:?}", layout.pinned);
        }
        let pinned = Profile::FixedConfiguration.layout().pinned;
        let expected = ["/var/cache", "/var/lib", "/var/lib/systemd", "/var/spool"];
        assert_eq!(pinned, expected.map(PathBuf::from));
    }

    #[test]
    fn configuration_is_writable_in_one_profile_only() {
        let has = |profile: Profile, path: &str| {
            let layout = profile.layout();
            layout.writable.iter().any(|one| one == Path::new(path))
        };
        assert!(has(Profile::FlexibleConfiguration, "/etc"));
        assert!(!has(Profile::FixedConfiguration, "/etc"));
        assert!(has(Profile::FixedConfiguration, "/var"));
        let kept = |profile: Profile| profile.layout().kept;
        let apt = |list: Vec<Kept>| list.iter().any(|one| one.path == Path::new("/etc/apt"));
        assert!(apt(kept(Profile::FlexibleConfiguration)));
        assert!(!apt(kept(Profile::FixedConfiguration)));
    }

    #[test]
    fn no_folder_of_a_layout_lies_outside_the_root() {
        for row in KEPT {
            let path = Path::new(row.path);
            assert!(path.is_absolute());
            let plain = |part| !matches!(part, std::path::Component::ParentDir);
            assert!(path.components().all(plain), "{path:?}");
        }
    }
}
