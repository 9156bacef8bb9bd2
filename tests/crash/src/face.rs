//! Lists all objects of a test host on disk and in the kernel, to compare them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use e2e::{Host, cgroup};

/// The number of objects of each description. Ids, which differ between runs, are replaced by `#`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Face(BTreeMap<String, usize>);

/// Folders that are not searched, below the ZONES_ROOT: the content of zones and layers is their
/// own, logs stay, and the others belong to this program.
const CLOSED: &[&str] = &[
    "var/log/zones",
    "front",
    "real",
    "far",
    "debian",
    "repo",
    "tiny",
    "ssh",
    "guest",
    "zones/.layers",
];

impl Face {
    /// Returns the present objects of a host.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let mut face = Self::default();
        let root = host.root();
        let device = fs::metadata(root).map_or(0, |about| about.dev());
        face.walk(root, root, device);
        for point in host.mounts() {
            face.note("mount", &plain(&point, root));
        }
        for group in cgroup::below(host.cgroup()) {
            let name = group.display().to_string();
            let below = name
                .split_once(host.cgroup())
                .map_or("", |(_, below)| below);
            // The cgroups that all zones share exist as long as any zone runs.
            if !below.is_empty() && below != "/.zoneadmd" {
                face.note("cgroup", &name.replace(host.cgroup(), "@"));
            }
        }
        for pid in host.processes() {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            // A process that has ended needs no cleanup.
            if !name.is_empty() {
                face.note("process", name.trim());
            }
        }
        for link in links() {
            face.note("link", &link);
        }
        for problem in crate::layers::problems(&root.join("zones")) {
            face.note("layers", &plain(Path::new(&problem), root));
        }
        face
    }

    /// Returns the objects of several hosts as one list.
    #[must_use]
    pub fn joined(faces: &[Self]) -> Self {
        let mut all = Self::default();
        for (at, face) in faces.iter().enumerate() {
            for (name, count) in &face.0 {
                let mark = if at == 0 { "" } else { " (far)" };
                *all.0.entry(format!("{name}{mark}")).or_default() += count;
            }
        }
        all
    }

    fn note(&mut self, kind: &str, name: &str) {
        *self.0.entry(format!("{kind} {name}")).or_default() += 1;
    }

    fn walk(&mut self, folder: &Path, root: &Path, device: u64) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(about) = fs::symlink_metadata(&path) else {
                continue;
            };
            let below = path.strip_prefix(root).unwrap_or(&path);
            let name = below.display().to_string();
            if CLOSED.contains(&name.as_str()) || name.starts_with("trace") {
                continue;
            }
            let kind = about.file_type();
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap_or_default();
                self.note(
                    "link",
                    &format!("{} -> {}", plain(&path, root), plain(&target, root)),
                );
            } else if kind.is_dir() {
                self.note("folder", &plain(&path, root));
                // A mount is listed separately, and the content of a top layer or copy belongs to
                // the zone.
                let depth = below.components().count();
                let is_top = name.starts_with("zones/") && depth == 3 && is_tree(&name);
                if about.dev() == device && !is_top {
                    self.walk(&path, root, device);
                }
            } else {
                self.note("file", &plain(&path, root));
            }
        }
    }

    /// Returns the objects that this list has in addition to `other`, and those that it lacks. A
    /// process that only `other` has is left out: it was ending when `other` was taken. The
    /// operations themselves check that a zone that must run still runs.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, count) in &self.0 {
            let before = other.0.get(name).copied().unwrap_or_default();
            // The lock file of a zone stays until the zone is deleted, see `leftovers`.
            if *count > before && !name.ends_with(".adopt") {
                found.push(format!("more: {name}"));
            }
        }
        for (name, count) in &other.0 {
            let now = self.0.get(name).copied().unwrap_or_default();
            if now < *count && !name.starts_with("process ") {
                found.push(format!("gone: {name}"));
            }
        }
        found
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        let of_processes = self
            .0
            .iter()
            .filter(|(name, _)| name.starts_with("process "));
        of_processes.map(|(_, count)| count).sum()
    }

    /// Returns the objects that must not exist when there is no zone any more.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        const MAY_STAY: &[&str] = &[
            "folder etc",
            "folder etc/zones",
            "file etc/zones/host-id",
            "file etc/zones/index",
            "folder var",
            "folder var/log",
            "folder var/lib",
            "folder var/lib/zones",
            // The names of the migrations whose zones have left this host again.
            "file var/lib/zones/gone-on",
            "folder var/lib/zones/images",
            "folder var/lib/zones/patch",
            "file var/lib/zones/patch/lock",
            "folder zones",
            "folder run",
            "folder run/zones",
            "folder run/zones/mnt",
            "file run/zones/last_id",
            "folder run/zones/network",
            // Facts about this machine's QEMU and KVM.
            "file run/zones/kvm",
            "file run/zones/qemu",
            // The archive that the preparation of the import created.
            "file web.tar.zst",
        ];
        let names = self.0.keys().filter(|name| {
            let name = name.trim_end_matches(" (far)");
            !MAY_STAY.contains(&name) && !name.ends_with(".lock") && !name.starts_with("link ")
        });
        names.cloned().collect()
    }
}

/// Returns the links in this process's network namespace.
#[must_use]
pub fn links() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Returns whether a folder of a zonepath holds the zone's own content.
fn is_tree(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    ["root", "root.new", "vol", "vol.new", "work", "lu"].contains(&last)
}

/// Returns a path below the ZONES_ROOT with every id replaced by `#`.
fn plain(path: &Path, root: &Path) -> String {
    let text = path.display().to_string();
    let text = text.replace(&format!("{}/", root.display()), "");
    let mut out = String::new();
    let mut run = String::new();
    for one in text.chars().chain(['/']) {
        if one.is_ascii_digit() || ('a'..='f').contains(&one) || (one == '-' && run.len() >= 4) {
            run.push(one);
            continue;
        }
        // Ids of layers have 16 digits, uuids 36.
        let is_id = run.len() >= 16 || !run.is_empty() && run.bytes().all(|b| b.is_ascii_digit());
        out.push_str(if is_id { "#" } else { &run });
        run.clear();
        out.push(one);
    }
    out.pop();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_out_of_paths() {
        let root = Path::new("/r");
        for (path, text) in [
            (
                "/r/zones/.layers/0123456789abcdef/refs",
                "zones/.layers/#/refs",
            ),
            // The name of a zone is not an id.
            ("/r/zones/web1/root", "zones/web1/root"),
            ("/r/run/zones/17", "run/zones/#"),
            (
                "/r/var/4b1d9d3e-7a0c-4a44-bd7e-1de0fb1a2b3c.journal",
                "var/#.journal",
            ),
        ] {
            assert_eq!(plain(Path::new(path), root), text);
        }
    }

    #[test]
    fn differences_list_added_and_missing_objects() {
        let face = |names: &[&str]| {
            let mut face = Face::default();
            names.iter().for_each(|name| face.note("file", name));
            face
        };
        assert_eq!(
            face(&["a", "b", "b"]).differences(&face(&["b", "c"])),
            ["more: file a", "more: file b", "gone: file c"]
        );
        let mut ending = face(&["a"]);
        ending.note("process", "zoneadmd");
        assert_eq!(
            ending.differences(&face(&["a"])),
            ["more: process zoneadmd"]
        );
        assert!(face(&["a"]).differences(&ending).is_empty());
    }
}
