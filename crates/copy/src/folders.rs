//! The open folders of the destination, from its top down to the present one.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::header::{Kind, Member};

/// The mode of a new folder until its files are in it.
const UNFINISHED_MODE: Mode = Mode::RWXU;

/// The mode of a folder that the stream does not contain, but whose files it contains.
const IMPLIED_MODE: u32 = 0o755;

/// A folder that was left. Its mode and time can now be set: no more files will come into it.
#[derive(Debug)]
pub(crate) struct Left {
    pub folder: OwnedFd,
    pub member: Member,
}

#[derive(Debug)]
struct Open {
    name: OsString,
    folder: OwnedFd,
    /// The folder as the stream has it, if this copy has made the folder.
    made: Option<Member>,
}

/// A stack of open folders.
#[derive(Debug)]
pub(crate) struct Folders {
    top: OwnedFd,
    open: Vec<Open>,
}

impl Folders {
    pub(crate) const fn new(top: OwnedFd) -> Self {
        Self {
            top,
            open: Vec::new(),
        }
    }

    /// Returns the top folder of the destination.
    pub(crate) fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// Closes the folders that are not above `path`, and passes those that this copy made to
    /// `left`.
    pub(crate) fn leave_for(&mut self, path: &[OsString], left: &mut dyn FnMut(Left)) {
        let common = self.open.iter().zip(path);
        let common = common
            .take_while(|(open, name)| open.name == **name)
            .count();
        while self.open.len() > common {
            let Some(Open { folder, made, .. }) = self.open.pop() else {
                break;
            };
            if let Some(member) = made {
                left(Left { folder, member });
            }
        }
    }

    /// Opens the folder `path`, for which [`Folders::leave_for`] was called, and makes missing
    /// ones. Links are not followed, so that a link cannot lead out of the destination.
    pub(crate) fn enter(&mut self, path: &[OsString]) -> Result<BorrowedFd<'_>, Errno> {
        for name in &path[self.open.len().min(path.len())..] {
            let parent = self.last();
            let made = match mkdirat(parent, name, UNFINISHED_MODE) {
                Ok(()) => {
                    let mut member = Member::new(Vec::new(), Kind::Folder);
                    member.mode = IMPLIED_MODE;
                    member.mtime = now();
                    Some(member)
                }
                Err(Errno::EXIST) => None,
                // A missing right for a folder that exists is no failure.
                Err(errno) => match open(parent, name) {
                    Ok(_) => None,
                    Err(_) => return Err(errno),
                },
            };
            let folder = open(parent, name)?;
            self.open.push(Open {
                name: name.clone(),
                folder,
                made,
            });
        }
        Ok(self.last())
    }

    /// Sets the mode, owner, time and attributes that the last entered folder gets if this copy has
    /// made it.
    pub(crate) fn describe(&mut self, member: Member) {
        if let Some(made) = self.open.last_mut().and_then(|open| open.made.as_mut()) {
            *made = member;
        }
    }

    /// Runs [`Folders::describe`] also for a folder that existed.
    pub(crate) fn describe_always(&mut self, member: Member) {
        if let Some(open) = self.open.last_mut() {
            open.made = Some(member);
        }
    }

    fn last(&self) -> BorrowedFd<'_> {
        self.open
            .last()
            .map_or(&self.top, |open| &open.folder)
            .as_fd()
    }
}

fn now() -> (i64, u32) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn open(parent: BorrowedFd<'_>, name: &OsString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}
