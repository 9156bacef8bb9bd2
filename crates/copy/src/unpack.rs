//! Unpacks a stream into a folder.
//!
//! A new file is written under a name of its own and then renamed, so no program sees half of it,
//! and no file, link, FIFO or device that has its name is opened.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, Uid,
    XattrFlags, chownat, fchmod, fchown, fsetxattr, ftruncate, futimens, linkat, openat, openat2,
    renameat, renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::folders::{Folders, Left};
use crate::header::{Kind, Member};
use crate::owner::Ids;
use crate::read::Reader;
use crate::target::{Renamer, Target};
use crate::{Attributes, Done, Error, Owner, Problem, name};

/// The bits set-user-id and set-group-id of a mode.
const SET_ID: u32 = 0o6000;

/// Size of a piece of content that is copied at once, in bytes.
const COPY_BYTES: usize = 128 << 10;

/// The begin of the name of a file that is not complete. Its process id and a number follow.
const UNFINISHED: &str = ".zones-copy";

/// The rules for new files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The owner of new files.
    pub owner: Owner,
    /// True if files keep set-id bits.
    pub set_id: bool,
    /// The rules of a restoration; `None` for a copy between two sides that do not trust each other.
    pub restore: Option<Restore>,
}

/// The rules for files that come back to where they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The absolute paths of the files and folders. Folders above them stay as they are, unless they
    /// are missing.
    pub paths: Vec<PathBuf>,
    /// The rule for files that exist.
    pub existing: Existing,
}

/// The rule for a file whose name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The new file replaces the other one. A folder gets its former attributes.
    Replace,
    /// The other file stays.
    Keep,
}

impl Restore {
    /// Returns true if an existing folder gets its former attributes.
    fn describes(&self, path: &[OsString]) -> bool {
        let path: PathBuf = std::iter::once(OsStr::new("/"))
            .chain(path.iter().map(OsString::as_os_str))
            .collect();
        let mut tops = self.paths.iter();
        self.existing == Existing::Replace && tops.any(|top| path.starts_with(top))
    }
}

/// Unpacks a stream at a destination in `root`. Passes each file that cannot be copied to `report`,
/// and continues.
///
/// # Errors
/// Fails with [`Error::Stream`] if the stream is no archive or ends too early, and with
/// [`Error::Full`] if the file system takes no further file.
pub fn unpack<R: Read>(
    root: BorrowedFd<'_>,
    target: Target,
    from: R,
    rules: &Rules,
    report: &mut dyn FnMut(&Problem),
) -> Result<Done, Error> {
    let ids = rules.owner.ids(root)?;
    let Target {
        folder,
        rename,
        shown,
    } = target;
    let mut unpack = Unpack {
        maker: Maker {
            ids,
            set_id: rules.set_id,
            unfinished: format!(
                "{UNFINISHED}.{}",
                rustix::process::getpid().as_raw_nonzero()
            ),
            count: 0,
        },
        folders: Folders::new(folder),
        renamer: Renamer::new(rename),
        shown,
        restore: rules.restore.as_ref(),
        done: Done::default(),
        report,
        buffer: vec![0; COPY_BYTES],
    };
    let mut reader = match rules.restore {
        Some(_) => Reader::with(from, Attributes::Own),
        None => Reader::new(from),
    };
    while let Some(member) = reader.next()? {
        unpack.member(member, &mut reader)?;
    }
    unpack.leave_for(&[]);
    let done = unpack.done;
    reader.drain()?;
    Ok(done)
}

struct Unpack<'a> {
    maker: Maker,
    folders: Folders,
    renamer: Renamer,
    shown: String,
    restore: Option<&'a Restore>,
    done: Done,
    report: &'a mut dyn FnMut(&Problem),
    buffer: Vec<u8>,
}

