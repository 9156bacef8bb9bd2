//! Reads chunks of an image on all threads. Each thread unpacks a chunk while it reads the next
//! chunks.

use std::collections::VecDeque;
use std::num::NonZero;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use sys::uring::{Buffer, Ring};

use crate::codec::Unpacker;
use crate::format::BLOCK;
use crate::image::Image;
use crate::index::{Entry, StreamInfo, length_of};
use crate::key::{Cipher as _, Purpose, nonce};
use crate::save::aad;
use crate::turn::Turn;
use crate::{Damage, Error, Io, Target, zero};

/// Number of bytes of one read. A larger chunk extends the read.
const READ_BYTES: u64 = 1 << 20;
/// Number of buffers of each thread: one is unpacked while the others are read.
const BUFFERS_PER_THREAD: usize = 3;

/// Stored chunks that follow each other in an image, and are read at once.
struct Batch<'a> {
    /// The offset of the first block, in bytes.
    offset: u64,
    /// The length of the read in bytes, in whole blocks.
    length: usize,
    chunks: &'a [u64],
}

/// Decrypts and unpacks chunks. Each thread has its own opener.
pub(crate) struct Opener<'a> {
    image: &'a Image,
    unpacker: Unpacker,
    single: Buffer,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        Self {
            image,
            unpacker: Unpacker::new(),
            single: Buffer::new(0),
        }
    }

    /// Decrypts a sealed chunk and returns its pages.
    pub(crate) fn open<'b>(
        &'b mut self,
        chunk: u64,
        entry: &Entry,
        length: usize,
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], Error> {
        let broken = || self.image.damaged(Damage::Chunk(chunk));
        let aad = aad(&self.image.header().id, chunk);
        let cipher = self.image.cipher();
        let text = cipher.open(nonce(Purpose::Chunk, chunk), &aad, sealed);
        let text = text.map_err(|_| broken())?;
        let packed = text.len().checked_sub(usize::from(entry.padding));
        let packed = packed.and_then(|end| text.get(..end)).ok_or_else(broken)?;
        self.unpacker
            .unpack(entry.codec(), packed, entry.unpacked(length))
            .ok_or_else(broken)
    }

    /// Reads, decrypts, unpacks and restores one chunk.
    pub(crate) fn fetch(
        &mut self,
        chunk: u64,
        stream: &StreamInfo,
        target: &dyn Target,
    ) -> Result<(), Error> {
        let Some(entry) = self.image.entry(chunk).filter(|entry| !entry.is_empty()) else {
            return Ok(());
        };
        let (start, length) = blocks(entry.offset, entry.end());
        let mut buffer = std::mem::replace(&mut self.single, Buffer::new(0));
        if buffer.len() < length {
            buffer = Buffer::new(length);
        }
        self.image.read(&mut buffer[..length], start)?;
        let from = offset_in(entry.offset, start);
        let sealed = &mut buffer[from..from + entry.length as usize];
        self.deliver(chunk, stream, sealed, target)?;
        self.single = buffer;
        Ok(())
    }

    /// Decrypts a chunk and writes its pages to their offsets in the target.
    pub(crate) fn deliver(
        &mut self,
        chunk: u64,
        stream: &StreamInfo,
        sealed: &mut [u8],
        target: &dyn Target,
    ) -> Result<(), Error> {
        let Some(entry) = self.image.entry(chunk) else {
            return Ok(());
        };
        let number = chunk - stream.first;
        let length = length_of(stream, number);
        let mut pages = self.open(chunk, entry, length, sealed)?;
        for (start, length) in zero::runs(entry.pages, length) {
            let offset = number * crate::format::CHUNK as u64 + start as u64;
            let (run, rest) = pages.split_at(length.min(pages.len()));
            pages = rest;
            target.write(offset, run).map_err(|source| Error::Target {
                stream: stream.name.clone(),
                offset,
                source,
            })?;
        }
        Ok(())
    }
}

/// The function to call for each chunk, with the number of the chunk and its sealed bytes.
pub(crate) type Each<'a> =
    &'a (dyn Fn(&mut Opener<'_>, u64, &mut [u8]) -> Result<(), Error> + Sync);

/// The reader of chunks.
#[derive(Clone, Copy)]
pub(crate) struct Feed<'a> {
    pub(crate) threads: NonZero<usize>,
    pub(crate) io: Io,
    /// The order among the threads: threads that answer faults run first.
    pub(crate) turn: Option<&'a Turn>,
}

