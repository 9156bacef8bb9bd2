//! Moves the stream from the process that packs to the process that unpacks.
//!
//! If this process ends, both others find a closed pipe and end, too.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use host::Error;

/// Size of a piece that is moved at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Time after which the first progress is reported.
const FIRST_PROGRESS: Duration = Duration::from_secs(2);

/// Maximum interval between two reports of the progress. The interval doubles up to this value.
const MAX_PROGRESS_INTERVAL: Duration = Duration::from_secs(32);

/// The part of a stream that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    /// The whole stream.
    All,
    /// The stream up to the point at which its reader ended.
    Part,
}

/// Counts bytes, and reports the progress of a copy that takes seconds.
pub(super) struct Meter<'a> {
    bytes: u64,
    last: Instant,
    interval: Duration,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Meter<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(u64)) -> Self {
        Self {
            bytes: 0,
            last: Instant::now(),
            interval: FIRST_PROGRESS,
            progress,
        }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.last.elapsed() >= self.interval {
            self.last = Instant::now();
            self.interval = (self.interval * 2).min(MAX_PROGRESS_INTERVAL);
            (self.progress)(self.bytes);
        }
    }
}

/// Moves a stream to its end. `None` is standard input or output.
pub(super) fn pump(
    from: Option<&OwnedFd>,
    to: Option<&OwnedFd>,
    progress: &mut dyn FnMut(u64),
) -> Result<Pumped, Error> {
    let reading = from.map_or(rustix::stdio::stdin(), AsFd::as_fd);
    let writing = to.map_or(rustix::stdio::stdout(), AsFd::as_fd);
    let mut meter = Meter::new(progress);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = rustix::io::retry_on_intr(|| rustix::io::read(reading, &mut *piece));
        let length = match read {
            Ok(0) => return Ok(Pumped::All),
            Ok(length) => length,
            Err(errno) => return Err(Error::io("read standard input")(errno.into())),
        };
        let mut rest = &piece[..length];
        while !rest.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(writing, rest)) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::PIPE) => return Ok(Pumped::Part),
                Err(errno) => return Err(Error::io("write standard output")(errno.into())),
            }
        }
        meter.add(length);
    }
}
