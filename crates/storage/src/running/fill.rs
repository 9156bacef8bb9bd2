//! Copies the top of a running zone, and brings the copy up to date while the zone is frozen.
//!
//! A file is looked at, written to disk, and copied. While the zone is frozen, it is looked at
//! again: if its stamp is the same and was settled, the copy is right, and no page of the file is
//! dirty. A file whose stamp is that of the last snapshot is not copied at all: the copy gets
//! another name of the file in the layer of that snapshot.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::compare::{Last, has_same_content, is_of_a_change, stamp_of, stat};
use super::stamp::{Entries, Moment, Node, Stamp};
use crate::copy::{Copied, Copier, dress_folder};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::merge::is_cron;

/// Maximum depth of nested folders in a copy; three descriptors are open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

/// The state of the zone during a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    /// Files change and vanish during the copy.
    Runs,
    /// No file changes.
    Frozen,
}

/// A folder of the top, with its counterparts in the copy and in the last snapshot.
struct Place<'a> {
    from: Folder,
    to: Folder,
    last: Option<Last<'a>>,
    /// True if cron(8) reads the files of the folder. These get no further names: Debian's cron
    /// ignores files that have several.
    is_of_cron: bool,
    depth: usize,
}

impl<'a> Place<'a> {
    /// Returns a folder of this folder, which must exist in the copy.
    fn below(&self, name: &OsStr) -> Result<Self> {
        if self.depth >= MAX_FOLDER_DEPTH {
            return Err(Error::TooDeep(self.from.path().to_owned()));
        }
        Ok(Self {
            from: self.from.open_child(name)?,
            to: self.to.open_child(name)?,
            last: self.last.as_ref().and_then(|last| last.below(name)),
            is_of_cron: self.is_of_cron || is_cron(name),
            depth: self.depth + 1,
        })
    }
}

/// A copy of a top in progress.
#[derive(Debug)]
pub(super) struct Filler<'a> {
    copier: Copier<'static>,
    /// The stamps of the files with several names, by inode number, and the moments at which they were
    /// copied. All names of a file have the same moment: they are copied again together, or none is.
    first: HashMap<u64, (Stamp, Moment)>,
    zone: Zone,
    /// The folder of graves, for folders that vanished from the top.
    dead: &'a Folder,
    /// The trees to remove after the freeze.
    pub(super) graves: Vec<PathBuf>,
}

impl<'a> Filler<'a> {
    /// `links` is an empty folder on the file system of the copy.
    pub(super) fn new(dead: &'a Folder, links: Folder, done: Copied, zone: Zone) -> Self {
        Self {
            copier: Copier::flushing(links, done),
            first: HashMap::new(),
            zone,
            dead,
            graves: Vec::new(),
        }
    }

    pub(super) const fn done(&self) -> Copied {
        self.copier.done
    }

    /// Copies the content of `from` into the empty folder `to`.
    pub(super) fn fill(
        &mut self,
        from: Folder,
        to: Folder,
        last: Option<Last<'_>>,
    ) -> Result<Node> {
        self.folder(&root(from, to, last))
    }

    /// Brings a copy up to date. `root` has the stamps that the objects of the top had before they
    /// were copied; it gets their stamps now.
    pub(super) fn settle(
        &mut self,
        from: Folder,
        to: Folder,
        last: Option<Last<'_>>,
        node: &mut Node,
    ) -> Result<()> {
        self.settle_folder(&root(from, to, last), node)
    }

    fn folder(&mut self, place: &Place<'_>) -> Result<Node> {
        let (now, stamp) = (Moment::now(), stamp_of(&place.from)?);
        let mut inner = Entries::new();
        for (name, _) in place.from.entries()? {
            let node = match self.entry(place, &name) {
                Err(error) if self.zone == Zone::Runs && is_of_a_change(&error) => Node {
                    stamp: Stamp::UNKNOWN,
                    settled: false,
                    inner: None,
                },
                other => other?,
            };
            inner.insert(name, node);
        }
        dress_folder(&place.from, &place.to)?;
        Ok(Node {
            stamp,
            settled: stamp.is_settled(now),
            inner: Some(inner),
        })
    }

