//! Restores memory while the guest runs: touched pages are restored first, and other threads load
//! the rest.
//!
//! The memory is a file that two processes map: the process that runs the guest (a virtual machine
//! whose memory is registered with a userfaultfd), and this process. This process writes chunks
//! into the file and then makes them visible to the guest. A page is never visible before its chunk
//! was authenticated, and a chunk that was visible is never written again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use sys::mapping::Mapping;
use sys::userfault::Userfault;

use crate::feed::{self, Feed, Opener};
use crate::format::{CHUNK, PAGE};
use crate::image::Image;
use crate::index::{StreamInfo, length_of};
use crate::ledger::Stage;
use crate::restore::{Loading, chunks_of, must_fit};
use crate::turn::Turn;
use crate::{Error, Ledger, Progress, zero};

/// A part of the memory, as the process that runs the guest has mapped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The address of the region's first byte, a multiple of the page size.
    pub address: u64,
    /// The offset of the region's content in the stream in bytes, a multiple of the page size.
    pub offset: u64,
    /// The length of the region in bytes, in whole pages.
    pub length: u64,
}

/// The result of a pager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged {
    /// Number of page faults that were answered.
    pub faults: u64,
    /// Number of chunks that were loaded because of a page fault.
    pub on_demand: u64,
    /// Number of chunks that were in memory before the pager started.
    pub ahead: u64,
    /// Time until all memory was restored.
    pub took: Duration,
    /// The longest time between the moment when the pager read a fault and its answer.
    pub longest: Duration,
    /// The numbers of the faulted chunks, each once, in the order of the faults; at most
    /// [`MAX_HOT_CHUNKS`].
    pub asked: Vec<u64>,
}

/// Maximum number of faulted chunks that the pager records: 64 MiB of memory.
pub const MAX_HOT_CHUNKS: usize = 256;

/// Answers the page faults of one stream of an image.
#[derive(Debug)]
pub struct Pager<'a> {
    image: &'a Image,
    stream: &'a StreamInfo,
    target: &'a Mapping,
    faults: &'a Userfault,
    regions: Vec<Region>,
    ledger: &'a Ledger,
}

impl<'a> Pager<'a> {
    /// Arms the regions: from now on, a thread that touches a missing page in them waits for
    /// [`run`](Self::run). The memory must be empty, or be as the former pager with this ledger
    /// left it. `target` is the file of the memory. [`Userfault::agree`] must have been called for
    /// the descriptor.
    ///
    /// # Errors
    /// Fails if the memory or the ledger has another size than the stream, or if the kernel
    /// refuses.
    pub fn arm(
        image: &'a Image,
        name: &str,
        target: &'a Mapping,
        faults: &'a Userfault,
        regions: &[Region],
        ledger: &'a Ledger,
    ) -> Result<Self, Error> {
        let stream = image.stream(name)?;
        must_fit(image, stream, target)?;
        if ledger.chunks() != stream.chunks() {
            return Err(Error::Request("the ledger is for another number of chunks"));
        }
        let page = PAGE as u64;
        for region in regions {
            let aligned = (region.address | region.offset | region.length) % page == 0;
            let end = region.offset.checked_add(region.length);
            let size = stream.size.next_multiple_of(page);
            if !aligned || region.length == 0 || end.is_none_or(|end| end > size) {
                return Err(Error::Request("a region is no part of the memory"));
            }
        }
        for region in regions {
            let armed = faults.arm(region.address, region.length);
            armed.map_err(failed("arm memory"))?;
        }
        Ok(Self {
            image,
            stream,
            target,
            faults,
            regions: regions.to_vec(),
            ledger,
        })
    }

