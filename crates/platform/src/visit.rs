//! A short-lived process that performs one operation in the mounts of a running zone.
//!
//! The process enters from outside the zone, so the zone needs no zoneadmd. Before the process
//! looks at any path of the zone, it becomes the zone's root and keeps no right of the host. So a
//! mount point that is a link, or is replaced with a link at the wrong moment, only leads to paths
//! that the zone's root can reach itself. The process is not among the zone's processes; they
//! cannot see, signal or trace it.
//!
//! A mount from the host is locked in the zone as at boot. If a mount is copied with its whole
//! mount namespace for a less privileged owner, the copy keeps its flags permanently. So zoneadmd
//! makes such a copy of a mount before the mount is attached in the zone.
//!
//! | | zone's root can |
//! |---|---|
//! | flags: read-only, nosuid, nodev, noexec | not change them |
//! | the mount itself | unmount it, and then lacks the files |
//! | before the host unmounts it | keep it: as a second mount elsewhere, by open files |

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, UnmountFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use serde::{Deserialize, Serialize};
use store::runtime::{Mounted, Runtime};
use sys::mount::{Extent, Param};
use sys::process::ns;

use crate::place;
use host::volumes;
use host::volumes::relative;
use host::{Error, flatten, undo};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Timeout of an operation: a zone can make a mount point whose file system never answers.
const VISIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of a message in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// Maximum length in bytes of the list of mounts that is read. A zone may have any number of
/// mounts.
const MAX_MOUNTS: u64 = 32 << 20;

/// The file system type of a tmpfs, see statfs(2).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// The mount point, below the scratch folder, that holds a mount before it is attached in the zone.
const HELD: &str = "0";

/// The kind of mount in the zone.
#[derive(Debug)]
pub enum What<'a> {
    /// A mount of a file or folder of the host.
    Host(&'a OwnedFd),
    /// A mount of one file in a mount of the host.
    Part(&'a OwnedFd, PathBuf),
    /// A new file system that belongs to the zone.
    Own {
        /// The type of the file system.
        fstype: &'a str,
        /// The mount options of the file system.
        options: &'a [String],
    },
}

/// The treatment of a mount that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// The mount stays, and the unmount fails.
    Refuse,
    /// The mount disappears from the zone's paths. Processes that use the mount can continue.
    Detach,
}

/// The open namespaces through which a process enters a zone.
#[derive(Debug)]
pub struct Way {
    users: OwnedFd,
    mounts: OwnedFd,
    scratch: PathBuf,
}

/// The messages of the visiting process.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// The ids of the mount that the process is about to attach.
    About(Mounted),
    /// For each requested mount, true if the mount exists.
    There(Vec<bool>),
    /// The operation succeeded.
    Done,
    /// The operation failed with this message.
    Error(String),
}

impl Way {
    /// Opens the namespaces of a running zone. The visiting process mounts on `scratch`, a folder
    /// of the host, where no other process sees the mount.
    pub fn open(runtime: &Runtime, scratch: PathBuf) -> Result<Self, Error> {
        let open = |name: &str| {
            let path = format!("/proc/{}/ns/{name}", runtime.init.pid);
            openat(CWD, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| Error::Io(format!("open {path}"), errno.into()))
        };
        let way = Self {
            users: open("user")?,
            mounts: open("mnt")?,
            scratch,
        };
        // The process id may have been reused between the reading of the record and the opening.
        if !runtime.init.is_alive() {
            return Err(Error::Refused("not running".to_owned()));
        }
        std::fs::create_dir_all(&way.scratch)
            .map_err(Error::io(format!("make {}", way.scratch.display())))?;
        Ok(way)
    }