    fn entry(&mut self, place: &Place<'_>, name: &OsStr) -> Result<Node> {
        let (now, stat) = (Moment::now(), stat(&place.from, name)?);
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            place.to.make(name)?;
            self.copier.done.entries += 1;
            return self.folder(&place.below(name)?);
        }
        let several = stat.st_nlink > 1;
        if several {
            if let Some((stamp, then)) = self.first.get(&stat.st_ino).copied() {
                if self.copier.again(&place.to, name, &stat)? {
                    self.copier.done.entries += 1;
                    return Ok(Node::file(stamp, then));
                }
            }
        }
        let found = if self.link(place, name, &stat)? {
            self.copier.done.linked += 1;
            if several {
                self.copier.remember(&place.to, name, &stat);
            }
            stat
        } else {
            self.copier.entry(&place.from, &place.to, name)?
        };
        let stamp = Stamp::of(&found);
        if several || found.st_nlink > 1 {
            self.first.insert(found.st_ino, (stamp, now));
        }
        Ok(Node::file(stamp, now))
    }

    /// Gives the copy another name of the file in the last snapshot, if that is the same file.
    fn link(&self, place: &Place<'_>, name: &OsStr, stat: &Stat) -> Result<bool> {
        let Some(last) = place.last.as_ref() else {
            return Ok(false);
        };
        let same = |known: &&Node| known.inner.is_none() && known.stamp == Stamp::of(stat);
        let Some(known) = last.known.get(name).filter(same) else {
            return Ok(false);
        };
        if place.is_of_cron || is_cron(name) {
            return Ok(false);
        }
        if !(known.settled && last.is_trusted)
            && (self.zone == Zone::Frozen || !has_same_content(&place.from, last, name, stat)?)
        {
            return Ok(false);
        }
        match rustix::fs::linkat(&last.folder, name, &place.to, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::XDEV | Errno::MLINK | Errno::PERM) => Ok(false),
            Err(e) => Err(place.to.fail("link", name, e)),
        }
    }

    fn settle_folder(&mut self, place: &Place<'_>, node: &mut Node) -> Result<()> {
        let stamp = stamp_of(&place.from)?;
        let is_same = node.settled && node.stamp == stamp;
        let inner = node.inner.get_or_insert_default();
        let mut changed = match is_same {
            true => Vec::new(),
            false => self.changed_names(place, inner)?,
        };
        for (name, child) in inner.iter_mut() {
            if child.inner.is_some() {
                // A folder may have been replaced by another folder: both are compared.
                match place.below(name) {
                    Ok(below) => self.settle_folder(&below, child)?,
                    Err(error) if is_of_a_change(&error) => changed.push(name.clone()),
                    Err(error) => return Err(error),
                }
            } else if !child.settled || Stamp::of(&stat(&place.from, name)?) != child.stamp {
                changed.push(name.clone());
            }
        }
        let is_touched = !is_same || !changed.is_empty();
        for name in changed {
            self.clear(&place.to, &name)?;
            let child = self.entry(place, &name)?;
            inner.insert(name, child);
        }
        if is_touched {
            dress_folder(&place.from, &place.to)?;
        }
        node.stamp = stamp;
        Ok(())
    }

    /// Removes the names that vanished from a folder, and returns those that are new.
    fn changed_names(&mut self, place: &Place<'_>, inner: &mut Entries) -> Result<Vec<OsString>> {
        let names = place.from.entries()?.into_iter().map(|(name, _)| name);
        let names: BTreeSet<OsString> = names.collect();
        let gone: Vec<OsString> = inner
            .keys()
            .filter(|name| !names.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.clear(&place.to, &name)?;
            inner.remove(&name);
        }
        Ok(names
            .into_iter()
            .filter(|name| !inner.contains_key(name))
            .collect())
    }

    /// Removes an entry of the copy. A folder is moved to the graves, as its removal takes time.
    fn clear(&mut self, at: &Folder, name: &OsStr) -> Result<()> {
        match at.kind(name)? {
            None => Ok(()),
            Some(FileType::Directory) => {
                let grave = Id::random()?.to_string();
                at.rename(name, self.dead, &grave)?;
                self.graves.push(self.dead.path().join(grave));
                Ok(())
            }
            Some(_) => at.unlink(name).map(drop),
        }
    }
}

fn root<'a>(from: Folder, to: Folder, last: Option<Last<'a>>) -> Place<'a> {
    Place {
        from,
        to,
        last,
        is_of_cron: false,
        depth: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_names_of_a_file_are_settled_together() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["top", "copy", "links", "dead"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let open = |name: &str| Folder::open(&dir.path().join(name)).unwrap();
        let file = dir.path().join("top/a");
        fs::write(&file, "text").unwrap();
        fs::hard_link(&file, dir.path().join("top/b")).unwrap();
        let dead = open("dead");
        let mut filler = Filler::new(&dead, open("links"), Copied::default(), Zone::Runs);
        let place = root(open("top"), open("copy"), None);
        let first = filler.entry(&place, OsStr::new("a")).unwrap();
        // Longer than a file counts as changed after its change.
        std::thread::sleep(Duration::from_millis(100));
        let second = filler.entry(&place, OsStr::new("b")).unwrap();
        assert_eq!(first.settled, second.settled);
    }
}
