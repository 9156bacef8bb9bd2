//! Merges two adjacent layers into one layer with the same effect.
//!
//! Overlay finds the lower parts of a folder by name. Three marks change this search. A whiteout
//! (character device 0/0) ends the search for one name. An opaque folder ends the search for all
//! names in the folder. A redirect continues the search under another path. Therefore three facts
//! describe a merged folder: its part in the upper layer, its part in the lower layer, and the path
//! (if any) under which overlay searches the layers further below. The merge must keep this path,
//! if necessary with a new mark:
//!
//! | path below | mark on the merged folder |
//! |---|---|
//! | none, though its parent has one | opaque |
//! | its parent's and its own name | none |
//! | another | redirect to that path |
//!
//! The merged files are hard links to the files of the layers, which never change. No data is
//! copied, and a zone on the merged layer shares the page cache with zones on the old layers. There
//! are two exceptions. A hard link cannot cross btrfs subvolumes, so there a file becomes a new
//! file with shared blocks. Files of cron are copied, because a hard link would add a name to a
//! file that another zone may use, and Debian's cron ignores a table with several names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, XattrFlags};
use rustix::io::Errno;

use crate::attributes::{Attributes, xattrs};
use crate::copy::{Copied, Copier};
use crate::error::{Error, Result};
use crate::folder::Folder;

const OPAQUE: &str = "trusted.overlay.opaque";
const REDIRECT: &str = "trusted.overlay.redirect";

/// Maximum depth of nested folders in a merge; three descriptors are open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

/// Tells if layers exist below the two merged layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    /// The lower of both layers is the lowest layer, so no file below can be hidden or found.
    Nothing,
    /// More layers exist below.
    More,
}

/// Fills the empty folder `out` with the merged content of the layers `upper` and `lower`. Files on
/// another file system or in another subvolume are copied; the folder `links` then holds the extra
/// names of files with several names. Returns the number of copied files and bytes.
pub(crate) fn merge(
    upper: &Path,
    lower: &Path,
    below: Below,
    out: &Path,
    links: Folder,
) -> Result<Copied> {
    let merger = Merger {
        roots: [upper.to_owned(), lower.to_owned()],
        lower: Folder::open(lower)?,
        below,
        copier: RefCell::new(Copier::new(links)),
    };
    let halves = Halves {
        upper: Some(Folder::open(upper)?),
        lower: Some(Folder::open(lower)?),
        below: (below == Below::More).then(|| PathBuf::from("/")),
    };
    merger.folder(&halves, &Folder::open(out)?, 0)?;
    Ok(merger.copier.into_inner().done)
}

/// The two parts of a folder of the merged tree.
#[derive(Debug)]
struct Halves {
    upper: Option<Folder>,
    lower: Option<Folder>,
    /// The path in the layers below that overlay searches for more files of this folder.
    below: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Upper,
    Lower,
}

/// The mark of a folder in one layer.
enum Mark {
    None,
    Opaque,
    Redirect(PathBuf),
}

#[derive(Debug)]
struct Merger {
    /// The paths of the roots of both layers.
    roots: [PathBuf; 2],
    /// The root of the lower layer, where absolute redirects start.
    lower: Folder,
    below: Below,
    copier: RefCell<Copier<'static>>,
}

