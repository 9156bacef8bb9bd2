//! The sockets and files of a kernel zone's machine, and our ends of its sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use model::plan::{MachineFile, MachineParts};
use rustix::fs::{
    CWD, Gid, Mode, OFlags, Uid, fchown, fcntl_getfl, fcntl_setfl, ftruncate, openat,
};
use rustix::mount::MountAttrFlags;
use sys::mount::Param;
use vm::qmp::{Cause, Event, Monitor};

use host::unix_socket::{self, Kind};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Timeout for QEMU's first answer: it has hundreds of libraries to load, perhaps on a busy host.
const QEMU_START_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a command of the monitor.
pub const MONITOR_TIMEOUT: Duration = Duration::from_secs(30);

/// A machine, from the outside.
#[derive(Debug)]
pub struct Machine {
    /// The descriptors that QEMU gets when it is started; empty afterwards.
    pass: Vec<OwnedFd>,
    /// The memory of the guest. None where we do not have it: the zone was adopted, and
    /// QEMU's own descriptor could not be had.
    pub memory: Option<OwnedFd>,
    /// Bytes of it.
    pub size: u64,
    /// The number under which QEMU has the device for page faults, if it has it.
    pub faults: Option<i32>,
    /// Our end of the monitor, until QEMU has greeted.
    waiting: Option<OwnedFd>,
    /// The monitor; none when QEMU does not answer.
    pub monitor: Option<Monitor>,
    /// Our side of the terminal on which QEMU itself complains.
    pub complaints: OwnedFd,
    /// True if the guest has asked to be started again.
    pub restarts: bool,
    /// Why QEMU ends, when it has said so.
    pub end: Option<Cause>,
    /// True if the guest's kernel has given up.
    pub panicked: bool,
    /// True if it was paused because a file system is full; the caller resets this.
    pub full: bool,
}

/// A machine that is not started yet, and our end of its serial line.
#[derive(Debug)]
pub(crate) struct Opened {
    pass: Vec<OwnedFd>,
    memory: OwnedFd,
    size: u64,
    faults: Option<i32>,
    monitor: OwnedFd,
    pub console: OwnedFd,
}

impl Opened {
    /// Opens everything, for a process that is the host's user `owner` then.
    pub fn new(
        parts: &MachineParts,
        owner: u32,
        cards: impl FnMut(&str) -> Result<OwnedFd, AnyError>,
    ) -> Result<Self, AnyError> {
        let memory = memory(parts.memory, parts.large_pages, owner)?;
        let listen = |path: &Path| {
            unix_socket::listen_at(path, Kind::Stream)
                .map_err(|error| format!("listen on {}: {error}", path.display()))
        };
        let mut pass = vec![memory.try_clone()?];
        for path in [&parts.monitor, &parts.console, &parts.agent] {
            pass.push(listen(path)?);
        }
        // Ours are the first to be heard.
        let monitor = unix_socket::connect_to(&parts.monitor, Kind::Stream)?;
        let console = unix_socket::connect_to(&parts.console, Kind::Stream)?;
        for file in &parts.files {
            pass.push(open(file)?);
        }
        let cards: Result<Vec<_>, _> = parts.cards.iter().map(String::as_str).map(cards).collect();
        pass.extend(cards?);
        // Last, as the numbers of the others count. A host without it does without.
        let device = parts.faults.then(|| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            openat(CWD, sys::userfault::DEVICE, flags, Mode::empty())
        });
        let faults = device.and_then(Result::ok).map(|device| {
            pass.push(device);
            vm::machine::FIRST.saturating_add(i32::try_from(pass.len() - 1).unwrap_or(i32::MAX))
        });
        Ok(Self {
            pass,
            memory,
            size: parts.memory,
            faults,
            monitor,
            console,
        })
    }

    /// The machine, with the terminal on which QEMU complains; and the serial line.
    pub fn with(self, complaints: OwnedFd) -> (Machine, OwnedFd) {
        let machine = Machine {
            pass: self.pass,
            memory: Some(self.memory),
            size: self.size,
            faults: self.faults,
            waiting: Some(self.monitor),
            monitor: None,
            complaints,
            restarts: false,
            end: None,
            panicked: false,
            full: false,
        };
        (machine, self.console)
    }
}

