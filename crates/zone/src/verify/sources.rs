//! Compares the sources of lofs file systems with the host's paths of other zones and of Zones for
//! Linux. A zone that can write to another zone's root, layers or records can become root in that
//! zone.

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

use super::compared::Compared;

/// Returns a problem for each source that the zone could write to and that overlaps with a
/// forbidden folder: a zonepath, the layers of zones, or a folder of Zones for Linux. A zone with a
/// label must not even read such a folder: files of other labels are there.
pub(super) fn refused(host: &Host, index: &Index, config: &Config) -> Vec<String> {
    let checked: Vec<FileSystem> = match config.label() {
        Some(_) => lofs(config).collect(),
        None => writable(config).collect(),
    };
    if checked.is_empty() {
        return Vec::new();
    }
    match Compared::new() {
        Ok(mut compared) => overlaps(&checked, &closed_folders(host, index), &mut compared),
        Err(why) => vec![format!("could not verify fs: {why}")],
    }
}

fn overlaps(
    checked: &[FileSystem],
    folders: &BTreeMap<PathBuf, String>,
    compared: &mut Compared,
) -> Vec<String> {
    let mut lines = Vec::new();
    for fs in checked {
        let found = folders.iter().find_map(|(folder, owner)| {
            let relation = compared.relation(Path::new(&fs.special), folder)?;
            Some((relation, folder, owner))
        });
        if let Some((relation, folder, owner)) = found {
            let why = match is_read_only(fs) {
                true => "a zone with a label reads other zones only at /zone/NAME/export",
                false => "where no zone may write: use another folder, or add options ro",
            };
            let colon = if is_read_only(fs) { ":" } else { "," };
            lines.push(format!(
                "could not verify fs {}: {} {relation} {} ({owner}){colon} {why}",
                fs.dir.display(),
                fs.special,
                folder.display()
            ));
        }
    }
    lines
}

/// Returns a warning for each source to which both the zone and another zone can write.
pub(super) fn shared(host: &Host, index: &Index, config: &Config) -> Vec<String> {
    let ours: Vec<FileSystem> = writable(config).collect();
    if ours.is_empty() {
        return Vec::new();
    }
    let mut looked = Looked::default();
    let mut lines = Vec::new();
    let others = index.entries().iter().map(|entry| &entry.name);
    for other in others.filter(|name| *name != config.name()) {
        // The verify of the other zone reports why its configuration cannot be read.
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

/// Returns the lofs file systems to which a zone can write.
fn writable(config: &Config) -> impl Iterator<Item = FileSystem> {
    lofs(config).filter(|fs| !is_read_only(fs))
}

pub(super) fn lofs(config: &Config) -> impl Iterator<Item = FileSystem> {
    config.filesystems().filter(|fs| fs.fstype == "lofs")
}

pub(super) fn is_read_only(fs: &FileSystem) -> bool {
    fs.options.iter().any(|option| option == "ro")
}

/// Returns the folders to which no zone may write, with a description of their owners.
pub(super) fn closed_folders(host: &Host, index: &Index) -> BTreeMap<PathBuf, String> {
    let mut folders = BTreeMap::new();
    for entry in index.entries() {
        let zonepath = host.root.path(&entry.zonepath);
        for folder in layer_folders(&zonepath) {
            folders.insert(folder, "the layers of zones".to_owned());
        }
        folders.insert(zonepath, format!("the zonepath of zone {}", entry.name));
    }
    // The folders of the host itself are included too, if the zone has an alternate root.
    for root in [&Root::new(Path::new("/")), &host.root] {
        for folder in [root.etc(), root.run(), root.log(), root.lib()] {
            folders.insert(folder, "a folder of the zone programs".to_owned());
        }
    }
    folders
}

/// The device number and inode number of a file.
type Id = (u64, u64);

/// A cache of the files whose metadata was read. Most of a thousand zonepaths have the same parent.
#[derive(Default)]
pub(super) struct Looked(HashMap<PathBuf, Option<Id>>);

impl Looked {
    fn id(&mut self, path: &Path) -> Option<Id> {
        if let Some(id) = self.0.get(path) {
            return *id;
        }
        let id = fs::metadata(path).ok().map(|stat| (stat.dev(), stat.ino()));
        self.0.insert(path.to_owned(), id);
        id
    }

    /// Returns true if `path`, or a folder above it, is the same file as `folder`.
    fn is_below(&mut self, path: &Path, folder: &Path) -> bool {
        let Some(id) = self.id(folder) else {
            return false;
        };
        path.ancestors().any(|above| self.id(above) == Some(id))
    }

    /// Returns the relation between two paths as a verb: `is`, `lies in` or `contains`; `None` if
    /// the paths do not overlap. Bind mounts and links give a folder several names, so inodes are
    /// compared in addition to names.
    pub(super) fn relation(&mut self, path: &Path, other: &Path) -> Option<&'static str> {
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
    use super::super::compared::tests::with_alias;
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
            // These paths are the same folder under two names.
            (link.join("web/root"), zones.join("web"), Some("lies in")),
            (link.clone(), zones.join("web"), Some("contains")),
            (link.join("web"), zones.join("web"), Some("is")),
            // The two names only begin with the same text.
            (zones.join("web2"), zones.join("web"), None),
            // These folders do not exist.
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

    #[test]
    fn a_zonepath_is_refused_at_another_mount_point_too() {
        let dir = tempfile::tempdir().unwrap();
        let (zone, alias) = (dir.path().join("zones/high"), dir.path().join("alias"));
        for folder in [zone.join("export/root"), alias.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        let folders = BTreeMap::from([(zone.clone(), "the zonepath of zone high".to_owned())]);
        let source = |options: &[&str]| FileSystem {
            dir: "/data".into(),
            special: alias.display().to_string(),
            fstype: "lofs".to_owned(),
            options: options.iter().map(|one| (*one).to_owned()).collect(),
            raw: None,
        };
        let mut compared = with_alias(&zone.join("export/root"), &alias);
        for (options, why) in [
            (&[][..], "where no zone may write"),
            (&["ro"], "only at /zone"),
        ] {
            let lines = overlaps(&[source(options)], &folders, &mut compared);
            assert!(
                matches!(&lines[..], [one] if one.contains(why) && one.contains("lies in")),
                "{lines:?}"
            );
        }
        let mut plain = with_alias(dir.path(), dir.path());
        assert_eq!(overlaps(&[source(&[])], &folders, &mut plain), [""; 0]);
    }
}