impl Merger {
    fn folder(&self, halves: &Halves, out: &Folder, depth: usize) -> Result<()> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(Error::TooDeep(out.path().to_owned()));
        }
        // A name of the upper part replaces the same name of the lower part.
        let mut names: BTreeMap<OsString, (Side, &Folder)> = BTreeMap::new();
        for (side, half) in [(Side::Lower, &halves.lower), (Side::Upper, &halves.upper)] {
            if let Some(half) = half {
                for (name, _) in half.entries()? {
                    names.insert(name, (side, half));
                }
            }
        }
        for (name, (side, from)) in names {
            match kind(from, &name)? {
                Kind::Whiteout if halves.below.is_none() => {}
                Kind::Whiteout | Kind::Other => self.link(from, out, &name)?,
                Kind::Folder => {
                    let child = match side {
                        Side::Upper => self.upper_child(halves, from, &name)?,
                        Side::Lower => {
                            let (lower, below) =
                                self.lower_child(Some(from), halves.below.as_deref(), &name)?;
                            Halves {
                                upper: None,
                                lower,
                                below,
                            }
                        }
                    };
                    let natural = halves.below.as_ref().map(|path| path.join(&name));
                    out.make(&name)?;
                    let made = out.open_child(&name)?;
                    mark(&made, child.below.as_deref(), natural.as_deref())?;
                    self.folder(&child, &made, depth + 1)?;
                }
            }
        }
        // The attributes are set last, because they include the times.
        let seen = halves.upper.as_ref().or(halves.lower.as_ref());
        match seen {
            Some(seen) => Attributes::of(seen)?.apply(out),
            None => Ok(()),
        }
    }

    /// Returns a folder of the upper layer together with the folder of the lower layer that it
    /// covers.
    fn upper_child(&self, halves: &Halves, from: &Folder, name: &OsStr) -> Result<Halves> {
        let upper = from.open_child(name)?;
        let (lower, below) = match read_mark(&upper)? {
            Mark::Opaque => (None, None),
            Mark::Redirect(path) if path.is_absolute() => self.walk(&path)?,
            Mark::Redirect(path) => self.lower_child(
                halves.lower.as_ref(),
                halves.below.as_deref(),
                path.as_os_str(),
            )?,
            Mark::None => self.lower_child(halves.lower.as_ref(), halves.below.as_deref(), name)?,
        };
        Ok(Halves {
            upper: Some(upper),
            lower,
            below,
        })
    }

    /// Returns the lower layer's part of the folder `name` in `parent`, and the path under which
    /// overlay searches the layers below.
    fn lower_child(
        &self,
        parent: Option<&Folder>,
        below: Option<&Path>,
        name: &OsStr,
    ) -> Result<(Option<Folder>, Option<PathBuf>)> {
        let natural = below.map(|path| path.join(name));
        let Some(parent) = parent else {
            return Ok((None, natural));
        };
        if parent.kind(name)?.is_none() {
            return Ok((None, natural));
        }
        match kind(parent, name)? {
            // Neither this folder nor the folder that it hides is merged with a folder above.
            Kind::Whiteout | Kind::Other => Ok((None, None)),
            Kind::Folder => {
                let folder = parent.open_child(name)?;
                let below = match read_mark(&folder)? {
                    Mark::Opaque => None,
                    // A redirect also counts inside an opaque folder, because the folder was moved
                    // there.
                    Mark::Redirect(path) if path.is_absolute() => self.beyond(path),
                    Mark::Redirect(path) => below.map(|below| below.join(path)),
                    Mark::None => natural,
                };
                Ok((Some(folder), below))
            }
        }
    }

    /// Follows an absolute redirect of the upper layer.
    fn walk(&self, path: &Path) -> Result<(Option<Folder>, Option<PathBuf>)> {
        let mut at = Some(Folder::open(self.lower.path())?);
        let mut below = self.beyond(PathBuf::from("/"));
        for part in path.components() {
            if let Component::Normal(name) = part {
                (at, below) = self.lower_child(at.as_ref(), below.as_deref(), name)?;
            }
        }
        Ok((at, below))
    }

    /// Links a file or whiteout into `out` under its name.
    fn link(&self, from: &Folder, out: &Folder, name: &OsStr) -> Result<()> {
        if self.is_of_cron(from, name) {
            return self.copy(from, out, name);
        }
        match rustix::fs::linkat(from, name, out, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            // All whiteouts of the kernel are hard links of one file. At the maximum number of
            // links, the merge makes a new whiteout.
            Err(Errno::MLINK) if matches!(kind(from, name)?, Kind::Whiteout) => {
                rustix::fs::mknodat(out, name, FileType::CharacterDevice, Mode::empty(), 0)
                    .map_err(|e| out.fail("mknod", name, e))
            }
            Err(Errno::XDEV | Errno::MLINK) => self.copy(from, out, name),
            Err(e) => Err(from.fail("link", name, e)),
        }
    }

    fn copy(&self, from: &Folder, out: &Folder, name: &OsStr) -> Result<()> {
        self.copier.borrow_mut().entry(from, out, name).map(drop)
    }

    /// Returns true if `name` leads to a file that cron(8) reads: a table or a folder of tables.
    fn is_of_cron(&self, from: &Folder, name: &OsStr) -> bool {
        let inside = self
            .roots
            .iter()
            .find_map(|root| from.path().strip_prefix(root).ok());
        let names = inside.into_iter().flat_map(Path::iter).chain([name]);
        names.into_iter().any(is_cron)
    }

    fn beyond(&self, path: PathBuf) -> Option<PathBuf> {
        (self.below == Below::More).then_some(path)
    }
}

/// Returns true if a name in a path makes it a path of cron(8).
pub(crate) fn is_cron(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"cron")
}

enum Kind {
    Folder,
    Whiteout,
    Other,
}

fn kind(at: &Folder, name: &OsStr) -> Result<Kind> {
    let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| at.fail("stat", name, e))?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
        _ => Kind::Other,
    })
}

fn read_mark(folder: &Folder) -> Result<Mark> {
    let mut all = xattrs(folder).map_err(|e| folder.fail("getxattr", "", e))?;
    if all.get(OPAQUE.as_bytes()).map(Vec::as_slice) == Some(b"y") {
        return Ok(Mark::Opaque);
    }
    let Some(value) = all.remove(REDIRECT.as_bytes()) else {
        return Ok(Mark::None);
    };
    let path = PathBuf::from(OsString::from_vec(value));
    // The kernel writes a redirect as an absolute path without dots, or as a single name.
    let names = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .count();
    let absolute = path.is_absolute();
    let all_names = names + usize::from(absolute) == path.components().count();
    if all_names && names > 0 && (absolute || names == 1) {
        return Ok(Mark::Redirect(path));
    }
    Err(Error::BadLink {
        path: folder.path().to_owned(),
        text: path.to_string_lossy().into_owned(),
    })
}

fn mark(folder: &Folder, below: Option<&Path>, natural: Option<&Path>) -> Result<()> {
    let (name, value) = match below {
        _ if below == natural => return Ok(()),
        None => (OPAQUE, b"y".as_slice()),
        Some(path) => (REDIRECT, path.as_os_str().as_bytes()),
    };
    rustix::fs::fsetxattr(folder, name, value, XattrFlags::empty())
        .map_err(|e| folder.fail("setxattr", "", e))
}
