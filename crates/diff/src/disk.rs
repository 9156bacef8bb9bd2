//! Layers in folders.
//!
//! Only some folders stay open. A closed one is opened again along its names, and must be the same.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

use crate::change::{Kind, What};
use crate::content;
use crate::layer::{Entry, Lister, Mark, Reader, listed, redirect};
use crate::moment::{Error, Moment, Proof};
use crate::names::{Memory, Names};
use crate::view::Side;

const OPAQUE: &str = "trusted.overlay.opaque";
const REDIRECT: &str = "trusted.overlay.redirect";
const WHITEOUT: &str = "trusted.overlay.whiteout";

/// Maximum number of folders that stay open besides the roots of the layers.
const MAX_OPEN: usize = 256;

/// Maximum length of a path that is opened by one call, in bytes: less than PATH_MAX.
const MAX_OPENED_BYTES: usize = 3500;

/// Maximum size of a mark, in bytes: a path.
const MAX_MARK_BYTES: usize = 4096;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The layers of both moments.
#[derive(Debug)]
pub(crate) struct Disk {
    layers: Vec<Layer>,
    proof: Proof,
    open: RefCell<VecDeque<Weak<Inner>>>,
}

#[derive(Debug)]
struct Layer {
    path: PathBuf,
    /// The root, without and with marks.
    roots: [Folder; 2],
}

/// An open folder of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Folder(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    parent: Option<Folder>,
    name: Vec<u8>,
    id: (u64, u64),
    has_marks: bool,
    mark: Mark,
    /// True if files in the folder can be whiteouts by an attribute.
    has_whiteout_files: bool,
    fd: RefCell<Option<Rc<OwnedFd>>>,
}

impl Disk {
    /// Opens the layers of two moments. A layer that both have is opened once.
    pub(crate) fn open(
        [before, after]: [&Moment; 2],
        proof: Proof,
    ) -> Result<(Self, [Side; 2]), Error> {
        let shared = before.layers.iter().rev().zip(after.layers.iter().rev());
        let shared = shared.take_while(|(a, b)| a == b).count();
        let mut layers = Vec::new();
        let mut side = |moment: &Moment| -> Result<Side, Error> {
            let own = moment.layers.len() - shared;
            let first = layers.len();
            for path in &moment.layers[..own] {
                layers.push(Layer::open(path)?);
            }
            Ok(Side {
                layers: (first..first + own).collect(),
                own,
            })
        };
        let mut sides = [side(before)?, side(after)?];
        for path in &before.layers[before.layers.len() - shared..] {
            for side in &mut sides {
                side.layers.push(layers.len());
            }
            layers.push(Layer::open(path)?);
        }
        let disk = Self {
            layers,
            proof,
            open: RefCell::default(),
        };
        Ok((disk, sides))
    }

    /// Fails if a layer was removed since it was opened.
    pub(crate) fn still_complete(&self) -> Result<(), Error> {
        for layer in &self.layers {
            let there = rustix::fs::stat(&layer.path).map(|stat| (stat.st_dev, stat.st_ino));
            if there != Ok(layer.roots[0].0.id) {
                return Err(Error::Removed(layer.path.clone()));
            }
        }
        Ok(())
    }

    /// Returns the descriptor of a folder, which is opened again if it was closed.
    fn fd(&self, folder: &Folder) -> Result<Rc<OwnedFd>, Errno> {
        if let Some(fd) = &*folder.0.fd.borrow() {
            return Ok(Rc::clone(fd));
        }
        let (mut names, mut above) = (vec![folder.0.name.as_slice()], folder);
        let mut at = loop {
            // The root of a layer stays open.
            above = above.0.parent.as_ref().ok_or(Errno::STALE)?;
            if let Some(fd) = &*above.0.fd.borrow() {
                break Rc::clone(fd);
            }
            names.push(&above.0.name);
        };
        while !names.is_empty() {
            let mut path = names.pop().map(<[u8]>::to_vec).unwrap_or_default();
            while let Some(name) = names
                .last()
                .filter(|name| path.len() + name.len() < MAX_OPENED_BYTES)
            {
                path.push(b'/');
                path.extend(*name);
                names.pop();
            }
            at = Rc::new(open_below(&*at, &path)?);
        }
        let stat = fstat(&*at)?;
        if (stat.st_dev, stat.st_ino) != folder.0.id {
            return Err(Errno::STALE);
        }
        self.keep(folder, &at);
        Ok(at)
    }

