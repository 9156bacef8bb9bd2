//! Finds the mounts of the host's control groups, and the base group of the zones.

use std::fs;
use std::path::{Path, PathBuf};

use model::controls::Controls;
use sys::file::read_small;
use sys::mountinfo::{self, Mount};

use crate::Error;

/// Controllers of the v1 hierarchies in which each zone gets a group.
const LIMITING: [&str; 3] = ["memory", "pids", "cpu"];

/// Controllers of the v1 hierarchies in which a zone gets a group only if it needs one. Every group
/// that a process enters costs time at boot.
const ON_DEMAND: [&str; 2] = ["cpuset", "blkio"];

/// The group of all zoneadmd processes, in the base. No zone can have this name, because the name
/// of a zone does not begin with a dot.
const DAEMONS: &str = ".zoneadmd";

/// The groups that contain all groups of zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The base group in the v2 tree.
    pub v2: PathBuf,
    /// The base groups in v1 hierarchies that can limit resources, with one group per zone.
    pub v1: Vec<PathBuf>,
    /// The base groups in further v1 hierarchies, by their controller, with one group per zone that
    /// has a control there.
    pub v1_on_demand: Vec<(&'static str, PathBuf)>,
    /// The base groups in v1 hierarchies that only label processes (for example systemd's own) and
    /// in which the caller is not in the root group. Zones get groups there, too, because they must
    /// not stay in the caller's session.
    pub v1_shared: Vec<PathBuf>,
}

impl Base {
    /// Finds the base. An absolute `name` is a path from the root of each hierarchy. A relative
    /// `name` is a path below the group of the calling process.
    ///
    /// # Errors
    /// Fails with [`Error::NoUnified`] if the host has no cgroup v2.
    pub fn find(name: &Path) -> Result<Self, Error> {
        let (mounts, own) = ("/proc/self/mountinfo", "/proc/self/cgroup");
        let mounts = mountinfo::own().map_err(Error::file("read", Path::new(mounts)))?;
        let own = read_small(Path::new(own)).map_err(Error::file("read", Path::new(own)))?;
        let own = String::from_utf8_lossy(&own);
        parse(&mounts, &own, name).ok_or(Error::NoUnified)
    }

    /// Returns the on-demand v1 hierarchies in which a zone with these controls has a group, or can
    /// get one when other zones claim CPUs: see [`crate::arrange`].
    pub(crate) fn needed(&self, controls: &Controls) -> impl Iterator<Item = &PathBuf> {
        let needed = |controller: &str| match controller {
            "cpuset" => true,
            _ => controls.io_priority.is_some(),
        };
        self.v1_on_demand
            .iter()
            .filter(move |(controller, _)| needed(controller))
            .map(|(_, path)| path)
    }

    /// Returns the group of the zoneadmd processes.
    #[must_use]
    pub fn daemons(&self) -> PathBuf {
        self.v2.join(DAEMONS)
    }
}

/// Removes the base itself if no zone is left in it.
pub fn tidy(base: &Base) {
    // rmdir(2) fails for a group that is still in use, so no other check is needed.
    let _ = fs::remove_dir(base.daemons());
    for path in [&base.v2]
        .into_iter()
        .chain(&base.v1)
        .chain(base.v1_on_demand.iter().map(|(_, path)| path))
        .chain(&base.v1_shared)
    {
        let _ = fs::remove_dir(path);
    }
}

/// A mounted hierarchy of control groups.
struct Mounted<'a> {
    /// The group whose content the mount point shows.
    root: &'a Path,
    point: &'a Path,
    /// The controllers of a v1 hierarchy; `None` for v2.
    controllers: Option<&'a str>,
}

fn parse(mounts: &[Mount], own: &str, name: &Path) -> Option<Base> {
    let mounted: Vec<Mounted<'_>> = mounts.iter().filter_map(mounted).collect();
    let unified = mounted.iter().find(|mount| mount.controllers.is_none())?;
    let mut base = Base {
        v2: place(unified, own, name)?.0,
        v1: Vec::new(),
        v1_on_demand: Vec::new(),
        v1_shared: Vec::new(),
    };
    for mount in &mounted {
        let Some(controllers) = mount.controllers else {
            continue;
        };
        let Some((path, at_root)) = place(mount, own, name) else {
            continue;
        };
        let holds = |name: &str| controllers.split(',').any(|one| one == name);
        let limits = LIMITING.into_iter().any(holds);
        let on_demand = ON_DEMAND.into_iter().find(|name| holds(name));
        let list = if limits {
            &mut base.v1
        } else if let Some(controller) = on_demand {
            base.v1_on_demand.push((controller, path));
            continue;
        } else if at_root {
            continue;
        } else {
            &mut base.v1_shared
        };
        if !list.contains(&path) {
            list.push(path);
        }
    }
    Some(base)
}

