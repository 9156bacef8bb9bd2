//! Completes a move or a rename of a zone that was killed.
//!
//! The index names the zone's other zonepath or name, see [`store::index::Pending`]. The command
//! that begins the change calls [`complete`] at its end, and after an error. If it is killed, the
//! next command on the zone calls [`recover`].
//!
//! | killed | the zone then is |
//! |---|---|
//! | before the folder is renamed, or the copy is complete and in the configuration | at its old zonepath; the copy is removed |
//! | later | at its new zonepath; a copied original is removed |
//! | before the new name is in the index | under its old name; the new configuration is removed |
//! | later | under its new name; the old configuration is removed |

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use control::audit;
use model::{Uuid, ZoneName};
use rustix::io::Errno;
use store::index::{self, Entry, Index, Pending, Way};
use store::labels::network;
use store::{Root, lock, xml};

use crate::identity;
use crate::presence::lacks_root;
use host::{Error, flatten};

/// The mark in a zonepath to which a zone is being copied: the uuid of the zone, or no text while
/// the mark is written.
pub const MOVING: &str = ".moving";

/// Time for which [`recover`] waits for the lock of the other name of a zone.
const OTHER_NAME_TIMEOUT: Duration = Duration::from_millis(100);

/// The entries that stay when a zonepath is removed: those of a file system whose root it is, and
/// layers that other zones use.
const NOT_REMOVED: [&str; 2] = ["lost+found", ".layers"];

/// The folders that hold the top of a dataset while it is copied.
const TOPS_OF_COPY: [&str; 2] = ["root", "vol"];

/// Completes the move or rename of a zone whose lock the caller holds, if a command was killed in
/// it. Returns whether there was one.
///
/// # Errors
/// Fails if the zone can be stored neither at its old nor at its new place.
pub fn recover(root: &Root, zone: &ZoneName, index: &Index) -> Result<bool, Error> {
    let Some(pending) = index.pending_of(zone).cloned() else {
        return Ok(false);
    };
    let other = match &pending {
        Pending::Move { .. } => None,
        Pending::Rename { from, to } if from == zone => Some(to),
        Pending::Rename { from, .. } => Some(from),
    };
    let _held = match other {
        None => None,
        // A command on the other name works now. A later command completes the rename.
        Some(other) => match lock::zone_within(root, other, OTHER_NAME_TIMEOUT) {
            Err(store::Error::Locked(_)) => return Ok(false),
            held => Some(held?),
        },
    };
    complete(root, &pending)?;
    Ok(true)
}

/// Completes a move or rename, or takes it back: see the table of this module. The caller holds the
/// locks of the zone's names. Returns a text about files that could not be removed, which the next
/// command on the zone tries again.
///
/// # Errors
/// Fails if the index or the configuration cannot be written.
pub fn complete(root: &Root, pending: &Pending) -> Result<Option<String>, Error> {
    match pending {
        Pending::Rename { from, to } => complete_rename(root, from, to).map(|()| None),
        Pending::Move { zone, way, other } => complete_move(root, zone, *way, other),
    }
}

fn complete_rename(root: &Root, from: &ZoneName, to: &ZoneName) -> Result<(), Error> {
    let index = Index::load(root)?;
    match (index.find(from), index.find(to)) {
        (Some(_), None) => drop(xml::remove(root, to)?),
        (None, Some(_)) => {
            for (old, new) in [
                (root.messages(from), root.messages(to)),
                (root.console(from), root.console(to)),
            ] {
                for end in ["", ".0"] {
                    let with = |path: &Path| {
                        let mut path = path.as_os_str().to_owned();
                        path.push(end);
                        path
                    };
                    // A log that cannot be renamed stays under the old name of the zone.
                    let _ = fs::rename(with(&old), with(&new));
                }
            }
            let ports = network::rename(root, from, to)?;
            audit::record_network(root, &ports, None);
            xml::remove(root, from)?;
            lock::forget_name(root, from)?;
        }
        // A new zone has the other name by now.
        _ => {}
    }
    end(root, to)
}

fn end(root: &Root, zone: &ZoneName) -> Result<(), Error> {
    Ok(index::update(root, |index| {
        index.end(zone);
        Ok::<(), store::Error>(())
    })?)
}