    /// Keeps a folder open, and closes another one if too many are open.
    fn keep(&self, folder: &Folder, fd: &Rc<OwnedFd>) {
        folder.0.fd.replace(Some(Rc::clone(fd)));
        let mut open = self.open.borrow_mut();
        open.push_back(Rc::downgrade(&folder.0));
        while open.len() > MAX_OPEN {
            if let Some(oldest) = open.pop_front().and_then(|one| one.upgrade()) {
                oldest.fd.replace(None);
            }
        }
    }
}

/// Opens a folder below another one. Follows no link and enters no mount.
fn open_below(at: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(at, OsStr::from_bytes(path), FOLDER, Mode::empty(), resolve)
}

impl Layer {
    fn open(path: &Path) -> Result<Self, Error> {
        let opened = openat(CWD, path, FOLDER, Mode::empty())
            .and_then(|fd| Ok((fstat(&fd)?, fd)))
            .map_err(|errno| Error::Layer(path.to_owned(), errno.into()))?;
        let (stat, fd) = opened;
        let fd = Rc::new(fd);
        let root = |has_marks| {
            // The root of a layer has no mark but this one.
            let opaque = match has_marks {
                true => attribute(&*fd, OPAQUE).ok().flatten(),
                false => None,
            };
            Folder(Rc::new(Inner {
                parent: None,
                name: Vec::new(),
                id: (stat.st_dev, stat.st_ino),
                has_marks,
                mark: Mark::None,
                has_whiteout_files: opaque.as_deref() == Some(b"x"),
                fd: RefCell::new(Some(Rc::clone(&fd))),
            }))
        };
        Ok(Self {
            path: path.to_owned(),
            roots: [root(false), root(true)],
        })
    }
}

