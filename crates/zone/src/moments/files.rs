//! `zoneadm files ls` and `cat`: files of a snapshot.
//!
//! The layers of the snapshot are mounted read-only, in a mount namespace that ends with the call.
//! Links are followed inside the snapshot, as a process of the zone would follow them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use copy::name::shown;
use diff::Kind;
use host::{Error, Host};
use model::{Verb, ZoneName};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, readlinkat, statat};
use rustix::io::Errno;

use super::{When, admit, stack};
use crate::{inventory, root_view};

/// Size of a piece of a file that is passed on at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// An object in a folder of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name in the folder.
    pub name: Vec<u8>,
    /// The type.
    pub kind: Kind,
    /// The permissions.
    pub mode: u32,
    /// The numbers of the owner and the group in the zone.
    pub owner: (u32, u32),
    /// The size of a file in bytes.
    pub size: u64,
    /// The time of the last change, in seconds since 1970.
    pub modified: i64,
    /// The target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Passes the objects in a folder of a moment to `each`, sorted by name; or the object itself if the
/// path is no folder.
///
/// # Errors
/// Fails with [`Error::Refused`] if the snapshot or the path does not exist.
pub fn list(
    host: &Host,
    zone: &ZoneName,
    when: &When,
    path: &Path,
    each: &mut (dyn FnMut(&Item) -> ControlFlow<()> + Send),
) -> Result<(), Error> {
    let failed = failed(when, path);
    view(host, zone, when, |root| {
        // The last link of the path is followed only to a folder, as ls(1) does.
        let folder = sys::root::open(&root, path, OFlags::RDONLY | OFlags::DIRECTORY);
        let folder = match folder {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => {
                let one = itself(&root, path).map_err(&failed)?;
                let _ = each(&one);
                return Ok(());
            }
            Err(errno) => return Err(failed(errno)),
        };
        let copy = folder.try_clone().map_err(Error::io("list a folder"))?;
        let listed = diff::names(copy, &mut |name| match item(&folder, name) {
            Ok(item) => each(&item),
            // The present root changes meanwhile.
            Err(_) => ControlFlow::Continue(()),
        });
        listed.map_err(&failed)
    })
}

/// Passes the content of a regular file of a moment to `each`, in pieces.
///
/// # Errors
/// Fails with [`Error::Refused`] if the path is no regular file.
pub fn content(
    host: &Host,
    zone: &ZoneName,
    when: &When,
    path: &Path,
    each: &mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send),
) -> Result<(), Error> {
    let failed = failed(when, path);
    view(host, zone, when, |root| {
        let Some(mut file) = sys::root::file(&root, path).map_err(&failed)? else {
            return Err(match sys::root::open(&root, path, OFlags::PATH) {
                Ok(_) => Error::Refused(format!(
                    "{when} has {} as another type: expected a regular file.",
                    shown(path)
                )),
                Err(errno) => failed(errno),
            });
        };
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length =
                read(&mut file, &mut piece).map_err(Error::io(format!("read {}", shown(path))))?;
            if length == 0 || each(&piece[..length]).is_break() {
                return Ok(());
            }
        }
    })
}

fn read(file: &mut File, piece: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match file.read(piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Calls `look` with the root of a moment.
fn view<T: Send>(
    host: &Host,
    zone: &ZoneName,
    when: &When,
    look: impl FnOnce(OwnedFd) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let subject = admit(host, zone, Verb::Files)?;
    let stack = stack(&subject, when)?;
    drop(subject);
    // This command changes nothing, not even the folder on which the root is mounted.
    let host = &Host {
        plan_only: true,
        ..host.clone()
    };
    root_view::with_view(&stack, &[], &inventory::scratch(host)?, look)
}

/// Returns the conversion of an error about a path.
pub(super) fn failed<'a>(when: &'a When, path: &'a Path) -> impl Fn(Errno) -> Error + 'a {
    move |errno| match errno {
        Errno::NOENT | Errno::NOTDIR => Error::Refused(format!("{when} has no {}.", shown(path))),
        errno => Error::Io(format!("open {} of {when}", shown(path)), errno.into()),
    }
}

/// Returns the object at a path, without following a link at its end.
fn itself(root: &OwnedFd, path: &Path) -> Result<Item, Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::NOENT);
    };
    let parent = sys::root::open(root, parent, OFlags::PATH | OFlags::DIRECTORY)?;
    item(&parent, name)
}

fn item(folder: &OwnedFd, name: &OsStr) -> Result<Item, Errno> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Some(readlinkat(folder, name, Vec::new())?.into_bytes()),
        _ => None,
    };
    Ok(of_stat(name.as_bytes().to_vec(), &stat, target))
}

// The types of these numbers depend on the processor.
#[allow(clippy::useless_conversion)]
fn of_stat(name: Vec<u8>, stat: &Stat, target: Option<Vec<u8>>) -> Item {
    Item {
        name,
        kind: Kind::of_mode(stat.st_mode),
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: stat.st_mtime.into(),
        target,
    }
}

/// Fails if a root has nothing at a path. Follows no link.
pub(super) fn must_exist(root: &OwnedFd, when: &When, path: &Path) -> Result<(), Error> {
    let opened = sys::root::open(root, path, OFlags::PATH | OFlags::NOFOLLOW);
    let opened = opened.and_then(|file| fstat(&file));
    opened.map(drop).map_err(failed(when, path))
}
