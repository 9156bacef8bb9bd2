//! Lists the packages of a zone and of the host.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use model::Config;
use packages::Inventory;
use packages::inventory::Key;
use rustix::fs::{CWD, Mode, OFlags, openat};
use storage::{Stack, driver_at};
use store::xml::manifest::{Manifest, Package};

use crate::root_view;
use host::error::flatten;
use host::{Error, Host};

/// The files that name the system in a root.
const OS_RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

/// Maximum number of bytes that are read from os-release.
const MAX_OS_RELEASE: u64 = 64 << 10;

/// A system: its package inventory, and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    pub(crate) inventory: Inventory,
    /// The name of the system, for example `debian 12`; empty if os-release does not contain it.
    pub(crate) name: String,
    /// The file that cannot be read, and the reason. The inventory is then empty. `None` if the
    /// inventory is known.
    pub(crate) unknown: Option<String>,
}

impl System {
    /// Returns the warning of a verb that continues without the inventory of a zone.
    pub fn warning(&self) -> Option<String> {
        let reason = self.unknown.as_ref()?;
        Some(format!(
            "its packages are not known: {reason}; no packages are compared or recorded."
        ))
    }

    /// Fails if the inventory is unknown.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`], which names the file and the reason.
    pub(crate) fn known(self) -> Result<Self, Error> {
        match &self.unknown {
            None => Ok(self),
            Some(reason) => Err(Error::Refused(format!(
                "its packages are not known: {reason}; mend that file in the zone."
            ))),
        }
    }
}

/// Returns the host's own system.
pub(crate) fn of_host(root: &Path) -> Result<System, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, root, flags, Mode::empty())
        .map_err(|errno| Error::Io(format!("open {}", root.display()), errno.into()))?;
    let system = of_root(&fd);
    match &system.unknown {
        None => Ok(system),
        Some(reason) => Err(Error::Refused(format!(
            "the packages of this host are not known: {reason}."
        ))),
    }
}

/// Returns the system in a zone, which may be running. If the zone's package list cannot be read,
/// the inventory is unknown: root in the zone may have damaged this list.
pub fn of_zone(host: &Host, zonepath: &Path, config: &Config) -> Result<System, Error> {
    let stack = driver_at(zonepath)?.stack(zonepath)?;
    let mut system = with_root(host, &stack, |root| Ok(of_root(&root)))?;
    if brand::sparse::is_sparse(config) && system.name.is_empty() {
        system.name = of_host(Path::new("/"))?.name;
    }
    Ok(system)
}

/// Reads the root of a zone without its inherited directories.
fn with_root<T: Send>(
    host: &Host,
    stack: &Stack,
    look: impl FnOnce(OwnedFd) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    root_view::with_view(stack, &[], &scratch(host)?, look)
}

/// Returns a folder on which a private mount namespace can mount a root.
pub(crate) fn scratch(host: &Host) -> Result<PathBuf, Error> {
    let scratch = host.root.run().join("mnt");
    if host.plan_only {
        return Ok(root_view::any_folder(&scratch).to_owned());
    }
    fs::create_dir_all(&scratch).map_err(Error::io(format!("make {}", scratch.display())))?;
    Ok(scratch)
}

/// Returns the system in an open root.
fn of_root(root: &OwnedFd) -> System {
    // The path goes through the file descriptor, because the mount is visible only in this thread's
    // mount namespace.
    let path = PathBuf::from(format!("/proc/thread-self/fd/{}", root.as_raw_fd()));
    let (inventory, unknown) = match packages::open(&path) {
        Ok(Some(database)) => (Inventory::of(database.as_ref()), None),
        Ok(None) => (Inventory::default(), None),
        Err(error) => (Inventory::default(), Some(flatten(&error))),
    };
    System {
        inventory,
        name: system_name(root),
        unknown,
    }
}

fn system_name(root: impl AsFd) -> String {
    let text = OS_RELEASE.iter().find_map(|name| {
        let file = sys::root::file(&root, *name).ok()??;
        let mut text = String::new();
        file.take(MAX_OS_RELEASE).read_to_string(&mut text).ok()?;
        Some(text)
    });
    name_in(&text.unwrap_or_default())
}

/// Returns `ID VERSION_ID` from the text of os-release(5). A value that is not a plain word is left
/// out.
fn name_in(text: &str) -> String {
    let value = |key: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let value = value.unwrap_or_default().trim().trim_matches(['"', '\'']);
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let legal = value.len() <= 64 && value.chars().all(plain);
        if legal { value } else { "" }
    };
    match (value("ID"), value("VERSION_ID")) {
        ("", _) => String::new(),
        (id, "") => id.to_owned(),
        (id, version) => format!("{id} {version}"),
    }
}

/// Returns the manifest of a zone.
pub fn manifest(config: &Config, uuid: Option<model::Uuid>, system: System) -> Manifest {
    let packages = system.inventory.packages.into_iter();
    Manifest {
        config: config.clone(),
        uuid,
        system: system.name,
        manager: system.inventory.manager,
        packages: packages
            .map(|(key, version)| Package {
                name: key.name,
                architecture: key.architecture,
                version,
            })
            .collect(),
    }
}

/// Returns the system that a manifest describes.
pub(crate) fn of_manifest(manifest: &Manifest) -> System {
    let packages = manifest.packages.iter().map(|package| {
        let key = Key {
            name: package.name.clone(),
            architecture: package.architecture.clone(),
        };
        (key, package.version.clone())
    });
    System {
        inventory: Inventory {
            manager: manifest.manager.clone(),
            packages: packages.collect(),
            broken: Vec::new(),
        },
        name: manifest.system.clone(),
        unknown: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_called_by_id_and_version() {
        for (text, name) in [
            (
                "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n",
                "debian 12",
            ),
            ("ID=arch\n", "arch"),
            ("VERSION_ID=1\n", ""),
            ("ID=\"a\u{1b}b\"\nVERSION_ID=1\n", ""),
            ("", ""),
        ] {
            assert_eq!(name_in(text), name, "{text}");
        }
    }

    #[test]
    fn the_host_has_a_name() {
        let system = of_host(Path::new("/")).unwrap();
        if Path::new("/etc/os-release").exists() {
            assert_ne!(system.name, "");
        }
        let mut config = Config::new("web".parse().unwrap());
        config.set_zonepath("/zones/web").unwrap();
        let manifest = manifest(&config, None, system.clone());
        let read = of_manifest(&manifest);
        assert_eq!(read.inventory.packages, system.inventory.packages);
    }
}
