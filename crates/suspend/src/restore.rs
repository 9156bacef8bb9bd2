//! Restores a whole stream before it is used, and verifies a whole image without restoring it.

use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use serde_json::json;

use crate::feed::{self, Feed, Opener};
use crate::format::CHUNK;
use crate::image::Image;
use crate::index::{StreamInfo, length_of};
use crate::ledger::Stage;
use crate::target::Nowhere;
use crate::turn::Turn;
use crate::{Difference, Error, Io, Ledger, Progress, Restored, Target, Watch};

/// The options of loading an image.
#[derive(Clone, Copy)]
pub struct Loading<'a> {
    /// Number of threads that decrypt and unpack chunks.
    pub threads: NonZero<usize>,
    /// The system calls that read the image.
    pub io: Io,
    /// The function that receives the progress.
    pub watch: Watch<'a>,
}

impl std::fmt::Debug for Loading<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loading")
            .field("threads", &self.threads)
            .field("io", &self.io)
            .finish_non_exhaustive()
    }
}

impl Default for Loading<'_> {
    fn default() -> Self {
        Self {
            threads: crate::all_processors(),
            io: Io::default(),
            watch: &crate::unwatched,
        }
    }
}

/// Restores a stream into memory that is all zeros and exactly as long. When this returns without
/// an error, all memory is restored; after an error the memory must not be used.
///
/// # Errors
/// Fails with an [`Error`].
pub fn restore(
    image: &Image,
    name: &str,
    target: &dyn Target,
    loading: &Loading<'_>,
) -> Result<Restored, Error> {
    let stream = image.stream(name)?;
    must_fit(image, stream, target)?;
    load(image, &[(stream, target)], loading)
}

/// Reads and checks every chunk of every stream. The data is discarded.
///
/// # Errors
/// Fails with the first damage that was found.
pub fn verify(image: &Image, loading: &Loading<'_>) -> Result<Restored, Error> {
    let targets: Vec<Nowhere> = image
        .index()
        .streams
        .iter()
        .map(|stream| Nowhere(stream.size))
        .collect();
    let pairs: Vec<(&StreamInfo, &dyn Target)> = image
        .index()
        .streams
        .iter()
        .zip(&targets)
        .map(|(stream, target)| (stream, target as &dyn Target))
        .collect();
    load(image, &pairs, loading)
}

/// Loads chunks, in their order in the image, for a [`Pager`](crate::Pager) that continues later
/// with the same ledger. Before the pager starts, the caller must call
/// [`enough`](crate::Ledger::enough) and wait until the ledger is no longer
/// [busy](crate::Ledger::is_busy). Until then no process may read the memory. The process that
/// loads ahead may be killed at any moment; the caller must then call
/// [`forget_taken`](crate::Ledger::forget_taken).
///
/// # Errors
/// Fails with an [`Error`]; with [`Error::Cancelled`] if `watch` cancelled the operation. The
/// chunks that were loaded before the error are complete.
pub fn load_ahead(
    image: &Image,
    (name, places): (&str, Range<usize>),
    target: &dyn Target,
    ledger: &Ledger,
    loading: &Loading<'_>,
) -> Result<(), Error> {
    let stream = image.stream(name)?;
    must_fit(image, stream, target)?;
    if ledger.chunks() != stream.chunks() {
        return Err(Error::Request("the ledger is for another number of chunks"));
    }
    let mut chunks = chunks_of(image, stream);
    chunks.truncate(places.end);
    chunks.drain(..places.start.min(chunks.len()));
    let total = chunks.len() as u64 * CHUNK as u64;
    let (done, moved) = (AtomicU64::new(0), AtomicU64::new(0));
    let each = |opener: &mut Opener<'_>, chunk: u64, sealed: &mut [u8]| {
        let number = chunk - stream.first;
        match ledger.take_ahead(number) {
            None => return Err(Error::Cancelled),
            Some(false) => {}
            Some(true) => {
                opener.deliver(chunk, stream, sealed, target)?;
                ledger.set(number, Stage::Placed);
            }
        }
        let size = sealed.len() as u64;
        let progress = Progress {
            done: done.fetch_add(CHUNK as u64, Relaxed) + CHUNK as u64,
            total,
            moved: moved.fetch_add(size, Relaxed) + size,
        };
        match (loading.watch)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    };
    let turn = Turn::new();
    let feed = Feed {
        threads: loading.threads,
        io: loading.io,
        turn: Some(&turn),
    };
    feed::run(image, &chunks, feed, &AtomicBool::new(false), &each)
}

/// Fails if the memory has another size than the stream: the guest then differs from the saved
/// guest.
pub(crate) fn must_fit(
    image: &Image,
    stream: &StreamInfo,
    target: &dyn Target,
) -> Result<(), Error> {
    match target.size() == stream.size {
        true => Ok(()),
        false => Err(Error::Differs {
            path: image.path().to_owned(),
            differences: vec![Difference {
                what: format!("size of {}", stream.name),
                then: json!(stream.size),
                now: json!(target.size()),
            }],
        }),
    }
}

/// Returns the numbers of the stored chunks of a stream, in their order in the file.
pub(crate) fn chunks_of(image: &Image, stream: &StreamInfo) -> Vec<u64> {
    let numbers = stream.first..stream.first + stream.chunks();
    let order = image.order().iter().copied();
    order.filter(|chunk| numbers.contains(chunk)).collect()
}

fn load(
    image: &Image,
    pairs: &[(&StreamInfo, &dyn Target)],
    loading: &Loading<'_>,
) -> Result<Restored, Error> {
    let began = Instant::now();
    let mut chunks: Vec<u64> = Vec::new();
    for (stream, _) in pairs {
        chunks.extend(chunks_of(image, stream));
    }
    let length = |chunk: &u64| {
        let stream = image.index().stream_of(*chunk);
        stream.map_or(0, |stream| length_of(stream, chunk - stream.first))
    };
    let entries = || {
        chunks
            .iter()
            .filter_map(|chunk| Some((chunk, image.entry(*chunk)?)))
    };
    let raw = entries()
        .map(|(chunk, entry)| entry.unpacked(length(chunk)) as u64)
        .sum();
    let stored = entries().map(|(_, entry)| u64::from(entry.length)).sum();
    let total = chunks.iter().map(|chunk| length(chunk) as u64).sum();
    let (done, moved) = (AtomicU64::new(0), AtomicU64::new(0));

    let each = |opener: &mut Opener<'_>, chunk: u64, sealed: &mut [u8]| {
        let size = sealed.len() as u64;
        let pair = pairs
            .iter()
            .find(|(stream, _)| (stream.first..stream.first + stream.chunks()).contains(&chunk));
        if let Some((stream, target)) = pair {
            opener.deliver(chunk, stream, sealed, *target)?;
        }
        let progress = Progress {
            done: (done.fetch_add(CHUNK as u64, Relaxed) + CHUNK as u64).min(total),
            total,
            moved: moved.fetch_add(size, Relaxed) + size,
        };
        match (loading.watch)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    };
    let feed = Feed {
        threads: loading.threads,
        io: loading.io,
        turn: None,
    };
    feed::run(image, &chunks, feed, &AtomicBool::new(false), &each)?;
    Ok(Restored {
        raw,
        stored,
        took: began.elapsed(),
    })
}