fn mounted(mount: &Mount) -> Option<Mounted<'_>> {
    let controllers = match mount.fstype.as_str() {
        "cgroup2" => None,
        "cgroup" => Some(mount.options.as_str()),
        _ => return None,
    };
    Some(Mounted {
        root: &mount.root,
        point: &mount.point,
        controllers,
    })
}

/// Returns the base in one hierarchy, and whether the caller is in the root group of that
/// hierarchy.
fn place(mount: &Mounted<'_>, own: &str, name: &Path) -> Option<(PathBuf, bool)> {
    let group = own.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let same = match mount.controllers {
            None => controllers.is_empty(),
            // The mount options also contain flags, so each controller of the line must be one of
            // the options.
            Some(options) => {
                !controllers.is_empty()
                    && controllers
                        .split(',')
                        .all(|wanted| options.split(',').any(|o| o == wanted))
            }
        };
        same.then_some(group)
    })?;
    // In a container, the mount shows only the part of the tree below its root.
    let root = mount.root.to_str().unwrap_or_default();
    let visible = group
        .strip_prefix(root.trim_end_matches('/'))
        .unwrap_or("/");
    let inside = Path::new(visible.trim_start_matches('/'));
    let below = match name.strip_prefix("/") {
        Ok(absolute) => absolute.to_owned(),
        // A zoneadmd is itself in a group of the base.
        Err(_) if inside.ends_with(name) => inside.to_owned(),
        Err(_) if inside.ends_with(name.join(DAEMONS)) => {
            inside.parent().unwrap_or(inside).to_owned()
        }
        Err(_) => inside.join(name),
    };
    Some((
        mount.point.join(below),
        visible.trim_matches('/').is_empty(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(mountinfo: &str, own: &str, name: &Path) -> Option<Base> {
        super::parse(&mountinfo::parse(mountinfo.as_bytes()), own, name)
    }

    const HYBRID: &str = "\
30 20 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 30 0:36 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
33 30 0:33 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
34 30 0:34 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
35 30 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn a_hybrid_host() {
        let own =
            "5:cpuset:/\n4:name=systemd:/user.slice\n3:freezer:/\n2:memory:/box\n1:cpu:/\n0::/\n";
        let paths = |list: &[&str]| -> Vec<PathBuf> {
            list.iter()
                .map(|p| Path::new("/sys/fs/cgroup").join(p))
                .collect()
        };
        let absolute = parse(HYBRID, own, Path::new("/zones")).unwrap();
        assert_eq!(absolute.v2, Path::new("/sys/fs/cgroup/unified/zones"));
        assert_eq!(absolute.v1, paths(&["cpu/zones", "memory/zones"]));
        assert_eq!(absolute.v1_shared, paths(&["systemd/zones"]));
        let cpuset = ("cpuset", PathBuf::from("/sys/fs/cgroup/cpuset/zones"));
        assert_eq!(absolute.v1_on_demand, [cpuset]);
        let relative = parse(HYBRID, own, Path::new("test")).unwrap();
        assert_eq!(relative.v1, paths(&["cpu/test", "memory/box/test"]));
    }

    #[test]
    fn a_pure_v2_host_and_a_container_on_it() {
        let mounts = "35 30 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let base = parse(mounts, "0::/user.slice/a\n", Path::new("zones")).unwrap();
        assert_eq!(base.v2, Path::new("/sys/fs/cgroup/user.slice/a/zones"));
        assert!(base.v1.is_empty() && base.v1_shared.is_empty());
        let part = "35 30 0:35 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let base = parse(part, "0::/box/a\n", Path::new("zones")).unwrap();
        assert_eq!(base.v2, Path::new("/sys/fs/cgroup/a/zones"));
    }

    #[test]
    fn a_zoneadmd_finds_the_base_it_is_in() {
        let mounts = "35 30 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let base = parse(mounts, "0::/a/test/.zoneadmd\n", Path::new("test")).unwrap();
        assert_eq!(base.v2, Path::new("/sys/fs/cgroup/a/test"));
        let own = "4:name=systemd:/u/test\n0::/a/test/.zoneadmd\n";
        let base = parse(HYBRID, own, Path::new("test")).unwrap();
        assert_eq!(base.v1_shared, [Path::new("/sys/fs/cgroup/systemd/u/test")]);
    }

    #[test]
    fn a_host_without_cgroup_v2_is_recognised() {
        assert_eq!(parse("", "", Path::new("/zones")), None);
    }
}
