//! The alternate root (`-R`, `ZONES_ROOT`) and the names of everything below it.

use std::path::{Component, Path, PathBuf};

use model::ZoneName;

/// The folder that everything of ours lives below; `/` on a normal host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Takes the folder as it is; a relative one stays relative to the caller's.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// The folder itself.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Returns the location of one of our absolute paths (a zonepath, say) below the alternate
    /// root. `..` is dropped: a configuration must not lead out of the root.
    #[must_use]
    pub fn path(&self, absolute: &Path) -> PathBuf {
        let inside = absolute
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        self.0.join(inside.collect::<PathBuf>())
    }

    /// The inverse of [`Root::path`]: the name under which users know a path of ours.
    #[must_use]
    pub fn shown(&self, real: &Path) -> PathBuf {
        real.strip_prefix(&self.0)
            .map_or_else(|_| real.to_owned(), |inside| Path::new("/").join(inside))
    }

    /// `/etc/zones`: the index, configurations, templates.
    #[must_use]
    pub fn etc(&self) -> PathBuf {
        self.0.join("etc/zones")
    }

    /// `/run/zones`: gone after a host boot.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.0.join("run/zones")
    }

    /// `/var/log/zones`.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("var/log/zones")
    }

    /// `/var/lib/zones`: images and other shared data.
    #[must_use]
    pub fn lib(&self) -> PathBuf {
        self.0.join("var/lib/zones")
    }

    /// The index of all zones.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.etc().join("index")
    }

    /// The identity of this host as the owner of zonepaths.
    #[must_use]
    pub fn host_id(&self) -> PathBuf {
        self.etc().join("host-id")
    }

    /// The configuration of a zone.
    #[must_use]
    pub fn xml(&self, zone: &ZoneName) -> PathBuf {
        self.etc().join(format!("{zone}.xml"))
    }

    /// The lock that mutating commands hold.
    #[must_use]
    pub fn lock(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.zoneadm.lock"))
    }

    /// The lock that a zone's zoneadmd holds while the zone's root may be mounted.
    #[must_use]
    pub fn root_lock(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.root.lock"))
    }

    /// Returns the path of the lock of the process that starts the zone's zoneadmd again.
    #[must_use]
    pub fn adopt_lock(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.adopt"))
    }

    /// Returns the path of an active zone's state file, see [`crate::runtime`].
    #[must_use]
    pub fn runtime(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.state"))
    }

    /// The configuration that an active zone runs with.
    #[must_use]
    pub fn running(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.xml"))
    }

    /// The mounts of an active zone that its configuration asked for.
    #[must_use]
    pub fn mounts(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.mounts"))
    }

    /// Returns the path of the file in which a zoneadmd reports how far it is with the memory of a
    /// zone.
    #[must_use]
    pub fn progress(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.progress"))
    }

    /// The folder of the files that show an active zone its limits.
    #[must_use]
    pub fn proc_files(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.proc"))
    }

    /// Returns the folder of the records of zones' networks.
    #[must_use]
    pub fn network(&self) -> PathBuf {
        self.run().join("network")
    }

    /// The socket of the zone's zoneadmd.
    #[must_use]
    pub fn socket(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.zoneadmd_sock"))
    }

    /// Returns the path of the socket of the process that answers uname(2) for the zone.
    #[must_use]
    pub fn kernel_socket(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.kernel_sock"))
    }

    /// A socket on which the machine of a kernel zone listens: its `monitor`, its
    /// `console`, or the channel to the `agent` in it.
    #[must_use]
    pub fn machine(&self, zone: &ZoneName, what: &str) -> PathBuf {
        self.run().join(format!("{zone}.{what}"))
    }

    /// Messages of the zone's zoneadmd.
    #[must_use]
    pub fn messages(&self, zone: &ZoneName) -> PathBuf {
        self.log().join(format!("{zone}.messages"))
    }

    /// History of the zone's console.
    #[must_use]
    pub fn console(&self, zone: &ZoneName) -> PathBuf {
        self.log().join(format!("{zone}.console"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        let root = Root::new(Path::new("/alt"));
        assert_eq!(
            root.path(Path::new("/zones/web")),
            Path::new("/alt/zones/web")
        );
        assert_eq!(root.path(Path::new("/../../etc")), Path::new("/alt/etc"));
        assert_eq!(
            root.shown(Path::new("/alt/zones/web")),
            Path::new("/zones/web")
        );
        assert_eq!(
            Root::new(Path::new("/")).path(Path::new("/zones/web")),
            Path::new("/zones/web")
        );
    }
}