fn complete_move(
    root: &Root,
    zone: &ZoneName,
    way: Way,
    other: &Path,
) -> Result<Option<String>, Error> {
    let index = Index::load(root)?;
    let Some(entry) = index.find(zone) else {
        end(root, zone)?;
        return Ok(None);
    };
    let (mut entry, mut other) = (entry.clone(), other.to_owned());
    if is_at_other(root, &entry, way, &other) {
        sync(&root.path(&other))?;
        store_at(root, zone, &other)?;
        std::mem::swap(&mut entry.zonepath, &mut other);
    }
    match_configuration(root, &entry)?;
    if way != Way::Rename {
        let at = root.path(&entry.zonepath);
        let is_others = |one: &Entry| one.name != *zone && one.zonepath == other;
        // The root of the zone is missing if its file system is not mounted. The other one stays.
        if lacks_root(&at) && !lacks_root(&root.path(&other)) {
            return Ok(Some(format!(
                "{} has no root: is its file system mounted?",
                entry.zonepath.display()
            )));
        }
        if !index.entries().iter().any(is_others) {
            // The other zonepath is the original if the zone's own is marked as a copy.
            let is_original = at.join(MOVING).exists();
            let folder = match way {
                Way::CopyInto if !is_original => KeepFolder::Yes,
                _ => KeepFolder::No,
            };
            if let Err(error) = remove(&root.path(&other), entry.uuid, folder) {
                let shown = other.display();
                return Ok(Some(format!(
                    "{shown} could not be removed: {}",
                    flatten(&error)
                )));
            }
        }
        store::atomic::remove(&at.join(MOVING))?;
    }
    end(root, zone)?;
    Ok(None)
}

/// Returns true if the files of a zone are at the zonepath that its entry does not have.
fn is_at_other(root: &Root, entry: &Entry, way: Way, other: &Path) -> bool {
    let (here, there) = (root.path(&entry.zonepath), root.path(other));
    match way {
        Way::Rename => {
            let is_ours = entry.uuid.is_some() && identity::read(&there).uuid == entry.uuid;
            lacks_root(&here) && !lacks_root(&there) && is_ours
        }
        // The configuration is written after the copy is complete.
        Way::Copy | Way::CopyInto => {
            let stored = xml::load(root, &entry.name).is_ok_and(|one| one.zonepath() == other);
            stored && there.join(MOVING).exists() && !lacks_root(&there)
        }
    }
}

fn sync(folder: &Path) -> Result<(), Error> {
    let failed = || format!("sync {}", folder.display());
    let open = fs::File::open(folder).map_err(Error::io(failed()))?;
    rustix::fs::syncfs(&open).map_err(|errno| Error::io(failed())(errno.into()))
}

/// Stores the zonepath to which a zone has moved. From now on the index names the former zonepath
/// as the other one.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone is not being moved there.
pub fn store_at(root: &Root, zone: &ZoneName, zonepath: &Path) -> Result<(), Error> {
    let stored = index::update(root, |index| {
        Ok::<bool, store::Error>(index.store_move(zone, zonepath))
    })?;
    match stored {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "is not being moved to {}.",
            zonepath.display()
        ))),
    }
}

/// Writes the zonepath of the index into the configuration if the configuration has another one.
fn match_configuration(root: &Root, entry: &Entry) -> Result<(), Error> {
    let mut config = xml::load(root, &entry.name)?;
    if config.zonepath() == entry.zonepath {
        return Ok(());
    }
    let done = config.relocate(&entry.zonepath);
    done.map_err(|error| Error::Refused(error.to_string()))?;
    Ok(xml::save(root, &config)?)
}

/// The treatment of the folder of a zonepath whose content is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFolder {
    /// The folder existed before the move, and stays.
    Yes,
    /// The folder is removed, unless it is a mount point.
    No,
}