    /// Returns the zone's user namespace, for mounts with the zone's ids.
    pub fn users(&self) -> BorrowedFd<'_> {
        self.users.as_fd()
    }

    /// Attaches a mount at a path in the zone, and makes the mount point if it is missing. `record`
    /// gets the ids of the mount before it is attached, so that the mount is known even if a later
    /// action fails.
    pub fn mount(
        &self,
        what: &What<'_>,
        at: &Path,
        record: &mut dyn FnMut(Mounted) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let source = match what {
            What::Host(mount) | What::Part(mount, _) => Some(mount.as_fd()),
            What::Own { .. } => None,
        };
        self.visit(source, &mut |word| record_or_refuse(word, record), |talk| {
            let mount = match what {
                What::Host(mount) => self.bring(mount, Path::new(HELD))?,
                What::Part(mount, path) => self.bring(mount, &Path::new(HELD).join(path))?,
                What::Own { fstype, options } => {
                    self.enter()?;
                    own(fstype, options)?
                }
            };
            let place = place::open_or_make(CWD, at, &mount)?;
            talk.say(&Word::About(place::remember(&mount, at)?))?;
            talk.wait_for_go()?;
            sys::mount::attach(&mount, &place, Path::new(""))?;
            Ok(Word::Done)
        })
        .map(drop)
    }

    /// Changes the size of a tmpfs of the zone.
    pub(crate) fn resize(&self, at: &Path, options: &[String]) -> Result<(), Error> {
        self.visit(None, &mut refuse_word, |_| {
            self.enter()?;
            let place = place::open(CWD, &relative(at))?;
            if rustix::fs::fstatfs(&place)?.f_type != TMPFS {
                return Err("the zone has mounted another file system over it: unmount that in the zone first".into());
            }
            let options = options.iter().filter_map(|one| one.split_once('='));
            let params: Vec<Param<'_>> = options
                .map(|(key, value)| Param::text(key, value))
                .collect();
            sys::mount::reconfigure(&place, &params, at)?;
            Ok(Word::Done)
        })
        .map(drop)
    }

    /// Unmounts a mount. A missing mount is not an error.
    pub fn unmount(&self, mounted: &Mounted, in_use: InUse) -> Result<(), Error> {
        self.visit(None, &mut refuse_word, |_| {
            let myself = open_myself()?;
            self.enter()?;
            if let Some(at) = whereabouts(&myself, mounted)? {
                let found = place::find(CWD, &at)?;
                if (found.id, found.unique) != (mounted.id, mounted.unique) {
                    return Err("the zone has mounted another file system over it: unmount that in the zone first".into());
                }
                let how = match in_use {
                    InUse::Refuse => UnmountFlags::NOFOLLOW,
                    InUse::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
                };
                rustix::mount::unmount(at.as_path(), how).map_err(|errno| match errno {
                    Errno::BUSY => "it is in use in the zone".into(),
                    other => AnyError::from(other),
                })?;
            }
            if whereabouts(&myself, mounted)?.is_some() {
                return Err("it is still mounted".into());
            }
            if mounted.at.starts_with("/dev") {
                remove_node(&mounted.at);
            }
            Ok(Word::Done)
        })
        .map(drop)
    }

    /// Returns true for each mount that exists, and false for each other.
    pub fn look(&self, mounts: &[Mounted]) -> Result<Vec<bool>, Error> {
        if mounts.is_empty() {
            return Ok(Vec::new());
        }
        let seen = self.visit(None, &mut refuse_word, |_| {
            let myself = open_myself()?;
            self.enter()?;
            let there = |one: &Mounted| -> Result<bool, AnyError> {
                let Some(at) = whereabouts(&myself, one)? else {
                    return Ok(false);
                };
                // If an id was reused, the unique id differs, and the mount counts as missing. A
                // mount that is hidden below another mount exists.
                let found = place::find(CWD, &at)?;
                Ok(found.id != one.id || found.unique == one.unique)
            };
            Ok(Word::There(
                mounts.iter().map(there).collect::<Result<_, _>>()?,
            ))
        })?;
        match seen {
            Word::There(list) if list.len() == mounts.len() => Ok(list),
            _ => Err(odd()),
        }
    }

    /// Makes a copy of a mount of the host for the zone, which locks the flags of the mount, and
    /// returns a copy of `path` in it. Afterwards the calling process is the zone's root in the
    /// zone's mounts.
    fn bring(&self, mount: &OwnedFd, path: &Path) -> Result<OwnedFd, AnyError> {
        sys::namespace::unshare(ns::MOUNT)?;
        sys::mount::make_private_recursive()?;
        let params = [Param::text("mode", "0711"), Param::text("size", "64k")];
        let tmpfs = sys::mount::new_fs("tmpfs", &params, MountAttrFlags::MOUNT_ATTR_NODEV)?;
        sys::mount::attach(&tmpfs, CWD, &self.scratch)?;
        // The zone's root may not enter the parent folders, so the process makes the folder its
        // working directory.
        rustix::process::chdir(&self.scratch)?;
        volumes::hold(mount, Path::new(""), HELD)?;
        self.become_zone()?;
        sys::namespace::unshare(ns::MOUNT)?;
        let copy = sys::mount::open_tree(CWD, path, Extent::One)?;
        sys::namespace::join(self.mounts.as_fd(), ns::MOUNT)?;
        Ok(copy)
    }

    /// Makes the process the zone's root, in the zone's mounts.
    fn enter(&self) -> Result<(), AnyError> {
        self.become_zone()?;
        Ok(sys::namespace::join(self.mounts.as_fd(), ns::MOUNT)?)
    }

    /// Makes the process the zone's root, without any right outside the zone.
    fn become_zone(&self) -> Result<(), AnyError> {
        sys::namespace::join(self.users.as_fd(), ns::USER)?;
        crate::credentials::become_root()?;
        // The change of ids has set the dumpable flag to the value of fs.suid_dumpable, so the flag
        // is cleared again.
        Ok(not_dumpable()?)
    }

    /// Runs `deed` in a separate process. `hear` gets the messages of the process before its last
    /// one. If `hear` succeeds, the process continues.
    fn visit(
        &self,
        source: Option<BorrowedFd<'_>>,
        hear: &mut dyn FnMut(Word) -> Result<(), Error>,
        deed: impl FnOnce(&Talk) -> Result<Word, AnyError>,
    ) -> Result<Word, Error> {
        let talk = Talk::pair().map_err(Error::io("talk to a process in the zone"));
        let (ours, theirs) = talk?;
        let keep: Vec<BorrowedFd<'_>> = [self.users(), self.mounts.as_fd(), theirs.0.as_fd()]
            .into_iter()
            .chain(source)
            .collect();
        let child = sys::process::fork(0, None, &keep, || {
            let _ = not_dumpable();
            let word = match deed(&theirs) {
                Ok(word) => word,
                Err(error) => Word::Error(flatten(error.as_ref())),
            };
            u8::from(theirs.say(&word).is_err())
        })
        .map_err(Error::io("start a process in the zone"))?;
        drop(theirs);
        let heard = ours.converse(hear);
        // The process has sent its last message, or will send none.
        let _ = rustix::process::pidfd_send_signal(&child.pidfd, rustix::process::Signal::KILL);
        undo::reap(&child, VISIT_TIMEOUT);
        heard
    }
}

