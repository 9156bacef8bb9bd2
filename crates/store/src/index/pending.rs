//! Moves and renames of zones that a command has begun and not ended.
//!
//! Each is a line of the index that older programs keep as a comment:
//!
//! ```text
//! # renaming: OLD NEW
//! # moving: ZONE WAY PATH
//! ```
//!
//! The entry of the zone says which of the two names or zonepaths is the right one. The line names
//! the other one, which the next command on the zone removes if the command was killed. A write of
//! the index changes the entry and the line together.

use std::fmt;
use std::path::{Path, PathBuf};

use model::ZoneName;

use super::Index;

const RENAMING: &str = "# renaming: ";
const MOVING: &str = "# moving: ";

/// The way in which a zonepath moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The folder is renamed.
    Rename,
    /// The files are copied into a folder that the command makes.
    Copy,
    /// The files are copied into an empty folder that existed before, such as a mount point.
    CopyInto,
}

impl Way {
    const ALL: [Self; 3] = [Self::Rename, Self::Copy, Self::CopyInto];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Copy => "copy",
            Self::CopyInto => "copy-into",
        }
    }
}

/// A move or a rename that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The zone gets another name.
    Rename {
        /// The old name.
        from: ZoneName,
        /// The new name.
        to: ZoneName,
    },
    /// The zone gets another zonepath.
    Move {
        /// The name of the zone.
        zone: ZoneName,
        /// The way in which the zonepath moves.
        way: Way,
        /// The zonepath that the entry of the zone does not have: the new one until the zone is
        /// stored there, then the old one.
        other: PathBuf,
    },
}

impl Pending {
    /// Parses a line of the index. Returns `None` for every other line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        if let Some(names) = line.strip_prefix(RENAMING) {
            let (from, to) = names.split_once(' ')?;
            return Some(Self::Rename {
                from: from.parse().ok()?,
                to: to.parse().ok()?,
            });
        }
        let (zone, rest) = line.strip_prefix(MOVING)?.split_once(' ')?;
        let (way, path) = rest.split_once(' ')?;
        Some(Self::Move {
            zone: zone.parse().ok()?,
            way: Way::ALL.into_iter().find(|known| known.as_str() == way)?,
            other: Some(PathBuf::from(path)).filter(|path| path.is_absolute())?,
        })
    }

    /// Returns true if this is a change of the zone with this name: the old or the new one.
    #[must_use]
    pub fn concerns(&self, name: &ZoneName) -> bool {
        match self {
            Self::Rename { from, to } => from == name || to == name,
            Self::Move { zone, .. } => zone == name,
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rename { from, to } => write!(f, "{RENAMING}{from} {to}"),
            Self::Move { zone, way, other } => {
                write!(f, "{MOVING}{zone} {} {}", way.as_str(), other.display())
            }
        }
    }
}

impl Index {
    /// Returns all moves and renames that have begun and not ended.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Returns the move or rename of the zone with this name, the old or the new one.
    #[must_use]
    pub fn pending_of(&self, name: &ZoneName) -> Option<&Pending> {
        self.pending.iter().find(|one| one.concerns(name))
    }

    /// Records the begin of a move or rename.
    pub fn begin(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    /// Records the end of the move or rename of the zone with this name, the old or the new one.
    pub fn end(&mut self, name: &ZoneName) {
        self.pending.retain(|one| !one.concerns(name));
    }

    /// Stores `zonepath` as the zonepath of a zone that is being moved there. From now on the line
    /// of the move names the former zonepath. Returns false if the zone is not being moved there.
    pub fn store_move(&mut self, name: &ZoneName, zonepath: &Path) -> bool {
        let moves = self.pending.iter_mut().find_map(|one| match one {
            Pending::Move { zone, other, .. } if zone == name && other == zonepath => Some(other),
            _ => None,
        });
        let entry = self.entries.iter_mut().find(|entry| entry.name == *name);
        let (Some(other), Some(entry)) = (moves, entry) else {
            return false;
        };
        std::mem::swap(other, &mut entry.zonepath);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Entry;

    fn name(text: &str) -> ZoneName {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_comes_back_and_other_lines_stay_comments() {
        let path = Path::new("/index");
        let lines = [
            Pending::Rename {
                from: name("web"),
                to: name("db"),
            },
            Pending::Move {
                zone: name("web"),
                way: Way::CopyInto,
                other: "/zones with a blank/w:eb".into(),
            },
        ];
        for pending in lines {
            let mut index = Index::default();
            index.begin(pending.clone());
            let read = Index::parse(&index.render(), path).unwrap();
            assert_eq!(read.pending(), std::slice::from_ref(&pending));
            assert_eq!(read.pending_of(&name("web")), Some(&pending));
            assert_eq!(read.pending_of(&name("mail")), None);
            index.end(&name("web"));
            assert!(!index.render().contains("ing: "));
        }
        for line in [
            "# renaming: web",
            "# moving: web fly /x",
            "# moving: web copy relative",
            "# moving: ../x copy /x",
        ] {
            let index = Index::parse(&format!("{line}\n"), path).unwrap();
            assert_eq!(index.pending(), []);
            assert!(index.render().contains(line));
        }
    }

    #[test]
    fn a_stored_move_exchanges_the_two_zonepaths() {
        let mut index = Index::default();
        index.put(Entry::configured(name("web"), "/zones/web".into()));
        index.begin(Pending::Move {
            zone: name("web"),
            way: Way::Copy,
            other: "/srv/web".into(),
        });
        assert!(!index.store_move(&name("web"), Path::new("/other")));
        assert!(index.store_move(&name("web"), Path::new("/srv/web")));
        assert_eq!(index.entries()[0].zonepath, Path::new("/srv/web"));
        let pending = index.pending_of(&name("web"));
        assert!(
            matches!(pending, Some(Pending::Move { other, .. }) if other == Path::new("/zones/web"))
        );
    }
}