impl Unpack<'_> {
    fn member<R: Read>(&mut self, member: Member, reader: &mut Reader<R>) -> Result<(), Error> {
        let original = OsStr::from_bytes(&member.name).to_owned();
        let path = match self.renamer.components(&member.name) {
            Ok(path) => path,
            Err(why) => {
                self.tell(Path::new(&original), why);
                return Ok(());
            }
        };
        let relative: std::path::PathBuf = path.iter().collect();
        if let Kind::Other(word) = member.kind {
            self.tell(&relative, &format!("is {word}: not copied"));
            return Ok(());
        }
        let done = self.put(&path, member, reader);
        match done {
            Ok(()) => {
                self.done.members += 1;
                Ok(())
            }
            Err(Failure::Stream(error)) => Err(error),
            Err(Failure::File(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS))) => {
                Err(Error::Full(self.name_of(&relative), errno.into()))
            }
            Err(Failure::File(errno)) => {
                let why = match errno {
                    Errno::ISDIR => "a folder with this name exists: not copied".to_owned(),
                    Errno::NOTDIR => {
                        "a file or link has the name of a folder: not copied".to_owned()
                    }
                    errno => io::Error::from(errno).to_string(),
                };
                self.tell(&relative, &why);
                Ok(())
            }
        }
    }

    fn put<R: Read>(
        &mut self,
        path: &[OsString],
        member: Member,
        reader: &mut Reader<R>,
    ) -> Result<(), Failure> {
        // The destination itself keeps its mode and owner.
        let Some((file, folder)) = path.split_last() else {
            return match member.kind {
                Kind::Folder => Ok(()),
                _ => Err(Errno::ISDIR.into()),
            };
        };
        if member.kind == Kind::Folder {
            self.leave_for(path);
            self.folders.enter(path)?;
            match self.restore.is_some_and(|restore| restore.describes(path)) {
                true => self.folders.describe_always(member),
                false => self.folders.describe(member),
            }
            return Ok(());
        }
        self.leave_for(folder);
        let link = match &member.kind {
            Kind::HardLink(to) => Some(self.renamer.components(to).map_err(|_| Errno::NOENT)?),
            _ => None,
        };
        let first = link
            .map(|path| open_first(self.folders.top(), &path))
            .transpose()?;
        let parent = self.folders.enter(folder)?;
        let keeps = self
            .restore
            .is_some_and(|restore| restore.existing == Existing::Keep);
        if keeps && statat(parent, file, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(());
        }
        let unfinished = self.maker.next_name();
        let made = match (&member.kind, &first) {
            (Kind::HardLink(_), Some((folder, name))) => {
                linkat(folder, name, parent, &unfinished, AtFlags::empty()).map_err(Failure::from)
            }
            (Kind::Symlink(to), _) => self.maker.symlink(parent, &unfinished, to, &member),
            _ => self
                .maker
                .file(parent, &unfinished, &member, reader, &mut self.buffer),
        };
        let renamed = made.and_then(|()| {
            if !keeps {
                return Ok(renameat(parent, &unfinished, parent, file)?);
            }
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(parent, &unfinished, parent, file, flags) {
                // Another process made a file with this name meanwhile.
                Err(Errno::EXIST) => Ok(unlinkat(parent, &unfinished, AtFlags::empty())?),
                other => Ok(other?),
            }
        });
        // A rename of one name of a file to another name of it leaves both.
        if renamed.is_err() || first.is_some() {
            let _ = unlinkat(parent, &unfinished, AtFlags::empty());
        }
        renamed
    }

    /// Finishes the folders that are not above `path`.
    fn leave_for(&mut self, path: &[OsString]) {
        let (maker, mut errors) = (&self.maker, Vec::new());
        self.folders.leave_for(path, &mut |left: Left| {
            if let Err(errno) = maker.finish(&left.folder, &left.member) {
                errors.push((left.member.name, errno));
            }
        });
        for (name, errno) in errors {
            let why = io::Error::from(errno).to_string();
            self.tell(Path::new(OsStr::from_bytes(&name)), &why);
        }
    }

    fn name_of(&self, relative: &Path) -> String {
        match self.shown.ends_with('/') {
            true => format!("{}{}", self.shown, name::shown(relative)),
            false => format!("{}/{}", self.shown, name::shown(relative)),
        }
    }

    fn tell(&mut self, relative: &Path, why: &str) {
        self.done.problems += 1;
        let name = self.name_of(relative);
        (self.report)(&Problem {
            name,
            why: why.to_owned(),
        });
    }
}