/// Returns an attribute of the kernel's overlay.
fn attribute(file: impl AsFd, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; MAX_MARK_BYTES];
    match rustix::fs::fgetxattr(file, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

// The types of these numbers depend on the processor.
#[allow(clippy::useless_conversion)]
fn entry(stat: &Stat, has_marks: bool) -> Entry {
    let kind = Kind::of_mode(stat.st_mode);
    let is_whiteout = has_marks && kind == Kind::CharacterDevice && stat.st_rdev == 0;
    Entry {
        kind: (!is_whiteout).then_some(kind),
        id: (stat.st_dev, stat.st_ino),
        mode: stat.st_mode,
        owner: (stat.st_uid, stat.st_gid),
        device: stat.st_rdev,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        changed: (
            stat.st_ctime.into(),
            i64::try_from(stat.st_ctime_nsec).unwrap_or(0),
        ),
    }
}

impl Lister for Disk {
    type Folder = Folder;

    fn names(
        &self,
        at: &Folder,
        each: &mut dyn FnMut(&[u8], bool) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        list(&*self.fd(at)?, each)
    }
}

/// Passes each name of an open folder to `each`, with false if it is certainly no folder.
fn list(
    folder: impl AsFd,
    each: &mut dyn FnMut(&[u8], bool) -> ControlFlow<()>,
) -> Result<(), Errno> {
    for next in Dir::read_from(folder)? {
        let next = next?;
        let name = next.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = next.file_type();
        let may_be_folder = matches!(kind, FileType::Directory | FileType::Unknown);
        if each(name, may_be_folder).is_break() {
            break;
        }
    }
    Ok(())
}

/// Any open folder.
struct Any;

impl Lister for Any {
    type Folder = Rc<OwnedFd>;

    fn names(
        &self,
        at: &Rc<OwnedFd>,
        each: &mut dyn FnMut(&[u8], bool) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        list(&**at, each)
    }
}

/// Passes the names of a folder to `each`, in the order of their bytes, with bounded memory.
///
/// # Errors
/// Fails with the error of getdents(2), and with [`Errno::AGAIN`] if the folder gets new names
/// without end.
pub fn names(
    folder: OwnedFd,
    each: &mut dyn FnMut(&OsStr) -> ControlFlow<()>,
) -> Result<(), Errno> {
    let (mut names, memory) = (Names::new(vec![Rc::new(folder)], false), Memory::default());
    while let Some(name) = names.next(&Any, &memory)? {
        if each(OsStr::from_bytes(&name)).is_break() {
            break;
        }
    }
    Ok(())
}

impl Reader for Disk {
    fn root(&self, layer: usize, marks: bool) -> Folder {
        self.layers[layer].roots[usize::from(marks)].clone()
    }

    fn entry(&self, at: &Folder, name: &[u8]) -> Result<Option<Entry>, Errno> {
        let fd = self.fd(at)?;
        let name = OsStr::from_bytes(name);
        let stat = match statat(&*fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let mut entry = entry(&stat, at.0.has_marks);
        let may_be_whiteout = at.0.has_whiteout_files && entry.kind == Some(Kind::File);
        if may_be_whiteout && entry.size == 0 {
            let file = content::open(&*fd, name, &entry)?;
            if let Some((file, _)) = file {
                if attribute(&file, WHITEOUT)?.is_some() {
                    entry.kind = None;
                }
            }
        }
        Ok(Some(entry))
    }

    fn open(&self, at: &Folder, name: &[u8], listed: &Entry) -> Result<Option<Folder>, Errno> {
        let opened = match open_below(&*self.fd(at)?, name) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let stat = fstat(&opened)?;
        if (stat.st_dev, stat.st_ino) != listed.id {
            return Ok(None);
        }
        let (mut mark, mut opaque) = (Mark::None, None);
        if at.0.has_marks {
            opaque = attribute(&opened, OPAQUE)?;
            if opaque.as_deref() == Some(b"y") {
                mark = Mark::Opaque;
            } else if let Some(value) = attribute(&opened, REDIRECT)? {
                // The kernel refuses such a folder, too.
                mark = redirect(&value).ok_or(Errno::INVAL)?;
            }
        }
        let folder = Folder(Rc::new(Inner {
            parent: Some(at.clone()),
            name: name.to_vec(),
            id: listed.id,
            has_marks: at.0.has_marks,
            mark,
            has_whiteout_files: opaque.as_deref() == Some(b"x"),
            fd: RefCell::new(None),
        }));
        self.keep(&folder, &Rc::new(opened));
        Ok(Some(folder))
    }

    fn mark(&self, at: &Folder) -> Mark {
        at.0.mark.clone()
    }

    fn compare(
        &self,
        before: (&Folder, &[u8], &Entry),
        after: (&Folder, &[u8], &Entry),
    ) -> Result<What, Errno> {
        let (one, other) = (before.2, after.2);
        let mut what = listed(one, other);
        let fds = (self.fd(before.0)?, self.fd(after.0)?);
        let names = (OsStr::from_bytes(before.1), OsStr::from_bytes(after.1));
        match other.kind {
            Some(Kind::File) => {
                let is_proved = self.proof == Proof::InodeAndChangeTime
                    && (one.id.1, one.size, one.changed) == (other.id.1, other.size, other.changed);
                if !is_proved {
                    let differs =
                        content::files((&*fds.0, names.0, one), (&*fds.1, names.1, other))?;
                    (what.content, what.attributes) = (differs.content, differs.attributes);
                }
            }
            Some(Kind::Symlink) => {
                let text = |fd: &OwnedFd, name| rustix::fs::readlinkat(fd, name, Vec::new());
                what.content = text(&fds.0, names.0)? != text(&fds.1, names.1)?;
            }
            Some(Kind::BlockDevice | Kind::CharacterDevice) => {
                what.device = one.device != other.device;
            }
            _ => {}
        }
        Ok(what)
    }

    fn compare_folders(&self, before: &Folder, after: &Folder) -> Result<What, Errno> {
        if before.0.id == after.0.id {
            return Ok(What::default());
        }
        let fds = (self.fd(before)?, self.fd(after)?);
        let entries = (
            entry(&fstat(&*fds.0)?, false),
            entry(&fstat(&*fds.1)?, false),
        );
        Ok(What {
            attributes: content::attributes(&*fds.0)? != content::attributes(&*fds.1)?,
            ..listed(&entries.0, &entries.1)
        })
    }
}