/// Removes a zonepath that is the copy or the original of a moved zone, with all files in it. A
/// folder that is not empty and belongs to no zone with this uuid stays.
///
/// # Errors
/// Fails if a file system is mounted in the zonepath, or if a file cannot be removed.
pub fn remove(zonepath: &Path, uuid: Option<Uuid>, folder: KeepFolder) -> Result<(), Error> {
    let failed = || format!("remove {}", zonepath.display());
    let entries = match fs::read_dir(zonepath) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(Error::io(failed()))?,
    };
    let entries: Vec<_> = entries.flatten().collect();
    if !entries.is_empty() {
        if !is_of(zonepath, uuid) {
            return Ok(());
        }
        if zonepath.join(MOVING).exists() {
            // A copy may have filled its file system. Without the top of the copy, the removal of
            // its dataset has room for the folders that it makes.
            for top in TOPS_OF_COPY {
                storage::remove_tree(&zonepath.join(top))?;
            }
        }
        storage::driver_at(zonepath)?.destroy(zonepath)?;
        let marks = [MOVING, identity::FILE, identity::LOCK];
        for entry in &entries {
            let name = entry.file_name();
            if NOT_REMOVED.iter().chain(&marks).all(|kept| name != **kept) {
                sys::crash::point();
                storage::remove_tree(&entry.path())?;
            }
        }
        // The marks say that the folder belongs to this zone, so they are removed last.
        for mark in [identity::LOCK, identity::FILE, MOVING] {
            sys::crash::point();
            store::atomic::remove(&zonepath.join(mark))?;
        }
    }
    sys::crash::point();
    if folder == KeepFolder::Yes {
        return Ok(());
    }
    match rustix::fs::rmdir(zonepath) {
        // The zonepath is a mount point, or holds files that are not removed.
        Ok(()) | Err(Errno::NOENT | Errno::BUSY | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::io(failed())(errno.into())),
    }
}

fn is_of(zonepath: &Path, uuid: Option<Uuid>) -> bool {
    let Some(uuid) = uuid else {
        return false;
    };
    let marked = fs::read_to_string(zonepath.join(MOVING));
    let is_copy = marked.is_ok_and(|text| text.is_empty() || text.trim() == uuid.to_string());
    is_copy || identity::read(zonepath).uuid == Some(uuid)
}

