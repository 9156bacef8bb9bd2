//! The alternate root (`-R`, `ZONES_ROOT`) and the paths of all files below it.

use std::path::{Component, Path, PathBuf};

use model::ZoneName;

/// The folder above all files of this project: an alternate root, or `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Takes the folder without a change. A relative path stays relative to the current folder of
    /// the process.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// Returns the folder of the root.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Converts an absolute path, such as a zonepath, to a path below the alternate root. `..` is
    /// dropped, because a configuration must not lead out of the root.
    #[must_use]
    pub fn path(&self, absolute: &Path) -> PathBuf {
        let inside = absolute
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        self.0.join(inside.collect::<PathBuf>())
    }

    /// Converts a path below the alternate root to the path that users see. `shown` is the inverse
    /// of [`Root::path`].
    #[must_use]
    pub fn shown(&self, real: &Path) -> PathBuf {
        real.strip_prefix(&self.0)
            .map_or_else(|_| real.to_owned(), |inside| Path::new("/").join(inside))
    }

    /// Returns `/etc/zones`, the folder of the index, configurations and templates.
    #[must_use]
    pub fn etc(&self) -> PathBuf {
        self.0.join("etc/zones")
    }

    /// Returns `/run/zones`, whose files are gone after a boot of the host.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.0.join("run/zones")
    }

    /// Returns `/var/log/zones`.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("var/log/zones")
    }

    /// Returns `/var/lib/zones`, the folder of images and other shared data.
    #[must_use]
    pub fn lib(&self) -> PathBuf {
        self.0.join("var/lib/zones")
    }

    /// Returns the path of the index of all zones.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.etc().join("index")
    }

    /// Returns the path of the names of sensitivity labels.
    #[must_use]
    pub fn label_encodings(&self) -> PathBuf {
        self.etc().join("label_encodings")
    }

    /// Returns the path of the lock under which zones are checked and started on a host with labels.
    #[must_use]
    pub fn labels_lock(&self) -> PathBuf {
        self.run().join(".labels.lock")
    }

    /// Returns the path of the labels of hosts outside and of the multilevel ports of zones.
    #[must_use]
    pub fn label_network(&self) -> PathBuf {
        self.etc().join("tncfg")
    }

    /// Returns the path of the file with the id of this host, which identifies this host as the
    /// owner of zonepaths.
    #[must_use]
    pub fn host_id(&self) -> PathBuf {
        self.etc().join("host-id")
    }

    /// Returns the path of a zone's configuration.
    #[must_use]
    pub fn xml(&self, zone: &ZoneName) -> PathBuf {
        self.etc().join(format!("{zone}.xml"))
    }

    /// Returns the path of the lock that commands hold while they change a zone.
    #[must_use]
    pub fn lock(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.zoneadm.lock"))
    }

    /// Returns the path of the lock that a run of the schedules of snapshots holds.
    #[must_use]
    pub fn slide_lock(&self) -> PathBuf {
        self.run().join("slide.lock")
    }

    /// Returns the path of the lock that a zone's zoneadmd holds while the zone's root may be
    /// mounted.
    #[must_use]
    pub fn root_lock(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.root.lock"))
    }

    /// Returns the path of the lock of the process that starts a new zoneadmd for a running zone.
    #[must_use]
    pub fn adopt_lock(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.adopt"))
    }

    /// Returns the path of an active zone's state file, see [`crate::runtime`].
    #[must_use]
    pub fn runtime(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.state"))
    }

    /// Returns the path of the configuration with which an active zone runs.
    #[must_use]
    pub fn running(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.xml"))
    }

    /// Returns the path of the list of mounts that the configuration of an active zone requested.
    #[must_use]
    pub fn mounts(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.mounts"))
    }

    /// Returns the path of the file in which zoneadmd reports its progress with the memory of a
    /// zone.
    #[must_use]
    pub fn progress(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.progress"))
    }

    /// Returns the folder of the files that show an active zone its limits.
    #[must_use]
    pub fn proc_files(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.proc"))
    }

    /// Returns the folder of the records of zone networks.
    #[must_use]
    pub fn network(&self) -> PathBuf {
        self.run().join("network")
    }

    /// Returns the path of the socket of the zone's zoneadmd.
    #[must_use]
    pub fn socket(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.zoneadmd_sock"))
    }

    /// Returns the path of the socket of the process that answers uname(2) for the zone.
    #[must_use]
    pub fn kernel_socket(&self, zone: &ZoneName) -> PathBuf {
        self.run().join(format!("{zone}.kernel_sock"))
    }

    /// Returns the path of a socket of a kernel zone's guest. `what` is `monitor`, `console`, or
    /// `agent` for the channel to the agent in the guest.
    #[must_use]
    pub fn machine(&self, zone: &ZoneName, what: &str) -> PathBuf {
        self.run().join(format!("{zone}.{what}"))
    }

    /// Returns the path of the mark that the file systems in a kernel zone's guest may be frozen.
    #[must_use]
    pub fn frozen(&self, zone: &ZoneName) -> PathBuf {
        self.machine(zone, "frozen")
    }

    /// Returns the path of the messages of the zone's zoneadmd.
    #[must_use]
    pub fn messages(&self, zone: &ZoneName) -> PathBuf {
        self.log().join(format!("{zone}.messages"))
    }

    /// Returns the path of the recorded output of the zone's console.
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