/// Makes files, and gives them their owner, mode, attributes and time.
struct Maker {
    ids: Ids,
    set_id: bool,
    unfinished: String,
    count: u64,
}

impl Maker {
    fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}.{}", self.unfinished, self.count)
    }

    fn file<R: Read>(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        member: &Member,
        reader: &mut Reader<R>,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
        let whole = [(0, member.size)];
        for &(offset, length) in member.pieces.as_deref().unwrap_or(&whole) {
            let (mut at, end) = (offset, offset.saturating_add(length));
            while at < end {
                let most = usize::try_from(end - at).unwrap_or(usize::MAX);
                let most = most.min(buffer.len());
                let filled = reader.read(&mut buffer[..most]).map_err(Failure::Stream)?;
                if filled == 0 {
                    return Err(Errno::IO.into());
                }
                let mut bytes = &buffer[..filled];
                while !bytes.is_empty() {
                    let written =
                        rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, bytes, at))?;
                    bytes = &bytes[written..];
                    at += written as u64;
                }
            }
        }
        if member.pieces.is_some() {
            ftruncate(&file, member.size)?;
        }
        Ok(self.finish(&file, member)?)
    }

    fn symlink(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        to: &[u8],
        member: &Member,
    ) -> Result<(), Failure> {
        symlinkat(OsStr::from_bytes(to), parent, name)?;
        if let Some((uid, gid)) = self.owner(member) {
            chownat(
                parent,
                name,
                Some(uid),
                Some(gid),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
        }
        utimensat(parent, name, &times(member), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Sets everything but the content of a file or folder. The owner comes first, because a change
    /// of the owner removes set-id bits.
    fn finish(&self, file: &OwnedFd, member: &Member) -> Result<(), Errno> {
        if let Some((uid, gid)) = self.owner(member) {
            fchown(file, Some(uid), Some(gid))?;
        }
        for (name, value) in &member.xattrs {
            match fsetxattr(file.as_fd(), name.as_str(), value, XattrFlags::empty()) {
                // The destination keeps no attributes, as tmpfs before Linux 6.6.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        let mode = match member.kind == Kind::Folder || self.set_id {
            true => member.mode,
            false => member.mode & !SET_ID,
        };
        fchmod(file, Mode::from_raw_mode(mode))?;
        futimens(file, &times(member))
    }

    fn owner(&self, member: &Member) -> Option<(Uid, Gid)> {
        match self.ids {
            Ids::Caller => None,
            Ids::Kept => Some((Uid::from_raw(member.uid), Gid::from_raw(member.gid))),
            Ids::Fixed(uid, gid) => Some((uid, gid)),
        }
    }
}

/// Opens the folder of an earlier member, without following a link. Returns it with the member's
/// name.
fn open_first(top: BorrowedFd<'_>, path: &[OsString]) -> Result<(OwnedFd, OsString), Errno> {
    let (name, folders) = path.split_last().ok_or(Errno::NOENT)?;
    let folders: std::path::PathBuf = [OsString::from(".")].iter().chain(folders).collect();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder = openat2(top, folders, flags, Mode::empty(), resolve)?;
    Ok((folder, name.clone()))
}

fn times(member: &Member) -> Timestamps {
    let (seconds, nanoseconds) = member.mtime;
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        },
    }
}

/// The reason why a member was not copied.
enum Failure {
    /// Only this file fails.
    File(Errno),
    /// The stream cannot be read any further.
    Stream(Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::File(errno)
    }
}

#[cfg(test)]
mod tests;
