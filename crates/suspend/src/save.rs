//! Saves an image. Every thread takes the next chunk, packs and seals the chunk into its buffer,
//! and sends full buffers to the disk. The order of the chunks in the image is the order in which
//! the threads finish them.

use std::collections::HashSet;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use sys::uring::Buffer;

use crate::codec::{Codec, PACK_ROOM, Packer};
use crate::format::{BLOCK, CHUNK, HEADER, Header, TRAILER, Trailer};
use crate::identity::is_exact;
use crate::index::{Entry, Index, MAX_IDENTITY, StreamInfo, length_of};
use crate::io::Io;
use crate::key::{Cipher as _, Gcm, Purpose, TAG_BYTES, nonce};
use crate::part::{self, Older, Part};
use crate::sink::{BUFFER_BYTES, BUFFERS_PER_THREAD, Sink};
use crate::{Error, Key, Progress, Saved, Source, Watch, zero};

/// A stream to be saved.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// The name of the stream: letters, digits, points and hyphens, up to 64.
    pub name: &'a str,
    /// The content of the stream.
    pub source: &'a dyn Source,
}

impl std::fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("name", &self.name)
            .field("size", &self.source.size())
            .finish()
    }
}

/// The codec for chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The codec depends on the load of the disk: raw while the disk waits for data, and stronger
    /// compression if more buffers wait for the disk.
    #[default]
    Adaptive,
    /// All chunks with one codec; chunks that do not shrink are stored raw.
    Always(Codec),
}

/// The durability of the image when [`save`] returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The image is on stable storage when [`save`] returns.
    #[default]
    Stable,
    /// The image may still be in the page cache when [`save`] returns. This is for measurements.
    Volatile,
}

/// The reservation of space on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// The free space must be sufficient for all pages that are not zeros, even without
    /// compression. This space is reserved at the beginning, and the unused rest is released at the
    /// end.
    #[default]
    Reserve,
    /// No space is reserved. If the disk is full, the save fails while it writes.
    Try,
}

/// The options of saving.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Number of threads that pack and seal chunks.
    pub threads: NonZero<usize>,
    /// The codec for chunks.
    pub choice: Choice,
    /// The system calls that write the image.
    pub io: Io,
    /// The durability of the image.
    pub durability: Durability,
    /// The reservation of space.
    pub space: Space,
    /// The treatment of an older image at the same path.
    pub older: Older,
    /// The name of a stream, and the numbers of its chunks that a resume needs first. These chunks
    /// are saved at the beginning of the image, in this order. A number that is not a chunk of the
    /// stream is ignored.
    pub first: Option<(&'a str, &'a [u64])>,
    /// The function that receives the progress.
    pub watch: Watch<'a>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("threads", &self.threads)
            .field("choice", &self.choice)
            .field("io", &self.io)
            .field("durability", &self.durability)
            .field("space", &self.space)
            .field("older", &self.older)
            .field(
                "first",
                &self.first.map(|(name, chunks)| (name, chunks.len())),
            )
            .finish_non_exhaustive()
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            threads: crate::all_processors(),
            choice: Choice::default(),
            io: Io::default(),
            durability: Durability::default(),
            space: Space::default(),
            older: Older::default(),
            first: None,
            watch: &crate::unwatched,
        }
    }
}

/// The streams to save, and the path of the image.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The path of the image.
    pub path: &'a Path,
    /// The key that opens the image later.
    pub key: &'a Key,
    /// The facts that must be unchanged when the image is restored. All numbers must be whole.
    pub identity: &'a Value,
    /// The streams to save.
    pub streams: &'a [Stream<'a>],
    /// The options of the save.
    pub options: Options<'a>,
}

/// Size of the space for one chunk in a buffer, in bytes. A chunk fits with every codec.
const SLOT_BYTES: usize = PACK_ROOM + TAG_BYTES;
const _: () = assert!(SLOT_BYTES < BUFFER_BYTES);

