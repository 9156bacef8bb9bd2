//! The zone of a process.
//!
//! A process is in the zone whose cgroup it is in: zoneadmd starts the zone's first process in this
//! cgroup, zlogin enters it, and no process of a zone can leave it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use model::ZoneName;
use sys::mountinfo::Mount;

use crate::{Error, Root, runtime};

/// Maximum size of /proc/PID/cgroup that is read, in bytes: it has a line for each hierarchy.
const MAX_SIZE: u64 = 1 << 20;

/// A zone that can have processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    /// The name of the zone.
    pub name: ZoneName,
    /// The numeric id of the zone.
    pub id: u32,
    /// The host's id of the zone's user 0.
    pub first_id: u32,
}

/// The active zones by their cgroup, as /proc/PID/cgroup writes it: the processes of a zone are in
/// it or below it.
pub type Groups = BTreeMap<String, Active>;

/// Returns the active zones of a root, and those whose state could not be read. A zone whose first
/// process has ended is among them, because other processes of it may still run.
///
/// # Errors
/// Fails if the mounts of this process cannot be read.
pub fn of_host(root: &Root) -> io::Result<(Groups, Vec<(ZoneName, Error)>)> {
    let mounts = sys::mountinfo::own()?;
    let mut groups = Groups::new();
    let mut unreadable = Vec::new();
    for name in named_in(&root.run()) {
        match runtime::load_any(root, &name) {
            Ok(Some(active)) => {
                let group = active.cgroups.first();
                if let Some(group) = group.and_then(|path| in_tree(path, &mounts)) {
                    let (id, first_id) = (active.id, active.first_id);
                    groups.insert(group, Active { name, id, first_id });
                }
            }
            Ok(None) => {}
            Err(error) => unreadable.push((name, error)),
        }
    }
    Ok((groups, unreadable))
}

/// Returns the value of the cgroup or of the nearest cgroup above it.
#[must_use]
pub fn nearest<'a, T>(groups: &'a BTreeMap<String, T>, cgroup: &str) -> Option<&'a T> {
    let mut group = cgroup;
    // Looks up the cgroup, then each parent up to the root: there are only few.
    loop {
        if let Some(found) = groups.get(group) {
            return Some(found);
        }
        group = group.rsplit_once('/')?.0;
    }
}

/// Returns the cgroup of a process in the version 2 hierarchy; `None` if there is no such process.
#[must_use]
pub fn of_process(pid: i32) -> Option<String> {
    let file = File::open(format!("/proc/{pid}/cgroup")).ok()?;
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text).ok()?;
    Some(unified(&text).to_owned())
}

/// Returns the cgroup in the version 2 hierarchy from the text of /proc/PID/cgroup.
#[must_use]
pub fn unified(groups: &str) -> &str {
    groups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap_or_default()
}

/// Returns the zones that have a state file in a folder.
fn named_in(folder: &Path) -> Vec<ZoneName> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        let file = entry.file_name();
        file.to_str()?.strip_suffix(".state")?.parse().ok()
    };
    entries.filter_map(name).collect()
}

/// Returns the path of a cgroup as /proc/PID/cgroup writes it, for a path below a mounted cgroup2
/// file system.
fn in_tree(path: &Path, mounts: &[Mount]) -> Option<String> {
    let inside = |mount: &Mount| {
        if mount.fstype != "cgroup2" {
            return None;
        }
        let below = path.strip_prefix(&mount.point).ok()?;
        let group = mount.root.join(below);
        Some((mount.point.as_os_str().len(), group.to_str()?.to_owned()))
    };
    let found = mounts.iter().filter_map(inside).max()?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_as_the_kernel_names_them() {
        let mounts = |text: &str| sys::mountinfo::parse(text.as_bytes());
        let hybrid = &mounts(
            "\
30 20 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw
35 30 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
",
        );
        let path = Path::new("/sys/fs/cgroup/unified/zones/web");
        assert_eq!(in_tree(path, hybrid).as_deref(), Some("/zones/web"));
        let part = &mounts("35 30 0:35 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let path = Path::new("/sys/fs/cgroup/zones/web");
        assert_eq!(in_tree(path, part).as_deref(), Some("/box/zones/web"));
        assert_eq!(in_tree(Path::new("/zones/web"), part), None);
    }

    #[test]
    fn the_nearest_cgroup_decides() {
        let groups = ["/zones/web", "/zones/web2"].map(|name| (name.to_owned(), name));
        let groups: BTreeMap<_, _> = groups.into();
        for (group, zone) in [
            ("/zones/web", Some("/zones/web")),
            ("/zones/web/zone/deep/zones/web2", Some("/zones/web")),
            ("/zones/web2/login", Some("/zones/web2")),
            ("/zones/web3", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(nearest(&groups, group).copied(), zone, "{group}");
        }
    }

    #[test]
    fn the_cgroup_of_a_process_is_that_of_version_2() {
        assert_eq!(unified("4:memory:/a\n0::/zones/web\n"), "/zones/web");
        assert_eq!(unified("4:memory:/a\n"), "");
        let own = i32::try_from(std::process::id()).unwrap();
        let text = fs::read_to_string("/proc/self/cgroup").unwrap();
        assert_eq!(of_process(own).as_deref(), Some(unified(&text)));
        assert_eq!(of_process(0), None);
    }
}
