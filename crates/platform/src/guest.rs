//! The sockets and files of a kernel zone's guest, and the host's side of its sockets.

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

/// Timeout for QEMU's first answer. QEMU loads hundreds of libraries, perhaps on a busy host.
const QEMU_START_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for a command on QEMU's monitor.
pub const MONITOR_TIMEOUT: Duration = Duration::from_secs(30);

/// A guest, as the host sees it.
#[derive(Debug)]
pub struct Machine {
    /// The descriptors that QEMU gets at its start; empty afterwards.
    pass: Vec<OwnedFd>,
    /// The memory of the guest. `None` if another zoneadmd started the guest, and QEMU's own
    /// descriptor is not available.
    pub memory: Option<OwnedFd>,
    /// The size of the guest's memory in bytes.
    pub size: u64,
    /// The number of QEMU's descriptor of the device for page faults, if QEMU has one.
    pub faults: Option<i32>,
    /// The host's socket to the monitor, until QEMU has sent its greeting.
    waiting: Option<OwnedFd>,
    /// The monitor; `None` if QEMU does not answer.
    pub monitor: Option<Monitor>,
    /// The host's side of the terminal to which QEMU writes its own messages.
    pub complaints: OwnedFd,
    /// True if the guest has requested a reboot.
    pub restarts: bool,
    /// The reason why QEMU ends, if QEMU has reported one.
    pub end: Option<Cause>,
    /// True if the guest's kernel has panicked.
    pub panicked: bool,
    /// True if QEMU paused the guest because a file system is full. The caller resets this.
    pub full: bool,
}

/// A guest that has not started yet, and the host's side of its serial line.
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
    /// Opens everything that the guest needs. QEMU will run as the host's user `owner`.
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
        // These connections come before QEMU starts, so they are the first ones that QEMU accepts.
        let monitor = unix_socket::connect_to(&parts.monitor, Kind::Stream)?;
        let console = unix_socket::connect_to(&parts.console, Kind::Stream)?;
        for file in &parts.files {
            pass.push(open(file)?);
        }
        let cards: Result<Vec<_>, _> = parts.cards.iter().map(String::as_str).map(cards).collect();
        pass.extend(cards?);
        // This descriptor is the last one, so that the numbers of the others do not change. A host
        // without the device works without it.
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

    /// Returns the guest, with the terminal for QEMU's messages, and the host's side of the serial
    /// line.
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

/// Creates the file that is the guest's memory: on a file system of its own, which no other process
/// can reach, and in huge pages if there are any.
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
        // The kernel has no huge pages of this size.
        None => make(&[])?,
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&folder, "memory", flags, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, size)?;
    // QEMU opens the file once more, through its descriptor.
    fchown(
        &file,
        Some(Uid::from_raw(owner)),
        Some(Gid::from_raw(owner)),
    )?;
    Ok(file)
}

/// Opens a file of a disk, as QEMU needs it.
///
/// # Errors
/// Fails with the path and the error of the system.
pub fn open(file: &MachineFile) -> Result<OwnedFd, AnyError> {
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
    flags |= match file.read_only {
        true => OFlags::RDONLY,
        false => OFlags::RDWR,
    };
    if file.direct {
        flags |= OFlags::DIRECT;
    }
    // Names of disks below /dev are symbolic links.
    if !file.path.starts_with("/dev") {
        flags |= OFlags::NOFOLLOW;
    }
    Ok(openat(CWD, &file.path, flags, Mode::empty())
        .map_err(|errno| format!("open {}: {errno}", file.path.display()))?)
}

/// Makes the tap of a network card on a link of a zone. `init` is the zone's first process.
///
/// # Errors
/// Fails with the step that failed.
pub fn tap(init: i32, link: &str) -> Result<OwnedFd, AnyError> {
    let zone = net::ends::namespace(Path::new(&format!("/proc/{init}/ns/net")))?;
    Ok(net::card::make(zone.as_fd(), link)?)
}

/// The reason why a started QEMU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// Another process started QEMU, or QEMU has answered before.
    #[error("no monitor waits")]
    NotWaiting,
    /// QEMU ended with a message of its own.
    #[error("{0}")]
    Complaint(String),
    /// QEMU does not answer.
    #[error(transparent)]
    Monitor(#[from] vm::Error),
}

impl Machine {
    /// Returns the descriptors that QEMU gets.
    pub fn passed(&self) -> Vec<BorrowedFd<'_>> {
        self.pass.iter().map(AsFd::as_fd).collect()
    }

    /// Waits for the first answer of a QEMU that has just been started.
    ///
    /// # Errors
    /// Fails with QEMU's own error message, or with an error if QEMU does not answer.
    pub fn greet(&mut self) -> Result<(), GreetError> {
        // From here on only QEMU has these descriptors. When QEMU ends, a process that waits on the
        // peer sockets notices it.
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

    /// Returns the events of the guest since the last call.
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
            // QEMU has ended, or its answers are invalid: the state of the process tells which.
            Err(_) => {
                self.monitor = None;
                Vec::new()
            }
        }
    }

    /// Returns a guest that another zoneadmd started. Its sockets are still at their paths.
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
