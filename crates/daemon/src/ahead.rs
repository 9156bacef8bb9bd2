//! Prepares a resume while QEMU is still being started: opens the image, reads the state of the
//! devices, and starts a process that brings in memory, beginning with the pages that are used
//! first. That ends before anybody has the memory to look at.

use std::fs::File;
use std::io::{Seek, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use model::plan::Resume;
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};
use suspend::{Image, Io, Ledger, Loading, load_ahead};
use sys::mapping::Mapping;
use sys::process::Child;

use crate::error::{ResumeError, ScratchError};
use crate::memory_file::scratch;
use crate::pager::{self, Begun};
use crate::processors::bound;
use host::Host;
use host::fault::Fault;
use kernelzone::image::{self, DEVICES, HOT, MEMORY};
use platform::Platform;

/// Timeout for the process to finish a piece of memory: it needs a fraction of a millisecond on a
/// host that is not busy.
const PAGER_TIMEOUT: Duration = Duration::from_millis(200);

/// An image that is nobody else's now.
pub(super) struct Ahead {
    pub image: Image,
    /// The pieces of memory that lie first in it.
    pub hot: Vec<u64>,
    devices: Option<Result<File, ResumeError>>,
    begun: Option<Begun>,
    /// The process that brings memory in.
    child: Option<Child>,
}

impl Ahead {
    /// Opens the image that a zone goes on from.
    ///
    /// # Errors
    /// Why it cannot be used; it stays as it is.
    pub fn open(from: &Resume) -> Result<Self, ResumeError> {
        let key = image::read_key(&from.key)?;
        let image = Image::open(&from.image, &key)?;
        claim(&image)?;
        // An older image has none.
        let hot = image.bytes_of(HOT).unwrap_or_default();
        let hot = hot.chunks_exact(4).filter_map(|four| four.try_into().ok());
        Ok(Self {
            hot: hot
                .map(|four| u64::from(u32::from_le_bytes(four)))
                .collect(),
            image,
            devices: None,
            begun: None,
            child: None,
        })
    }

    /// Reads the state of the devices.
    pub fn read_devices(&mut self) {
        self.devices = Some(read_devices(&self.image));
    }

    /// The state of the devices, in a file in memory.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn devices(&mut self) -> Result<File, ResumeError> {
        let read = self.devices.take();
        read.unwrap_or_else(|| read_devices(&self.image))
    }

    /// Begins to restore the memory, the preferred chunks first. One processor is left for QEMU,
    /// which is being started at the same time and is more urgent. It is only quicker with it.
    pub fn begin(&mut self, host: &Host, platform: &Platform) {
        let Some(machine) = &platform.machine else {
            return;
        };
        // Without page faults all has to be there before it runs anyway.
        let (Some(memory), Some(_)) = (&machine.memory, machine.faults) else {
            return;
        };
        let _bound = bound(host, platform.init.pid, &platform.cgroups);
        let started = self.start(memory, machine.size, host.fault.clone());
        if let Some((begun, child)) = started {
            (self.begun, self.child) = (Some(begun), Some(child));
        }
    }

    fn start(&self, memory: &OwnedFd, size: u64, fault: Fault) -> Option<(Begun, Child)> {
        let size = usize::try_from(size).ok()?;
        let target = Mapping::new(memory.as_fd(), size).ok()?;
        let stream = self.image.stream(MEMORY).ok()?;
        let ledger = Ledger::in_memory(stream.chunks()).ok()?;
        let since = Instant::now();
        let body = || {
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            let watch = pager::watch(fault);
            let load = |places, threads| {
                let loading = Loading {
                    threads,
                    // QEMU's own disk reads come first: much of its program may not be in memory.
                    io: Io::Plain,
                    watch: &watch,
                };
                load_ahead(&self.image, (MEMORY, places), &target, &ledger, &loading)
            };
            let (hot, all) = (self.hot.len(), suspend::all_processors());
            // QEMU has a processor for itself.
            let others = NonZero::new(all.get() - 1).unwrap_or(all);
            // The pager will meet the same damage of the image, and reports it.
            let loaded = load(0..hot, all).and_then(|()| load(hot..usize::MAX, others));
            u8::from(loaded.is_err())
        };
        let child = sys::process::fork(0, None, &[self.image.as_fd()], body).ok()?;
        let begun = Begun {
            target,
            ledger,
            since,
        };
        Some((begun, child))
    }

    /// Ends the restoring thread: after this, no other thread works on the memory. Restored memory
    /// stays.
    pub fn end(&mut self) -> Option<Begun> {
        let begun = self.begun.take()?;
        begun.ledger.enough();
        let end = Instant::now() + PAGER_TIMEOUT;
        // Its end takes longer: it still waits for its reads from the disk.
        while begun.ledger.is_busy() {
            if Instant::now() > end {
                self.kill();
                begun.ledger.forget_taken();
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Some(begun)
    }

    fn kill(&mut self) {
        let Some(child) = self.child.take() else {
            return;
        };
        let pidfd = child.pidfd.as_fd();
        let _ = sys::process::send_signal(pidfd, Signal::KILL.as_raw());
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED) {}
    }
}

/// Longest time in which the processes of a resume that was cut off let go of its image. The
/// caller has the lock of the zone: nobody else can be at work on the image.
const IMAGE_RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes the image for this resume alone.
fn claim(image: &Image) -> Result<(), suspend::Error> {
    let end = Instant::now() + IMAGE_RELEASE_TIMEOUT;
    loop {
        match image.claim() {
            Err(suspend::Error::Busy { .. }) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_devices(image: &Image) -> Result<File, ResumeError> {
    let state = image.bytes_of(DEVICES)?;
    let mut devices = scratch()?;
    devices
        .write_all(&state)
        .and_then(|()| devices.rewind())
        .map_err(ScratchError::Write)?;
    Ok(devices)
}