/// Prevents processes in the zone from looking into this process, also after it changes its ids.
fn not_dumpable() -> rustix::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

fn record_or_refuse(
    word: Word,
    record: &mut dyn FnMut(Mounted) -> Result<(), Error>,
) -> Result<(), Error> {
    match word {
        Word::About(mounted) => record(mounted),
        other => refuse_word(other),
    }
}

fn refuse_word(_: Word) -> Result<(), Error> {
    Err(odd())
}

fn odd() -> Error {
    Error::Refused("a helper process in the zone sent an unexpected message".to_owned())
}

/// A socket of the connection between zoneadmd and the visiting process.
#[derive(Debug)]
struct Talk(OwnedFd);

impl Talk {
    fn pair() -> std::io::Result<(Self, Self)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_timeout(&ours, Timeout::Recv, Some(VISIT_TIMEOUT))?;
        Ok((Self(ours), Self(theirs)))
    }

    fn say(&self, word: &Word) -> Result<(), AnyError> {
        let packet = serde_json::to_vec(word)?;
        Ok(send(&self.0, &packet, SendFlags::NOSIGNAL).map(drop)?)
    }

    fn wait_for_go(&self) -> Result<(), AnyError> {
        let mut packet = [0; 1];
        match recv(&self.0, packet.as_mut_slice(), RecvFlags::empty())? {
            (1, _) => Ok(()),
            _ => Err("zoneadm gave up".into()),
        }
    }

    fn converse(&self, hear: &mut dyn FnMut(Word) -> Result<(), Error>) -> Result<Word, Error> {
        loop {
            let mut packet = vec![0; MAX_MESSAGE];
            let received = rustix::io::retry_on_intr(|| {
                recv(&self.0, packet.as_mut_slice(), RecvFlags::empty())
            });
            let length = match received {
                Ok((0, _)) => {
                    return Err(Error::Refused("a process in the zone has ended".to_owned()));
                }
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => {
                    return Err(Error::Refused(format!(
                        "the zone's file systems do not answer after {} s",
                        VISIT_TIMEOUT.as_secs()
                    )));
                }
                Err(errno) => return Err(Error::io("hear from the zone")(errno.into())),
            };
            match serde_json::from_slice(&packet[..length]).map_err(|_| odd())? {
                Word::Error(text) => return Err(Error::Refused(text)),
                word @ (Word::Done | Word::There(_)) => return Ok(word),
                word @ Word::About(_) => hear(word)?,
            }
            send(&self.0, b"g", SendFlags::NOSIGNAL)
                .map_err(|errno| Error::io("talk to a process in the zone")(errno.into()))?;
        }
    }
}