    /// Answers page faults and loads all chunks. Returns when all memory is restored and the
    /// regions are disarmed.
    ///
    /// # Errors
    /// Fails with an [`Error`]. The regions then stay armed: a thread that touches a missing page
    /// waits, and never sees wrong content. The caller must end the process that runs the guest, or
    /// run another pager with the same ledger after a call of [`Ledger::forget_taken`].
    pub fn run(&self, loading: &Loading<'_>) -> Result<Paged, Error> {
        let began = Instant::now();
        let stop = AtomicBool::new(false);
        let quit = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("make an event")(error.into()))?;
        for region in &self.regions {
            // A former pager may have read faults that it did not answer. A thread that waits for
            // such a fault is woken here and touches the page again.
            let woken = self.faults.wake(region.address, region.length);
            woken.map_err(failed("wake"))?;
        }
        let (count, turn) = (Count::default(), Turn::new());
        let mut asked = Vec::new();
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let answered = self.answer(&quit, &stop, &turn, &count, &mut asked);
                if answered.is_err() {
                    stop.store(true, Relaxed);
                }
                answered
            });
            let mut brought = self.bring(loading, &stop, &turn, &count);
            if brought.is_ok() {
                brought = self.settle(&stop);
            }
            if brought.is_err() {
                stop.store(true, Relaxed);
            }
            // A write of 1 to an event counter that is 0 never blocks.
            let _ = rustix::io::write(&quit, &1u64.to_ne_bytes());
            let answered = answering
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            answered.and(brought)
        })?;
        for region in &self.regions {
            let let_go = self.faults.disarm(region.address, region.length);
            let_go.map_err(failed("disarm memory"))?;
        }
        Ok(Paged {
            faults: count.faults.load(Relaxed),
            on_demand: count.on_demand.load(Relaxed),
            ahead: count.ahead.load(Relaxed),
            took: began.elapsed(),
            longest: Duration::from_micros(count.longest.load(Relaxed)),
            asked,
        })
    }

    /// Loads the chunks that no fault asked for, in their order in the image.
    fn bring(
        &self,
        loading: &Loading<'_>,
        stop: &AtomicBool,
        turn: &Turn,
        count: &Count,
    ) -> Result<(), Error> {
        let mut chunks = chunks_of(self.image, self.stream);
        for chunk in &chunks {
            // `load_ahead` or a former pager placed this chunk in memory.
            if self.ledger.stage(chunk - self.stream.first) == Stage::Placed {
                self.show(*chunk)?;
                count.ahead.fetch_add(1, Relaxed);
            }
        }
        chunks.retain(|chunk| self.ledger.stage(chunk - self.stream.first) != Stage::Done);
        let (done, moved) = (AtomicU64::new(0), AtomicU64::new(0));
        let total = chunks.len() as u64 * CHUNK as u64;
        let each = |opener: &mut Opener<'_>, chunk: u64, sealed: &mut [u8]| {
            if self.ledger.take(chunk - self.stream.first) {
                opener.deliver(chunk, self.stream, sealed, self.target)?;
                self.show(chunk)?;
            }
            let size = sealed.len() as u64;
            let progress = Progress {
                done: done.fetch_add(CHUNK as u64, Relaxed) + CHUNK as u64,
                total,
                moved: moved.fetch_add(size, Relaxed) + size,
            };
            match (loading.watch)(progress).is_continue() {
                true => Ok(()),
                false => Err(Error::Cancelled),
            }
        };
        let feed = Feed {
            threads: loading.threads,
            io: loading.io,
            turn: Some(turn),
        };
        feed::run(self.image, &chunks, feed, stop, &each)
    }

    /// Waits until the thread that answers faults has finished its chunks.
    fn settle(&self, stop: &AtomicBool) -> Result<(), Error> {
        for chunk in chunks_of(self.image, self.stream) {
            loop {
                match self.ledger.stage(chunk - self.stream.first) {
                    Stage::Done => break,
                    // The thread that answers faults is about to make the chunk visible, or the
                    // pager that placed the chunk has ended. A second publication does no harm.
                    Stage::Placed => self.show(chunk)?,
                    Stage::Missing | Stage::Taken => {}
                }
                if stop.load(Relaxed) {
                    // The thread that set `stop` returns the error.
                    return Ok(());
                }
                thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    fn answer(
        &self,
        quit: &impl std::os::fd::AsFd,
        stop: &AtomicBool,
        turn: &Turn,
        count: &Count,
        asked: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let mut opener = Opener::new(self.image);
        loop {
            let mut events = [
                PollFd::new(self.faults, PollFlags::IN),
                PollFd::new(quit, PollFlags::IN),
            ];
            match poll(&mut events, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed("wait")(error.into())),
            }
            let [faults, quit] = events.map(|event| event.revents());
            if faults.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                return Err(failed("wait")(std::io::ErrorKind::BrokenPipe.into()));
            }
            while let Some(address) = self.faults.fault().map_err(failed("look"))? {
                let began = Instant::now();
                let chunk = self.resolve(address, &mut opener, stop, turn, count)?;
                if let Some(chunk) =
                    chunk.filter(|one| asked.len() < MAX_HOT_CHUNKS && !asked.contains(one))
                {
                    asked.push(chunk);
                }
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                count.faults.fetch_add(1, Relaxed);
                count.longest.fetch_max(took, Relaxed);
            }
            if quit.contains(PollFlags::IN) || stop.load(Relaxed) {
                return Ok(());
            }
        }
    }

    /// Makes a page visible. Returns the number of the page's chunk in the stream, or `None` if the
    /// image does not store the page, or if the pager stops.
    fn resolve(
        &self,
        address: u64,
        opener: &mut Opener<'_>,
        stop: &AtomicBool,
        turn: &Turn,
        count: &Count,
    ) -> Result<Option<u64>, Error> {
        let inside = |region: &&Region| address.wrapping_sub(region.address) < region.length;
        let Some(region) = self.regions.iter().find(inside) else {
            return Ok(None);
        };
        let offset = region.offset + (address - region.address);
        let (number, page) = (offset / CHUNK as u64, offset % CHUNK as u64 / PAGE as u64);
        let chunk = self.stream.first + number;
        let pages = self.image.entry(chunk).map_or(0, |entry| entry.pages);
        if pages >> page & 1 == 0 {
            self.show_zero(address)?;
            return Ok(None);
        }
        turn.fault();
        if self.ledger.take(number) {
            count.on_demand.fetch_add(1, Relaxed);
            opener.fetch(chunk, self.stream, self.target)?;
            self.show(chunk)?;
            // The gap until the next expected fault starts now, after the answer.
            turn.fault();
            return Ok(Some(number));
        }
        turn.hurry(|| {
            let missing = matches!(self.ledger.stage(number), Stage::Missing | Stage::Taken);
            !missing || stop.load(Relaxed)
        });
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let page = PAGE as u64;
        let shown = self.faults.publish(address, page);
        shown.map_err(failed("show memory"))?;
        self.faults.wake(address, page).map_err(failed("wake"))?;
        Ok(Some(number))
    }

    /// Makes a page of zeros visible that the image does not store. If the file has the page all
    /// the same, as part of a huge page, the page is zeros, too.
    fn show_zero(&self, address: u64) -> Result<(), Error> {
        let page = PAGE as u64;
        let code = |result: &std::io::Result<()>| {
            result.as_ref().err().and_then(std::io::Error::raw_os_error)
        };
        let mut shown = self.faults.publish(address, page);
        if code(&shown) == Some(Errno::FAULT.raw_os_error()) {
            shown = self.faults.zero(address);
        }
        if code(&shown) == Some(Errno::EXIST.raw_os_error()) {
            shown = self.faults.publish(address, page);
        }
        shown.map_err(failed("show zeros"))?;
        self.faults.wake(address, page).map_err(failed("wake"))
    }

    /// Makes the pages of a chunk visible that is already in the file.
    fn show(&self, chunk: u64) -> Result<(), Error> {
        let number = chunk - self.stream.first;
        self.ledger.set(number, Stage::Placed);
        let pages = self.image.entry(chunk).map_or(0, |entry| entry.pages);
        let length = length_of(self.stream, number);
        for (start, length) in zero::runs(pages, length) {
            let start = number * CHUNK as u64 + start as u64;
            let end = start + length.next_multiple_of(PAGE) as u64;
            for region in &self.regions {
                let from = start.max(region.offset);
                let to = end.min(region.offset + region.length);
                if from < to {
                    let address = region.address + (from - region.offset);
                    let shown = self.faults.publish(address, to - from);
                    shown.map_err(failed("show memory"))?;
                }
            }
        }
        self.ledger.set(number, Stage::Done);
        Ok(())
    }
}

#[derive(Default)]
struct Count {
    faults: AtomicU64,
    on_demand: AtomicU64,
    ahead: AtomicU64,
    longest: AtomicU64,
}

fn failed(action: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Faults { action, source }
}