/// Saves an image. Afterwards the path has the complete new image, or its former content after an
/// error.
///
/// # Errors
/// Fails with an [`Error`]. The unfinished file is then removed.
pub fn save(request: &Request<'_>) -> Result<Saved, Error> {
    let began = Instant::now();
    let options = &request.options;
    let sizes = request.streams.iter();
    let streams = Index::streams(sizes.map(|stream| (stream.name, stream.source.size())))
        .map_err(|_| Error::Request("the name of a stream is not one, or is there twice"))?;
    if request.identity.to_string().len() > MAX_IDENTITY {
        return Err(Error::Request("the identity is too long"));
    }
    if !is_exact(request.identity) {
        return Err(Error::Request(
            "the identity has numbers that are not whole",
        ));
    }
    let part = Part::create(request.path)?;
    if options.space == Space::Reserve {
        part.reserve(needed(request, &streams)?)?;
    }
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let (header, own) = Header::new(created.unwrap_or_default().as_secs(), request.key)
        .map_err(|_| Error::Crypto)?;
    let job = Job {
        request,
        streams: &streams,
        first: first(options.first, &streams),
        part: &part,
        id: header.id,
        cipher: Gcm::new(&own).map_err(|_| Error::Crypto)?,
        next: AtomicU64::new(0),
        end: AtomicU64::new(HEADER as u64),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let work = job.run()?;
    let chunks = usize::try_from(Index::chunks(&streams)).unwrap_or(usize::MAX);
    let mut index = Index {
        identity: request.identity.clone(),
        streams: streams.clone(),
        entries: vec![Entry::default(); chunks],
    };
    let mut saved = Saved {
        raw: 0,
        size: streams.iter().map(|stream| stream.size).sum(),
        stored: 0,
        written: began.elapsed(),
        total: began.elapsed(),
        chunks: [0; 3],
        threads: work.len(),
        io: work.first().map_or(Io::Auto, |one| one.io),
        direct: part.is_direct(),
    };
    for one in work {
        saved.raw += one.raw;
        for (number, entry) in one.entries {
            saved.chunks[entry.codec() as usize] += 1;
            index.entries[usize::try_from(number).unwrap_or(usize::MAX)] = entry;
        }
    }
    saved.stored = job.close(&header, &index)?;
    let sync = options.durability == Durability::Stable;
    part.complete(saved.stored, false)?;
    saved.written = began.elapsed();
    if sync {
        part.complete(saved.stored, true)?;
    }
    part.publish(options.older, sync)?;
    saved.total = began.elapsed();
    Ok(saved)
}

/// Removes the unfinished file of a killed writer. Does nothing if no such file exists, or if a
/// running writer has the file open.
///
/// # Errors
/// Fails if the file cannot be removed.
pub fn remove_remains(path: &Path) -> Result<(), Error> {
    if !part::aside(path).exists() {
        return Ok(());
    }
    match Part::create(path) {
        // When the unfinished image is dropped here, its file is removed.
        Ok(_) | Err(Error::Busy { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the maximum size of the image in bytes.
fn needed(request: &Request<'_>, streams: &[StreamInfo]) -> Result<u64, Error> {
    let mut stored = 0u64;
    for stream in request.streams {
        let most = stream.source.stored().map_err(|source| Error::Source {
            stream: stream.name.to_owned(),
            offset: 0,
            source,
        })?;
        // A page that is not zeros is stored whole, even if only one byte of the page counts.
        stored = stored.saturating_add(most.next_multiple_of(BLOCK as u64));
    }
    let chunks = Index::chunks(streams);
    // Each chunk needs a tag and an entry. Each buffer needs padding at its end; all buffers are at
    // least half full, except the last buffer of each thread.
    let around = chunks.saturating_mul(TAG_BYTES as u64 + 24)
        + stored / (BUFFER_BYTES as u64 / 2) * BLOCK as u64;
    let threads = request.options.threads.get() as u64;
    let ends = (threads + 4) * BLOCK as u64 + MAX_IDENTITY as u64;
    Ok(stored.saturating_add(around).saturating_add(ends))
}

/// Returns the numbers of the chunks to save before all other chunks, each once.
fn first(wanted: Option<(&str, &[u64])>, streams: &[StreamInfo]) -> Vec<u64> {
    let Some((name, wanted)) = wanted else {
        return Vec::new();
    };
    let Some(stream) = streams.iter().find(|stream| stream.name == name) else {
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let chunks = wanted.iter().filter(|chunk| **chunk < stream.chunks());
    let numbers = chunks.map(|chunk| stream.first + chunk);
    numbers.filter(|number| seen.insert(*number)).collect()
}

/// The result of one thread.
struct Work {
    entries: Vec<(u64, Entry)>,
    raw: u64,
    io: Io,
}

/// The state that the threads share.
struct Job<'a> {
    request: &'a Request<'a>,
    streams: &'a [StreamInfo],
    part: &'a Part,
    id: [u8; 16],
    cipher: Gcm,
    /// The chunks to save before all other chunks.
    first: Vec<u64>,
    /// The position of the next chunk: first the positions in `first`, then all chunks in ascending
    /// order.
    next: AtomicU64,
    /// The offset in the file of the next buffer, in bytes.
    end: AtomicU64,
    /// Bytes of memory that were processed.
    done: AtomicU64,
    stop: AtomicBool,
}

impl Job<'_> {
    fn run(&self) -> Result<Vec<Work>, Error> {
        let chunks = Index::chunks(self.streams);
        let most = usize::try_from(chunks).unwrap_or(usize::MAX).max(1);
        let threads = self.request.options.threads.get().min(most);
        thread::scope(|scope| {
            let work = |_| {
                scope.spawn(|| {
                    let worked = Sink::new(scope, self.part, self.request.options.io)
                        .and_then(|sink| Worker::new(self, sink).run());
                    if worked.is_err() {
                        self.stop.store(true, Relaxed);
                    }
                    worked
                })
            };
            let all: Vec<_> = (0..threads).map(work).collect();
            let ended: Vec<_> = all
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect();
            // A panic of a thread is a bug. The calling thread continues the panic.
            let ended = ended
                .into_iter()
                .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended.collect()
        })
    }

    /// Writes the index, the trailer and the header. Returns the length of the file in bytes.
    fn close(&self, header: &Header, index: &Index) -> Result<u64, Error> {
        let long = |_| Error::Request("the index is too long");
        let mut text = index.bytes().map_err(long)?;
        let area = self.end.load(Relaxed);
        let length = (text.len() + TAG_BYTES) as u64;
        let mut trailer = Trailer {
            id: self.id,
            index: area,
            length,
            file: area + length + TRAILER as u64,
            tag: [0; TAG_BYTES],
        };
        let signed = trailer.sign(header, &self.cipher);
        let sealed = self
            .cipher
            .seal(nonce(Purpose::Index, 0), &self.id, &mut text);
        let tag = signed.and(sealed).map_err(|_| Error::Crypto)?;
        text.extend(tag);
        text.extend(trailer.bytes());
        self.put(&text, area)?;
        // The header is written last: without a header, the file is not an image.
        self.put(&header.bytes(), 0)?;
        Ok(trailer.file)
    }

    fn put(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let mut buffer = Buffer::new(bytes.len());
        buffer[..bytes.len()].copy_from_slice(bytes);
        let written = self.part.write(&buffer[..bytes.len()], offset);
        written.map_err(self.part.error())
    }

    fn report(&self, bytes: u64) -> Result<(), Error> {
        let progress = Progress {
            done: self.done.fetch_add(bytes, Relaxed) + bytes,
            total: self.streams.iter().map(|stream| stream.size).sum(),
            moved: self.end.load(Relaxed),
        };
        match (self.request.options.watch)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}

/// A thread that saves chunks.
struct Worker<'a> {
    job: &'a Job<'a>,
    sink: Sink<'a>,
    packer: Packer,
    chunk: Vec<u8>,
    /// Number of bytes of the current buffer that are in use.
    fill: usize,
    /// The chunks in the current buffer. Their offsets count from the beginning of the buffer.
    pending: Vec<(u64, Entry)>,
    /// The last hole that was found: the position of the stream, and the offset up to which the
    /// stream has only zeros.
    hole: (usize, u64),
    /// Bytes of memory that were processed since the last report.
    unsaid: u64,
    began: Instant,
    work: Work,
}

impl<'a> Worker<'a> {
    fn new(job: &'a Job<'a>, sink: Sink<'a>) -> Self {
        Self {
            work: Work {
                entries: Vec::new(),
                raw: 0,
                io: sink.io(),
            },
            job,
            sink,
            packer: Packer::new(),
            chunk: vec![0; CHUNK],
            fill: 0,
            pending: Vec::new(),
            hole: (0, 0),
            unsaid: 0,
            began: Instant::now(),
        }
    }

    fn run(mut self) -> Result<Work, Error> {
        let early: HashSet<u64> = self.job.first.iter().copied().collect();
        loop {
            let turn = self.job.next.fetch_add(1, Relaxed);
            let hot = usize::try_from(turn)
                .ok()
                .and_then(|turn| self.job.first.get(turn));
            let number = hot.map_or_else(|| turn - early.len() as u64, |hot| *hot);
            let inside = |stream: &StreamInfo| number < stream.first + stream.chunks();
            let Some(place) = self.job.streams.iter().position(inside) else {
                break;
            };
            if hot.is_none() && early.contains(&number) {
                continue;
            }
            let stream = &self.job.streams[place];
            if self.job.stop.load(Relaxed) {
                // Another thread failed. The save returns the error of that thread.
                return Ok(self.work);
            }
            let length = length_of(stream, number - stream.first);
            self.save(place, number, length)?;
            if hot.is_some() {
                // The next chunk may be before the hole that was found.
                self.hole = (0, 0);
            }
            self.unsaid += length as u64;
            if self.unsaid >= BUFFER_BYTES as u64 {
                self.job.report(std::mem::take(&mut self.unsaid))?;
            }
        }
        self.flush()?;
        self.sink.finish()?;
        self.job.report(self.unsaid)?;
        Ok(self.work)
    }

    /// Packs, seals and buffers one chunk.
    fn save(&mut self, place: usize, number: u64, length: usize) -> Result<(), Error> {
        let offset = (number - self.job.streams[place].first) * CHUNK as u64;
        if !self.has_data(place, offset, length)? {
            return Ok(());
        }
        let choice = self.choose()?;
        let source = self.job.request.streams[place];
        let failed = |error| Error::Source {
            stream: source.name.to_owned(),
            offset,
            source: error,
        };
        let slot = &mut self.sink.current[self.fill..self.fill + SLOT_BYTES];
        // A raw chunk is read directly into the buffer of the sink.
        let raw = choice == Codec::Raw;
        let chunk = match raw {
            true => &mut slot[..length],
            false => &mut self.chunk[..length],
        };
        source.source.read(offset, chunk).map_err(failed)?;
        let pages = zero::nonzero_pages(chunk);
        if pages == 0 {
            return Ok(());
        }
        let whole = zero::compact(chunk, pages);
        self.work.raw += whole as u64;
        let (mut codec, mut packed) = (Codec::Raw, whole);
        if !raw {
            match self
                .packer
                .pack(choice, &self.chunk[..whole], &mut slot[..PACK_ROOM])
            {
                Some(length) => (codec, packed) = (choice, length),
                None => slot[..whole].copy_from_slice(&self.chunk[..whole]),
            }
        }
        self.seal(number, codec, pages, packed)
    }

    fn has_data(&mut self, place: usize, offset: u64, length: usize) -> Result<bool, Error> {
        let end = offset + length as u64;
        if self.hole.0 == place && (self.hole.1 >= end) {
            return Ok(false);
        }
        let stream = &self.job.request.streams[place];
        let found = stream
            .source
            .data_from(offset)
            .map_err(|source| Error::Source {
                stream: stream.name.to_owned(),
                offset,
                source,
            })?;
        self.hole = (place, found.unwrap_or(u64::MAX));
        Ok(self.hole.1 < end)
    }

    fn choose(&mut self) -> Result<Codec, Error> {
        if let Choice::Always(codec) = self.job.request.options.choice {
            return Ok(codec);
        }
        Ok(match self.sink.waiting()? {
            // The disk is idle, or soon will be. Raw chunks are fastest, because they need no
            // compression.
            0 | 1 => Codec::Raw,
            // Other processes use the processors, so a codec that needs less CPU time is faster.
            _ if self.is_starved() => Codec::Raw,
            waiting if waiting < BUFFERS_PER_THREAD - 1 => Codec::Lz4,
            // The next full buffer must wait for the disk anyway, so there is time for the
            // strongest codec.
            _ => Codec::Zstd,
        })
    }

    /// Returns true if this thread has run for less than half of the time in which it was ready to
    /// run.
    fn is_starved(&self) -> bool {
        let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let ran = Duration::try_from(ran).unwrap_or_default();
        let wanted = self.began.elapsed().saturating_sub(self.sink.waited());
        wanted > 2 * ran
    }

    /// Encrypts the packed chunk at the end of the current buffer.
    fn seal(&mut self, number: u64, codec: Codec, pages: u64, packed: usize) -> Result<(), Error> {
        let end = self.fill + packed + TAG_BYTES;
        // The last chunk of a buffer is padded to the end of a block. The padding is sealed with
        // the chunk.
        let last = BUFFER_BYTES - end < SLOT_BYTES + BLOCK;
        let padding = match last {
            true => end.next_multiple_of(BLOCK) - end,
            false => 0,
        };
        let text = &mut self.sink.current[self.fill..end + padding];
        let (text, tag) = text.split_at_mut(packed + padding);
        text[packed..].fill(0);
        let aad = aad(&self.job.id, number);
        let sealed = self
            .job
            .cipher
            .seal(nonce(Purpose::Chunk, number), &aad, text);
        tag.copy_from_slice(&sealed.map_err(|_| Error::Crypto)?);
        let length = u32::try_from(packed + padding + TAG_BYTES).map_err(|_| Error::Crypto)?;
        let padding = u16::try_from(padding).map_err(|_| Error::Crypto)?;
        let entry = Entry::new(codec, pages, self.fill as u64, length, padding);
        self.pending.push((number, entry));
        self.fill += length as usize;
        match last {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Sends the current buffer to the disk.
    fn flush(&mut self) -> Result<(), Error> {
        if self.fill == 0 {
            return Ok(());
        }
        let length = self.fill.next_multiple_of(BLOCK);
        self.sink.current[self.fill..length].fill(0);
        let offset = self.job.end.fetch_add(length as u64, Relaxed);
        for (number, mut entry) in self.pending.drain(..) {
            entry.offset += offset;
            self.work.entries.push((number, entry));
        }
        self.fill = 0;
        self.sink.send(length, offset)
    }
}

/// Returns the data that ties a chunk to its image and its number.
pub(crate) fn aad(id: &[u8; 16], number: u64) -> [u8; 24] {
    let mut aad = [0; 24];
    aad[..16].copy_from_slice(id);
    aad[16..].copy_from_slice(&number.to_le_bytes());
    aad
}