/// Returns a new mount of a file system that belongs to the zone.
fn own(fstype: &str, options: &[String]) -> Result<OwnedFd, AnyError> {
    let (flags, params) = volumes::read(options);
    let flags = flags | MountAttrFlags::MOUNT_ATTR_NOSUID;
    Ok(sys::mount::new_fs(fstype, &params, flags)?)
}

/// Opens the folder of the calling process in the host's /proc. The zone's /proc does not show this
/// process.
fn open_myself() -> Result<OwnedFd, AnyError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, "/proc/self", flags, Mode::empty())?)
}

/// Returns the present mount point of a mount in the zone that the process has entered. The zone's
/// root may have moved the mount.
fn whereabouts(myself: &OwnedFd, mounted: &Mounted) -> Result<Option<PathBuf>, AnyError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(myself, "mountinfo", flags, Mode::empty())?;
    let mut text = Vec::new();
    File::from(file).take(MAX_MOUNTS).read_to_end(&mut text)?;
    Ok(find_mount(&text, mounted.id))
}

/// Returns the mount point of a mount in the text of a mountinfo file.
fn find_mount(text: &[u8], id: u64) -> Option<PathBuf> {
    let mut mounts = sys::mountinfo::parse(text).into_iter();
    mounts.find(|mount| mount.id == id).map(|mount| mount.point)
}

/// Removes the file on which a device node was mounted, and parent folders that are then empty. The
/// zone may have changed the paths in the meantime, which does no harm.
fn remove_node(at: &Path) {
    let path = relative(at);
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder_of = |path: &Path| {
        let parent = path.parent()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(CWD, parent, flags, Mode::empty(), resolve).ok()
    };
    let Some(folder) = folder_of(&path) else {
        return;
    };
    let name = path.file_name().unwrap_or_default();
    let placeholder = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_size == 0);
    if !placeholder || rustix::fs::unlinkat(&folder, name, AtFlags::empty()).is_err() {
        return;
    }
    for empty in path.ancestors().skip(1) {
        let inner = empty.as_os_str().as_bytes() != b"dev" && empty.starts_with("dev");
        let Some(folder) = folder_of(empty).filter(|_| inner) else {
            return;
        };
        let name = empty.file_name().unwrap_or_default();
        if rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_mounts_by_number() {
        let text = b"21 20 0:19 / / rw - overlay none rw\n\
            210 21 0:40 /x /data\\040one\\134 ro,nosuid - ext4 /dev/vda ro\n\
            bad line\n";
        let found = |id| find_mount(text, id);
        assert_eq!(found(21), Some("/".into()));
        assert_eq!(found(210), Some("/data one\\".into()));
        assert_eq!(found(2), None);
    }
}