/// Marks a zonepath as one to which the zone with this uuid is being copied.
///
/// # Errors
/// Fails if the mark cannot be written.
pub fn mark(zonepath: &Path, uuid: Uuid) -> Result<(), Error> {
    let path = zonepath.join(MOVING);
    let failed = format!("write {}", path.display());
    fs::write(&path, format!("{uuid}\n")).map_err(Error::io(failed))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use model::{Config, State};

    use super::*;

    const UUID: &str = "5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10";

    /// A host with the zone web at /zones/web, which is being copied to /srv/web.
    struct Killed {
        _folder: tempfile::TempDir,
        root: Root,
        zone: ZoneName,
    }

    impl Killed {
        fn new(way: Way) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::new(folder.path());
            let zone: ZoneName = "web".parse().unwrap();
            let mut config = Config::new(zone.clone());
            config.set_zonepath("/zones/%{zonename}").unwrap();
            xml::save(&root, &config).unwrap();
            let entry = Entry {
                state: State::Installed,
                uuid: Some(UUID.parse().unwrap()),
                ..Entry::configured(zone.clone(), "/zones/web".into())
            };
            let stored = entry.clone();
            index::update(&root, |index| {
                index.put(stored);
                index.begin(Pending::Move {
                    zone: zone.clone(),
                    way,
                    other: "/srv/web".into(),
                });
                Ok::<(), store::Error>(())
            })
            .unwrap();
            let killed = Self {
                _folder: folder,
                root,
                zone,
            };
            killed.dataset("/zones/web");
            let zonepath = killed.path("/zones/web");
            identity::write(&killed.root, &entry, &zonepath, uuid()).unwrap();
            killed
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path(Path::new(path))
        }

        fn dataset(&self, zonepath: &str) {
            let path = self.path(zonepath);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir_all(&path).unwrap();
            storage::driver_at(&path).unwrap().create(&path).unwrap();
        }

        /// Completes the move. Returns the zonepath in the index, and that in the configuration.
        fn complete(&self) -> (PathBuf, String) {
            let index = Index::load(&self.root).unwrap();
            assert!(recover(&self.root, &self.zone, &index).unwrap());
            let index = Index::load(&self.root).unwrap();
            assert_eq!(index.pending(), []);
            assert!(!recover(&self.root, &self.zone, &index).unwrap());
            let config = xml::load(&self.root, &self.zone).unwrap();
            let entry = index.get(&self.zone).unwrap();
            (entry.zonepath.clone(), config.get("zonepath").to_owned())
        }
    }

    fn uuid() -> Uuid {
        UUID.parse().unwrap()
    }

    fn old() -> (PathBuf, String) {
        ("/zones/web".into(), "/zones/%{zonename}".to_owned())
    }

    #[test]
    fn a_copy_that_was_killed_is_removed() {
        for (way, stays) in [(Way::Copy, false), (Way::CopyInto, true)] {
            let killed = Killed::new(way);
            killed.dataset("/srv/web");
            mark(&killed.path("/srv/web"), uuid()).unwrap();
            fs::write(killed.path("/srv/web/disk0"), "half").unwrap();
            assert_eq!(killed.complete(), old());
            assert!(killed.path("/zones/web/root").exists());
            assert_eq!(killed.path("/srv/web").exists(), stays);
            assert!(!killed.path("/srv/web/root").exists());
        }
    }

    #[test]
    fn a_folder_of_another_owner_is_not_removed() {
        let killed = Killed::new(Way::Copy);
        fs::create_dir_all(killed.path("/srv/web")).unwrap();
        fs::write(killed.path("/srv/web/notes"), "").unwrap();
        assert_eq!(killed.complete(), old());
        assert!(killed.path("/srv/web/notes").exists());
        // An empty folder is the one that the command had just made.
        let killed = Killed::new(Way::Copy);
        fs::create_dir_all(killed.path("/srv/web")).unwrap();
        assert_eq!(killed.complete(), old());
        assert!(!killed.path("/srv/web").exists());
    }

    #[test]
    fn a_copy_that_is_in_the_configuration_is_complete() {
        let killed = Killed::new(Way::Copy);
        killed.dataset("/srv/web");
        mark(&killed.path("/srv/web"), uuid()).unwrap();
        let mut config = xml::load(&killed.root, &killed.zone).unwrap();
        config.relocate(Path::new("/srv/web")).unwrap();
        xml::save(&killed.root, &config).unwrap();
        let new = ("/srv/web".into(), "/srv/web".to_owned());
        assert_eq!(killed.complete(), new);
        assert!(!killed.path("/zones/web").exists());
        assert!(killed.path("/srv/web/root").exists());
        assert!(!killed.path("/srv/web/.moving").exists());
    }

    #[test]
    fn the_original_stays_while_the_new_file_system_is_not_mounted() {
        let killed = Killed::new(Way::Copy);
        store_at(&killed.root, &killed.zone, Path::new("/srv/web")).unwrap();
        fs::create_dir_all(killed.path("/srv/web")).unwrap();
        let index = Index::load(&killed.root).unwrap();
        let pending = index.pending_of(&killed.zone).unwrap().clone();
        let left = complete(&killed.root, &pending).unwrap();
        assert!(left.is_some_and(|text| text.contains("is its file system mounted?")));
        assert!(killed.path("/zones/web/root").exists());
        assert_eq!(Index::load(&killed.root).unwrap().pending().len(), 1);
    }

    #[test]
    fn a_renamed_zonepath_is_found_at_its_new_path() {
        let killed = Killed::new(Way::Rename);
        assert_eq!(killed.complete(), old());
        let killed = Killed::new(Way::Rename);
        fs::create_dir_all(killed.path("/srv")).unwrap();
        fs::rename(killed.path("/zones/web"), killed.path("/srv/web")).unwrap();
        let new = ("/srv/web".into(), "/srv/web".to_owned());
        assert_eq!(killed.complete(), new);
    }

    #[test]
    fn a_killed_rename_leaves_one_name() {
        for stored in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::new(folder.path());
            let [from, to] = ["web", "db"].map(|name| name.parse::<ZoneName>().unwrap());
            for name in [&from, &to] {
                xml::save(&root, &Config::new(name.clone())).unwrap();
            }
            index::update(&root, |index| {
                let name = if stored { &to } else { &from };
                index.put(Entry::configured(name.clone(), "/zones/web".into()));
                index.begin(Pending::Rename {
                    from: from.clone(),
                    to: to.clone(),
                });
                Ok::<(), store::Error>(())
            })
            .unwrap();
            fs::create_dir_all(root.log()).unwrap();
            fs::write(root.messages(&from), "one").unwrap();
            let (there, gone) = if stored { (&to, &from) } else { (&from, &to) };
            // A command on either name completes the rename.
            let index = Index::load(&root).unwrap();
            assert!(recover(&root, there, &index).unwrap());
            assert!(root.xml(there).exists() && !root.xml(gone).exists());
            assert!(root.messages(there).exists());
            assert_eq!(Index::load(&root).unwrap().pending(), []);
        }
    }
}