/// The file that is the guest's memory: on a file system of its own, which no other process can
/// reach, and in large pages if there are any.
fn memory(size: u64, large_pages: bool, owner: u32) -> Result<OwnedFd, AnyError> {
    let bytes = size.to_string();
    let make = |more: &[Param<'_>]| {
        let params = [
            &[Param::text("mode", "0700"), Param::text("size", &bytes)],
            more,
        ]
        .concat();
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        sys::mount::new_fs("tmpfs", &params, flags)
    };
    let large = large_pages
        .then(|| make(&[Param::text("huge", "always")]))
        .and_then(Result::ok);
    let folder = match large {
        Some(folder) => folder,
        // A kernel without them.
        None => make(&[])?,
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&folder, "memory", flags, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, size)?;
    // QEMU opens it once more by its descriptor.
    fchown(
        &file,
        Some(Uid::from_raw(owner)),
        Some(Gid::from_raw(owner)),
    )?;
    Ok(file)
}

fn open(file: &MachineFile) -> Result<OwnedFd, AnyError> {
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
    flags |= match file.read_only {
        true => OFlags::RDONLY,
        false => OFlags::RDWR,
    };
    if file.direct {
        flags |= OFlags::DIRECT;
    }
    // Names of disks below /dev are links.
    if !file.path.starts_with("/dev") {
        flags |= OFlags::NOFOLLOW;
    }
    Ok(openat(CWD, &file.path, flags, Mode::empty())
        .map_err(|errno| format!("open {}: {errno}", file.path.display()))?)
}

/// The reason why a QEMU that was started is of no use.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// It was not started by this process, or it has answered before.
    #[error("no monitor waits")]
    NotWaiting,
    /// It ended with a message of its own.
    #[error("{0}")]
    Complaint(String),
    /// It does not answer.
    #[error(transparent)]
    Monitor(#[from] vm::Error),
}

impl Machine {
    /// Returns the descriptors that QEMU gets.
    pub fn passed(&self) -> Vec<BorrowedFd<'_>> {
        self.pass.iter().map(AsFd::as_fd).collect()
    }

    /// Waits until QEMU, which has just been started, answers.
    ///
    /// # Errors
    /// Fails with QEMU's own error message, or if it does not answer.
    pub fn greet(&mut self) -> Result<(), GreetError> {
        // Only QEMU keeps them now: when it ends, a process that waits at the other end notices.
        self.pass.clear();
        let socket = self.waiting.take().ok_or(GreetError::NotWaiting)?;
        match Monitor::greet(socket, QEMU_START_TIMEOUT) {
            Ok(monitor) => {
                self.monitor = Some(monitor);
                Ok(())
            }
            Err(error) => {
                let complaint = self.complaint();
                Err(match complaint.is_empty() {
                    true => error.into(),
                    false => GreetError::Complaint(complaint),
                })
            }
        }
    }

    /// Returns the text that QEMU has written to its terminal so far, on one line.
    pub fn complaint(&self) -> String {
        let mut text = Vec::new();
        if let Ok(flags) = fcntl_getfl(&self.complaints) {
            let _ = fcntl_setfl(&self.complaints, flags | OFlags::NONBLOCK);
        }
        let mut piece = [0; 1024];
        while let Ok(length @ 1..) = rustix::io::read(&self.complaints, &mut piece) {
            text.extend_from_slice(&piece[..length]);
            if text.len() > 4096 {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        let words = text.split(|c: char| c.is_control() || c == ' ');
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the events in the machine since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        let Some(monitor) = &mut self.monitor else {
            return Vec::new();
        };
        match monitor.events() {
            Ok(events) => {
                self.restarts |= events.iter().any(Event::is_restart);
                self.panicked |= events.iter().any(Event::is_panic);
                self.end = events.iter().rev().find_map(Event::end).or(self.end);
                self.full |= events.iter().any(Event::is_full);
                events
            }
            // QEMU is gone, or is no QEMU any more: its process tells which.
            Err(_) => {
                self.monitor = None;
                Vec::new()
            }
        }
    }

    /// A machine that another zoneadmd started: its sockets are where they were.
    pub fn adopted(
        size: u64,
        memory: Option<OwnedFd>,
        monitor: &Path,
        complaints: OwnedFd,
    ) -> Result<Self, vm::Error> {
        let socket = unix_socket::connect_to(monitor, Kind::Stream)
            .map_err(|error| vm::Error::Io(format!("connect to {}", monitor.display()), error))?;
        let monitor = Monitor::greet(socket, QEMU_START_TIMEOUT)?;
        Ok(Self {
            pass: Vec::new(),
            memory,
            size,
            faults: None,
            waiting: None,
            monitor: Some(monitor),
            complaints,
            restarts: false,
            end: None,
            panicked: false,
            full: false,
        })
    }
}
