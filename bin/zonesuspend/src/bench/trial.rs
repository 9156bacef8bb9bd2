//! Runs one suspend or one resume.

use std::hint::black_box;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use suspend::format::CHUNK;
use suspend::{
    Choice, Image, Io, Key, Ledger, Loading, Older, Options, Paged, Pager, Region, Request, Saved,
    Stream,
};
use sys::mapping::Mapping;
use sys::userfault::{Userfault, Whose};

use super::memory::Memory;

/// A number of bytes and the time that they took.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub bytes: usize,
    pub took: Duration,
    /// The CPU time of all processors together: it does not depend on other processes.
    pub cpu: Option<Duration>,
}

impl Rate {
    pub const fn new(bytes: usize, took: Duration) -> Self {
        Self {
            bytes,
            took,
            cpu: None,
        }
    }

    /// Returns the rate in MB (10^6 bytes) per second.
    pub fn megabytes(self) -> f64 {
        // Not exact beyond 2^53, which is never reached.
        #[allow(clippy::cast_precision_loss)]
        let bytes = self.bytes as f64;
        bytes / 1e6 / self.took.as_secs_f64().max(1e-9)
    }
}

/// The elapsed time and the CPU time since a moment.
pub struct Clock(Instant, Duration);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now(), spent())
    }

    pub fn rate(&self, bytes: usize) -> Rate {
        Rate {
            bytes,
            took: self.0.elapsed(),
            cpu: Some(spent().saturating_sub(self.1)),
        }
    }
}

/// Returns the CPU time that this process has used.
fn spent() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

pub struct Trial<'a> {
    pub file: &'a Path,
    pub key: &'a Key,
    pub memory: &'a Memory,
}

/// The result of a lazy resume, and the delays of the guest.
#[derive(Clone)]
pub struct Felt {
    pub paged: Paged,
    /// The time until the guest had read a hundred scattered pages.
    pub hundred: Duration,
}

/// Number of pages that a guest reads before it can answer.
const FIRST_PAGES: usize = 100;

impl Trial<'_> {
    pub fn save(&self, choice: Choice, io: Io, threads: NonZero<usize>) -> Result<(Saved, Rate)> {
        let clock = Clock::start();
        let streams = [Stream {
            name: "memory",
            source: &self.memory.file,
        }];
        let saved = suspend::save(&Request {
            path: self.file,
            key: self.key,
            identity: &json!({}),
            streams: &streams,
            options: Options {
                threads,
                choice,
                io,
                older: Older::Replace,
                ..Options::default()
            },
        })?;
        Ok((saved, clock.rate(self.memory.nonzero)))
    }

    /// Restores the image to new memory, and compares both if `compare` is set.
    pub fn restore(&self, threads: NonZero<usize>, compare: bool) -> Result<Rate> {
        let file = self.memory.empty()?;
        let target = self.memory.map(&file)?;
        let clock = Clock::start();
        let image = Image::open(self.file, self.key)?;
        let loading = Loading {
            threads,
            ..Loading::default()
        };
        suspend::restore(&image, "memory", &target, &loading)?;
        let rate = clock.rate(self.memory.nonzero);
        if compare {
            let (mut was, mut is) = (vec![0; CHUNK], vec![0; CHUNK]);
            for offset in (0..self.memory.length).step_by(CHUNK) {
                let size = CHUNK.min(self.memory.length - offset);
                self.memory
                    .file
                    .read_exact_at(&mut was[..size], offset as u64)?;
                file.read_exact_at(&mut is[..size], offset as u64)?;
                ensure!(was == is, "memory differs at {offset}: this is a bug");
            }
        }
        Ok(rate)
    }

    /// Opens every chunk of the image, and discards it.
    pub fn verify(&self, threads: NonZero<usize>) -> Result<Rate> {
        let clock = Clock::start();
        let image = Image::open(self.file, self.key)?;
        let loading = Loading {
            threads,
            ..Loading::default()
        };
        suspend::verify(&image, &loading)?;
        Ok(clock.rate(self.memory.nonzero))
    }

    /// Restores while a thread reads pages; returns `None` if the kernel lacks userfaultfd.
    pub fn page_in(&self, threads: NonZero<usize>) -> Result<Option<Felt>> {
        let made = Userfault::new(Whose::Programs).and_then(|one| one.agree().map(|()| one));
        let Ok(faults) = made else { return Ok(None) };
        let file = self.memory.empty()?;
        let (target, guest) = (self.memory.map(&file)?, self.memory.map(&file)?);
        let image = Image::open(self.file, self.key)?;
        let ledger = Ledger::in_memory(image.stream("memory")?.chunks())?;
        let whole = [Region {
            address: guest.address(),
            offset: 0,
            length: guest.length() as u64,
        }];
        let pager = Pager::arm(&image, "memory", &target, &faults, &whole, &ledger)?;
        let loading = Loading {
            threads,
            ..Loading::default()
        };
        let (quit, hundred) = (AtomicBool::new(false), AtomicU64::new(0));
        let paged = thread::scope(|scope| {
            let looking = scope.spawn(|| look(&guest, &quit, &hundred));
            let paged = pager.run(&loading);
            if paged.is_err() {
                // The thread waits for pages that nobody will restore.
                let _ = faults.disarm(guest.address(), guest.length() as u64);
            }
            quit.store(true, Ordering::Relaxed);
            let looked = looking
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            looked.context("cannot look at memory")?;
            paged.map_err(anyhow::Error::from)
        })?;
        Ok(Some(Felt {
            paged,
            hundred: Duration::from_micros(hundred.load(Ordering::Relaxed)),
        }))
    }
}

/// Reads scattered pages one after another.
fn look(guest: &Mapping, quit: &AtomicBool, hundred: &AtomicU64) -> io::Result<()> {
    let began = Instant::now();
    let mut random = 0x1234_5678_9abc_def1_u64;
    for number in 1usize.. {
        if number > FIRST_PAGES || quit.load(Ordering::Relaxed) {
            break;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let pages = guest.length() / 4096;
        let page = usize::try_from(random >> 20).unwrap_or_default() % pages;
        let mut byte = [0];
        guest.read(page * 4096, &mut byte)?;
        // Otherwise the compiler would drop the read.
        black_box(byte);
    }
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    hundred.store(took, Ordering::Relaxed);
    Ok(())
}
