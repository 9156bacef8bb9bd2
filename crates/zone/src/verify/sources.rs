//! Compares sources of lofs file systems with the paths of other zones and of these programs on the
//! host. A zone that writes into another zone's root, layers or records is root there.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::Config;
use model::config::FileSystem;
use store::index::Index;
use store::{Root, xml};

use host::Host;
use subject::layer_folders;

/// Returns a line for each source that the zone could write and that is, contains or lies in a
/// folder which no zone may write: a zonepath, the layers of zones, the folders of these programs.
pub(super) fn refused(host: &Host, index: &Index, config: &Config) -> Vec<String> {
    let writable: Vec<FileSystem> = writable(config).collect();
    if writable.is_empty() {
        return Vec::new();
    }
    let folders = closed_folders(host, index);
    let mut looked = Looked::default();
    let mut lines = Vec::new();
    for fs in &writable {
        let found = folders.iter().find_map(|(folder, owner)| {
            let relation = looked.relation(Path::new(&fs.special), folder)?;
            Some((relation, folder, owner))
        });
        if let Some((relation, folder, owner)) = found {
            lines.push(format!(
                "could not verify fs {}: {} {relation} {} ({owner}), where no zone may write: use another folder, or add options ro",
                fs.dir.display(),
                fs.special,
                folder.display()
            ));
        }
    }
    lines
}

/// Returns a line for each source that the zone and another zone can both write.
pub(super) fn shared(host: &Host, index: &Index, config: &Config) -> Vec<String> {
    let ours: Vec<FileSystem> = writable(config).collect();
    if ours.is_empty() {
        return Vec::new();
    }
    let mut looked = Looked::default();
    let mut lines = Vec::new();
    let others = index.entries().iter().map(|entry| &entry.name);
    for other in others.filter(|name| *name != config.name()) {
        // The verify of that zone tells why its configuration cannot be read.
        let Ok(theirs) = xml::load(&host.root, other) else {
            continue;
        };
        for theirs in writable(&theirs) {
            for fs in &ours {
                let (special, other_special) = (Path::new(&fs.special), Path::new(&theirs.special));
                if let Some(relation) = looked.relation(special, other_special) {
                    lines.push(format!(
                        "fs {}: {} {relation} {}, the source of fs {} of zone {other}: both zones can write there",
                        fs.dir.display(),
                        fs.special,
                        theirs.special,
                        theirs.dir.display()
                    ));
                }
            }
        }
    }
    lines
}

/// The file systems of type lofs that a zone can write.
fn writable(config: &Config) -> impl Iterator<Item = FileSystem> {
    let all = config.filesystems();
    all.filter(|fs| fs.fstype == "lofs" && !fs.options.iter().any(|option| option == "ro"))
}

/// The folders in which no zone may write, with their owners.
fn closed_folders(host: &Host, index: &Index) -> BTreeMap<PathBuf, String> {
    let mut folders = BTreeMap::new();
    for entry in index.entries() {
        let zonepath = host.root.path(&entry.zonepath);
        for folder in layer_folders(&zonepath) {
            folders.insert(folder, "the layers of zones".to_owned());
        }
        folders.insert(zonepath, format!("the zonepath of zone {}", entry.name));
    }
    // Those of the host itself too, where the zone has an alternate root.
    for root in [&Root::new(Path::new("/")), &host.root] {
        for folder in [root.etc(), root.run(), root.log(), root.lib()] {
            folders.insert(folder, "a folder of the zone programs".to_owned());
        }
    }
    folders
}

/// A device and an inode.
type Id = (u64, u64);

/// The files that were looked at; of a thousand zonepaths most have the same parent.
#[derive(Default)]
struct Looked(HashMap<PathBuf, Option<Id>>);

impl Looked {
    fn id(&mut self, path: &Path) -> Option<Id> {
        if let Some(id) = self.0.get(path) {
            return *id;
        }
        let id = fs::metadata(path).ok().map(|stat| (stat.dev(), stat.ino()));
        self.0.insert(path.to_owned(), id);
        id
    }

    /// Returns true if `path`, or a folder above it, is `folder` under another name.
    fn is_below(&mut self, path: &Path, folder: &Path) -> bool {
        let Some(id) = self.id(folder) else {
            return false;
        };
        path.ancestors().any(|above| self.id(above) == Some(id))
    }

    /// Returns the verb between two paths: `is`, `lies in` or `contains`; none if they have
    /// nothing in common. Bind mounts and links give a folder several names, so device and inode
    /// count as well as the names.
    fn relation(&mut self, path: &Path, other: &Path) -> Option<&'static str> {
        let id = self.id(path);
        if path == other || (id.is_some() && id == self.id(other)) {
            Some("is")
        } else if path.starts_with(other) || self.is_below(path, other) {
            Some("lies in")
        } else if other.starts_with(path) || self.is_below(other, path) {
            Some("contains")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_compared_by_name_and_by_inode() {
        let dir = tempfile::tempdir().unwrap();
        let zones = dir.path().join("zones");
        let root = zones.join("web/root");
        fs::create_dir_all(&root).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&zones, &link).unwrap();
        let mut looked = Looked::default();
        for (path, other, relation) in [
            (root.clone(), zones.join("web"), Some("lies in")),
            (zones.clone(), zones.join("web"), Some("contains")),
            (zones.join("web"), zones.join("web"), Some("is")),
            // One folder under two names.
            (link.join("web/root"), zones.join("web"), Some("lies in")),
            (link.clone(), zones.join("web"), Some("contains")),
            (link.join("web"), zones.join("web"), Some("is")),
            // A name that only begins alike.
            (zones.join("web2"), zones.join("web"), None),
            // Folders that do not exist.
            (dir.path().join("none"), zones.join("none"), None),
            (zones.join("none"), zones.clone(), Some("lies in")),
        ] {
            assert_eq!(
                looked.relation(&path, &other),
                relation,
                "{path:?} {other:?}"
            );
        }
    }
}
