//! Writes sealed chunks. Full buffers are written while the next buffer is filled.

use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::{Duration, Instant};
use std::{io, mem};

use sys::uring::{Buffer, Landed, Ring};

use crate::Error;
use crate::io::Io;
use crate::part::Part;

/// Number of buffers of each thread: one is filled while the others are written.
pub(crate) const BUFFERS_PER_THREAD: usize = 4;
/// Size of a buffer, in bytes.
pub(crate) const BUFFER_BYTES: usize = 2 << 20;

/// A buffer that is being written.
struct Job {
    buffer: Buffer,
    length: usize,
    offset: u64,
}

enum Lane {
    /// The ring, and the offset and length of each buffer that is being written.
    Ring(Box<Ring>, [(u64, usize); BUFFERS_PER_THREAD]),
    Thread {
        to: SyncSender<Job>,
        from: Receiver<(Buffer, io::Result<()>)>,
        out: usize,
    },
}

/// The buffers of one thread.
pub(crate) struct Sink<'a> {
    part: &'a Part,
    lane: Lane,
    /// The buffer that is filled at the moment.
    pub(crate) current: Buffer,
    free: Vec<Buffer>,
    waited: Duration,
}

impl<'a> Sink<'a> {
    pub(crate) fn new<'scope>(
        scope: &'scope Scope<'scope, 'a>,
        part: &'a Part,
        io: Io,
    ) -> Result<Self, Error> {
        let ring = match io {
            Io::Plain => None,
            Io::Auto => Ring::new(BUFFERS_PER_THREAD).ok(),
            Io::Uring => Some(Ring::new(BUFFERS_PER_THREAD).map_err(part.error())?),
        };
        let lane = match ring {
            Some(ring) => Lane::Ring(Box::new(ring), [(0, 0); BUFFERS_PER_THREAD]),
            None => {
                let (to, jobs) = sync_channel::<Job>(BUFFERS_PER_THREAD);
                let (done, from) = sync_channel(BUFFERS_PER_THREAD);
                scope.spawn(move || {
                    for job in jobs {
                        let written = part.write(&job.buffer[..job.length], job.offset);
                        // The channel has space for all buffers, so this never blocks.
                        let _ = done.send((job.buffer, written));
                    }
                });
                Lane::Thread { to, from, out: 0 }
            }
        };
        Ok(Self {
            part,
            lane,
            current: Buffer::new(BUFFER_BYTES),
            free: (1..BUFFERS_PER_THREAD)
                .map(|_| Buffer::new(BUFFER_BYTES))
                .collect(),
            waited: Duration::ZERO,
        })
    }

    /// Returns the system calls that `Auto` has selected.
    pub(crate) const fn io(&self) -> Io {
        match self.lane {
            Lane::Ring(..) => Io::Uring,
            Lane::Thread { .. } => Io::Plain,
        }
    }

    /// Returns the time for which this thread had to wait for the disk.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the number of buffers that are being written: the load of the disk.
    pub(crate) fn waiting(&mut self) -> Result<usize, Error> {
        loop {
            match &mut self.lane {
                Lane::Ring(ring, jobs) => match ring.landed() {
                    Some(landed) => {
                        let buffer = settle(self.part, landed, jobs)?;
                        self.free.push(buffer);
                    }
                    None => return Ok(ring.in_flight()),
                },
                Lane::Thread { from, out, .. } => match from.try_recv() {
                    Ok((buffer, written)) => {
                        *out -= 1;
                        written.map_err(self.part.error())?;
                        self.free.push(buffer);
                    }
                    Err(_) => return Ok(*out),
                },
            }
        }
    }

    /// Starts to write the current buffer, and makes a free buffer the current one. Waits if no
    /// buffer is free.
    pub(crate) fn send(&mut self, length: usize, offset: u64) -> Result<(), Error> {
        self.waiting()?;
        while self.free.is_empty() {
            self.wait()?;
        }
        let next = self.free.pop().unwrap_or_else(|| Buffer::new(BUFFER_BYTES));
        let buffer = mem::replace(&mut self.current, next);
        match &mut self.lane {
            Lane::Ring(ring, jobs) => {
                // The ring has as many slots as there are buffers, so one slot is free.
                let tag = jobs.iter().position(|job| job.1 == 0).unwrap_or_default();
                jobs[tag] = (offset, length);
                ring.write(self.part.as_fd(), buffer, length, offset, tag as u64)
                    .map_err(|(_, error)| self.part.error()(error))
            }
            Lane::Thread { to, out, .. } => {
                *out += 1;
                let job = Job {
                    buffer,
                    length,
                    offset,
                };
                to.send(job)
                    .map_err(|_| self.part.error()(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    /// Waits until one buffer is written. Returns false if no buffer is being written.
    fn wait(&mut self) -> Result<bool, Error> {
        let began = Instant::now();
        let waited = self.wait_for_one();
        self.waited += began.elapsed();
        waited
    }

    fn wait_for_one(&mut self) -> Result<bool, Error> {
        let buffer = match &mut self.lane {
            Lane::Ring(ring, jobs) => match ring.wait().map_err(self.part.error())? {
                Some(landed) => settle(self.part, landed, jobs)?,
                None => return Ok(false),
            },
            Lane::Thread { out: 0, .. } => return Ok(false),
            Lane::Thread { from, out, .. } => {
                let broken = |_| self.part.error()(io::ErrorKind::BrokenPipe.into());
                let (buffer, written) = from.recv().map_err(broken)?;
                *out -= 1;
                written.map_err(self.part.error())?;
                buffer
            }
        };
        self.free.push(buffer);
        Ok(true)
    }

    /// Waits until all buffers are written.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        while self.wait()? {}
        Ok(())
    }
}

/// Completes the write of a buffer: writes the part that the queue did not write, and
/// returns the error of a failed write.
fn settle(
    part: &Part,
    landed: Landed,
    jobs: &mut [(u64, usize); BUFFERS_PER_THREAD],
) -> Result<Buffer, Error> {
    let tag = usize::try_from(landed.tag).unwrap_or_default() % BUFFERS_PER_THREAD;
    let (offset, length) = mem::take(&mut jobs[tag]);
    let done = landed.result.unwrap_or_default() & !(crate::format::BLOCK - 1);
    if let Some(rest) = landed
        .buffer
        .get(done..length)
        .filter(|rest| !rest.is_empty())
    {
        part.write(rest, offset + done as u64)
            .map_err(part.error())?;
    }
    Ok(landed.buffer)
}