/// Reads these chunks in their order in the image. Several threads call `each` for every chunk.
/// Stops early, without an error, if `stop` is set.
pub(crate) fn run(
    image: &Image,
    chunks: &[u64],
    feed: Feed<'_>,
    stop: &AtomicBool,
    each: Each<'_>,
) -> Result<(), Error> {
    let batches = batches(image, chunks);
    let next = AtomicUsize::new(0);
    let threads = feed.threads.get().min(batches.len());
    thread::scope(|scope| {
        let work = |_| {
            scope.spawn(|| {
                if let Some(turn) = feed.turn {
                    turn.join();
                }
                let done = read(image, &batches, &next, feed, stop, each);
                if done.is_err() {
                    stop.store(true, Relaxed);
                }
                done
            })
        };
        let all: Vec<_> = (0..threads).map(work).collect();
        let ended: Vec<_> = all
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        let mut ended = ended
            .into_iter()
            .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.find(Result::is_err).unwrap_or(Ok(()))
    })
}

fn batches<'a>(image: &Image, chunks: &'a [u64]) -> Vec<Batch<'a>> {
    let range = |chunk: &u64| {
        image
            .entry(*chunk)
            .map_or(0..0, |entry| entry.offset..entry.end())
    };
    let mut start = None;
    let near = |one: &u64, next: &u64| {
        let first = *start.get_or_insert_with(|| range(one).start);
        let (next, gap) = (range(next), range(next).start.abs_diff(range(one).end));
        let joins = gap < BLOCK as u64 && next.end.saturating_sub(first) <= READ_BYTES;
        if !joins {
            start = None;
        }
        joins
    };
    chunks
        .chunk_by(near)
        .filter_map(|chunks| {
            let (first, last) = (chunks.first()?, chunks.last()?);
            let (offset, length) = blocks(range(first).start, range(last).end);
            Some(Batch {
                offset,
                length,
                chunks,
            })
        })
        .collect()
}

/// The work of a thread: keeps reads in flight and unpacks the chunks that have arrived.
fn read(
    image: &Image,
    batches: &[Batch<'_>],
    next: &AtomicUsize,
    feed: Feed<'_>,
    stop: &AtomicBool,
    each: Each<'_>,
) -> Result<(), Error> {
    let failed = Error::file("read", image.path());
    let step_back = || feed.turn.iter().for_each(|turn| turn.step_back());
    let mut ring = match feed.io {
        Io::Plain => None,
        Io::Auto => Ring::new(BUFFERS_PER_THREAD).ok(),
        Io::Uring => Some(Ring::new(BUFFERS_PER_THREAD).map_err(&failed)?),
    };
    let longest = batches.iter().map(|batch| batch.length).max().unwrap_or(0);
    let count = if ring.is_some() {
        BUFFERS_PER_THREAD
    } else {
        1
    };
    let mut free: Vec<Buffer> = (0..count).map(|_| Buffer::new(longest)).collect();
    // Without an io_uring, this queue holds the result of a blocking read.
    let mut ready = VecDeque::new();
    let mut opener = Opener::new(image);
    loop {
        step_back();
        while let Some(mut buffer) = free.pop() {
            let number = next.fetch_add(1, Relaxed);
            let Some(batch) = batches.get(number) else {
                free.push(buffer);
                break;
            };
            match &mut ring {
                Some(ring) => {
                    let file = image.file().as_fd();
                    ring.read(file, buffer, batch.length, batch.offset, number as u64)
                        .map_err(|(_, error)| failed(error))?;
                }
                None => {
                    image.read(&mut buffer[..batch.length], batch.offset)?;
                    ready.push_back((number, buffer));
                }
            }
            if stop.load(Relaxed) {
                return Ok(());
            }
        }
        let (number, mut buffer) = match ready.pop_front() {
            Some(ready) => ready,
            None => {
                let Some(ring) = &mut ring else { return Ok(()) };
                let Some(mut landed) = ring.wait().map_err(&failed)? else {
                    return Ok(());
                };
                let number = usize::try_from(landed.tag).unwrap_or(usize::MAX);
                let Some(batch) = batches.get(number) else {
                    return Ok(());
                };
                // If the queue did not complete a read, for any reason, this thread reads the batch
                // with a plain call.
                if landed.result.unwrap_or(0) < batch.length {
                    image.read(&mut landed.buffer[..batch.length], batch.offset)?;
                }
                (number, landed.buffer)
            }
        };
        let batch = &batches[number];
        for chunk in batch.chunks {
            if stop.load(Relaxed) {
                return Ok(());
            }
            let Some(entry) = image.entry(*chunk) else {
                continue;
            };
            step_back();
            let from = offset_in(entry.offset, batch.offset);
            each(
                &mut opener,
                *chunk,
                &mut buffer[from..from + entry.length as usize],
            )?;
        }
        free.push(buffer);
    }
}

/// Returns the offset and the length in bytes of the whole blocks that contain a range.
fn blocks(start: u64, end: u64) -> (u64, usize) {
    let block = BLOCK as u64;
    let first = start - start % block;
    // An entry has at most the length of a chunk, and a batch has a few chunks, so the length fits.
    let length = usize::try_from(end.next_multiple_of(block) - first).unwrap_or_default();
    (first, length)
}

fn offset_in(offset: u64, start: u64) -> usize {
    usize::try_from(offset - start).unwrap_or_default()
}
