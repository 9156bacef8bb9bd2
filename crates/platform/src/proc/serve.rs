//! The zone's reader: the process that keeps the values in the zone's files current.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use limits::ZoneCgroups;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Uid, getuid};
use rustix::thread::{
    CapabilitiesSecureBits, capabilities_secure_bits, set_capabilities_secure_bits,
    set_thread_res_uid,
};
use rustix::time::Timespec;
use sys::fanotify::Asked;

use crate::proc::files::{Contents, File};

/// The time after a write for which the values count as current. If a zone reads all the time, the
/// reader works once in this time.
pub(super) const FRESH_FOR: Duration = Duration::from_millis(250);

/// The interval between two writes if the kernel cannot ask before a read.
const UNASKED_PERIOD: Duration = Duration::from_secs(2);

/// The open files of a zone.
struct Files {
    open: BTreeMap<File, Open>,
    contents: Contents,
}

struct Open {
    file: fs::File,
    length: usize,
}

impl Files {
    fn open(folder: &Path, contents: Contents) -> io::Result<Self> {
        let mut open = BTreeMap::new();
        for file in File::ALL {
            match fs::OpenOptions::new()
                .write(true)
                .open(folder.join(file.name()))
            {
                Ok(opened) => {
                    let length = usize::try_from(opened.metadata()?.len()).unwrap_or(usize::MAX);
                    open.insert(
                        file,
                        Open {
                            file: opened,
                            length,
                        },
                    );
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { open, contents })
    }

    /// Writes the present values. If a value cannot be read, the file keeps its content.
    fn refresh(&mut self) {
        let names: BTreeSet<File> = self.open.keys().copied().collect();
        for (name, text) in self.contents.of(&names) {
            let Some(one) = self.open.get_mut(&name) else {
                continue;
            };
            // If the new text is shorter, the file is truncated after the write. A process that
            // reads the file in the meantime waits.
            if one.file.write_all_at(text.as_bytes(), 0).is_ok() && one.length != text.len() {
                let _ = one.file.set_len(text.len() as u64);
                one.length = text.len();
            }
        }
    }

    fn watch(&self, asked: &Asked) -> io::Result<()> {
        self.each(|file| asked.watch(file))
    }

    fn unwatch(&self, asked: &Asked) -> io::Result<()> {
        self.each(|file| asked.unwatch(file))
    }

    fn each(&self, act: impl Fn(&fs::File) -> io::Result<()>) -> io::Result<()> {
        self.open.values().try_for_each(|one| act(&one.file))
    }
}

/// Keeps the files of `folder` current until `init` has ended.
pub(super) fn serve(
    folder: &Path,
    groups: &ZoneCgroups,
    booted: Duration,
    owner: u32,
    init: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut files = Files::open(folder, Contents::new(groups.clone(), booted))?;
    let asked = for_zone(owner).and_then(|asked| files.watch(&asked).map(|()| asked));
    match asked {
        Ok(asked) => when_asked(&mut files, &asked, init),
        Err(_) => unasked(&mut files, init),
    }
}

/// Makes a fanotify group that counts for the zone's root. The kernel allows 128 groups for each
/// user of the host, and a host may have more zones.
fn for_zone(owner: u32) -> io::Result<Asked> {
    let before = capabilities_secure_bits()?;
    set_capabilities_secure_bits(before | CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    let root = getuid();
    set_thread_res_uid(root, Uid::from_raw(owner), root)?;
    let asked = Asked::new();
    set_thread_res_uid(root, root, root)?;
    set_capabilities_secure_bits(before)?;
    asked
}

fn when_asked(files: &mut Files, asked: &Asked, init: BorrowedFd<'_>) -> io::Result<()> {
    // The time at which the kernel must ask again before a read.
    let mut stale_at: Option<Instant> = None;
    files.refresh();
    loop {
        let left = stale_at.map(|at| at.saturating_duration_since(Instant::now()));
        let [wanted, ended] = wait(asked.as_fd(), init, left)?;
        if ended {
            return Ok(());
        }
        if stale_at.is_some_and(|at| at <= Instant::now()) {
            files.watch(asked)?;
            stale_at = None;
        }
        if wanted {
            if stale_at.is_none() {
                files.refresh();
                files.unwatch(asked)?;
                stale_at = Some(Instant::now() + FRESH_FOR);
            }
            // This also answers processes that started to read while the watch was removed.
            asked.answer_all()?;
        }
    }
}

fn unasked(files: &mut Files, init: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        files.refresh();
        if wait(init, init, Some(UNASKED_PERIOD))?[1] {
            return Ok(());
        }
    }
}

/// Waits for a process that reads, for the end of the zone, or until the timeout.
fn wait(
    asked: BorrowedFd<'_>,
    init: BorrowedFd<'_>,
    left: Option<Duration>,
) -> io::Result<[bool; 2]> {
    let mut watched = [
        PollFd::from_borrowed_fd(asked, PollFlags::IN),
        PollFd::from_borrowed_fd(init, PollFlags::IN),
    ];
    // The timeout is rounded up: a late wake-up does no harm, and an early one causes another round
    // of the loop.
    let left = left.map(|left| left + Duration::from_millis(1));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(&mut watched, left.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok([false; 2]),
        Err(errno) => return Err(errno.into()),
    }
    Ok([0, 1].map(|at: usize| !watched[at].revents().is_empty()))
}
