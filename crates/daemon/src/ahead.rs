//! Prepares a resume while QEMU is still being started: opens the image, reads the state of the
//! devices, and starts a process that restores memory, beginning with the chunks that are used
//! first. This process ends before QEMU or the pager uses the memory.

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

/// Timeout for the restoring process to finish one chunk of memory. A chunk takes a fraction of a
/// millisecond on a host that is not busy.
const PAGER_TIMEOUT: Duration = Duration::from_millis(200);

/// A memory image that is claimed for this resume alone.
pub(super) struct Ahead {
    pub image: Image,
    /// The numbers of the memory chunks that come first in the image.
    pub hot: Vec<u64>,
    devices: Option<Result<File, ResumeError>>,
    begun: Option<Begun>,
    /// The process that restores memory before the pager starts.
    child: Option<Child>,
}

impl Ahead {
    /// Opens the image from which a zone is resumed.
    ///
    /// # Errors
    /// Fails if the image cannot be used; the image stays unchanged.
    pub fn open(from: &Resume) -> Result<Self, ResumeError> {
        let key = image::read_key(&from.key)?;
        let image = Image::open(&from.image, &key)?;
        claim(&image)?;
        // An image of an older version has no list of hot chunks.
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

    /// Reads the state of the guest's devices from the image.
    pub fn read_devices(&mut self) {
        self.devices = Some(read_devices(&self.image));
    }

    /// Returns the state of the guest's devices, in a file in memory.
    ///
    /// # Errors
    /// Fails if the state cannot be read from the image, or the file cannot be written.
    pub fn devices(&mut self) -> Result<File, ResumeError> {
        let read = self.devices.take();
        read.unwrap_or_else(|| read_devices(&self.image))
    }

    /// Begins to restore the memory, the hot chunks first. One processor is left for QEMU, which is
    /// being started at the same time and is more urgent. The resume also works without this early
    /// start; it is then only slower.
    pub fn begin(&mut self, host: &Host, platform: &Platform) {
        let Some(machine) = &platform.machine else {
            return;
        };
        // Without a descriptor for page faults, all memory must be restored before the guest runs,
        // so an early start has no use.
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
                    // QEMU's own disk reads have priority over those of the restore, because much
                    // of QEMU's program may not be in memory yet.
                    io: Io::Plain,
                    watch: &watch,
                };
                load_ahead(&self.image, (MEMORY, places), &target, &ledger, &loading)
            };
            let (hot, all) = (self.hot.len(), suspend::all_processors());
            // One processor is left for QEMU.
            let others = NonZero::new(all.get() - 1).unwrap_or(all);
            // An error is not reported here: if the image is damaged, the pager meets the same
            // damage and reports it.
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

    /// Ends the early restore: after this, its process no longer writes to the memory. Restored
    /// memory stays.
    pub fn end(&mut self) -> Option<Begun> {
        let begun = self.begun.take()?;
        begun.ledger.enough();
        let end = Instant::now() + PAGER_TIMEOUT;
        // This does not wait for the end of the process, because the process may still wait for its
        // disk reads.
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

/// Timeout for the processes of an interrupted resume to release the image. The caller has the lock
/// of the zone, so no other process can use the image.
const IMAGE_RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Claims the image for this resume alone.
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
