//! Measures the limits of this host's memory, processors and disk.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::num::NonZero;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::fs::OFlags;
use suspend::codec::{Codec, PACK_ROOM, Packer};
use suspend::format::CHUNK;
use suspend::{Cipher as _, Key};
use sys::uring::{Buffer, Ring};

use super::memory::Memory;
use super::trial::{Clock, Rate};

const BUFFER: usize = 2 << 20;
const BUFFERS: usize = 4;

/// Calls `work` with the number of each thread, on all threads at the same time.
fn on_threads(
    threads: NonZero<usize>,
    bytes: usize,
    work: impl Fn(usize) -> Result<()> + Sync,
) -> Result<Rate> {
    let clock = Clock::start();
    thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads.get())
            .map(|one| scope.spawn(move || work(one)))
            .collect();
        all.into_iter().try_for_each(|one| {
            one.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    Ok(clock.rate(bytes))
}

/// Copies all of the memory, chunk by chunk, to a buffer that stays in the cache.
pub fn copy(memory: &Memory, threads: NonZero<usize>) -> Result<Rate> {
    chunks(memory, threads, memory.length, || {
        |chunk: &[u8]| {
            black_box(chunk.first());
        }
    })
}

/// As [`copy`], and looks for pages of zeros.
pub fn scan(memory: &Memory, threads: NonZero<usize>) -> Result<Rate> {
    chunks(memory, threads, memory.length, || {
        |chunk: &[u8]| {
            black_box(suspend::nonzero_pages(chunk));
        }
    })
}

/// As [`scan`], and compresses pages that are not zeros with lz4; only these pages count.
pub fn pack(memory: &Memory, threads: NonZero<usize>) -> Result<Rate> {
    chunks(memory, threads, memory.nonzero, || {
        let (mut packer, mut out) = (Packer::new(), vec![0; PACK_ROOM]);
        move |chunk: &[u8]| {
            if suspend::nonzero_pages(chunk) != 0 {
                black_box(packer.pack(Codec::Lz4, chunk, &mut out));
            }
        }
    })
}

/// Reads all of the memory and calls a worker with each chunk; `with` creates the worker of each
/// thread.
fn chunks<W: FnMut(&[u8])>(
    memory: &Memory,
    threads: NonZero<usize>,
    bytes: usize,
    with: impl Fn() -> W + Sync,
) -> Result<Rate> {
    on_threads(threads, bytes, |one| {
        let mut with = with();
        let mut chunk = vec![0; CHUNK];
        for offset in (one * CHUNK..memory.length).step_by(threads.get() * CHUNK) {
            let size = CHUNK.min(memory.length - offset);
            memory
                .file
                .read_exact_at(&mut chunk[..size], offset as u64)?;
            with(&chunk[..size]);
        }
        Ok(())
    })
}

/// Populates as many pages as the memory has with zeros, as every restore must. A first run is not
/// measured: in a virtual machine, the first touch of a page may allocate a page on its host.
pub fn populate(memory: &Memory, threads: NonZero<usize>) -> Result<Rate> {
    touch(memory, threads)?;
    touch(memory, threads)
}

/// Touches as many pages as the memory has, so that the host of a virtual machine allocates them.
pub fn touch(memory: &Memory, threads: NonZero<usize>) -> Result<Rate> {
    let file = memory.empty()?;
    let mapping = memory.map(&file)?;
    let step = 8 * CHUNK;
    on_threads(threads, memory.length, |one| {
        for start in (one * step..memory.length).step_by(threads.get() * step) {
            mapping.populate(start..(start + step).min(memory.length))?;
        }
        Ok(())
    })
}

/// Encrypts this number of bytes, a chunk at a time, in the processor's cache.
pub fn seal(length: usize, threads: NonZero<usize>) -> Result<Rate> {
    let share = length / threads.get() / CHUNK;
    on_threads(threads, share * threads.get() * CHUNK, |_| {
        let key = Key::random()?;
        let cipher = suspend::cipher(&key)?;
        let mut chunk = vec![7; CHUNK];
        for number in 0..share as u64 {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&number.to_le_bytes());
            black_box(cipher.seal(nonce, &[], &mut chunk)?);
        }
        Ok(())
    })
}

pub struct Disk {
    pub written: Rate,
    pub synced: Rate,
    pub read: Rate,
}

/// Writes this number of random bytes around the page cache, with io_uring if the kernel has it, to
/// space that was reserved, and reads them around the page cache.
pub fn disk(path: &Path, length: usize, threads: NonZero<usize>) -> Result<Disk> {
    let share = length.div_ceil(threads.get() * BUFFER) * BUFFER;
    let open = |flags: OFlags| {
        let flags = i32::from_ne_bytes(flags.bits().to_ne_bytes());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.mode(0o600).custom_flags(flags).open(path)
    };
    let file = open(OFlags::DIRECT).or_else(|_| open(OFlags::empty()));
    let file = file.with_context(|| format!("{}: cannot write here", path.display()))?;
    let began = Instant::now();
    let whole = (share * threads.get()) as u64;
    let flags = rustix::fs::FallocateFlags::empty();
    // A file system without fallocate is slower, but works.
    let _ = rustix::fs::fallocate(&file, flags, 0, whole);
    on_threads(threads, 0, |one| write(&file, (one * share) as u64, share))?;
    let written = began.elapsed();
    file.sync_all()?;
    let synced = began.elapsed();
    let read = on_threads(threads, share * threads.get(), |one| {
        read(&file, (one * share) as u64, share)
    })?;
    drop(file);
    std::fs::remove_file(path)?;
    Ok(Disk {
        written: Rate::new(share * threads.get(), written),
        synced: Rate::new(share * threads.get(), synced),
        read: Rate::new(read.bytes, read.took),
    })
}

/// Reads one block after another: several reads at once are not faster on every disk.
fn read(file: &File, start: u64, length: usize) -> Result<()> {
    let mut buffer = Buffer::new(BUFFER);
    for offset in (start..start + length as u64).step_by(BUFFER) {
        file.read_exact_at(&mut buffer[..BUFFER], offset)?;
    }
    Ok(())
}

fn write(file: &File, start: u64, length: usize) -> Result<()> {
    let mut ring = Ring::new(BUFFERS).ok();
    let mut free: Vec<Buffer> = (0..BUFFERS).map(|_| Buffer::new(BUFFER)).collect();
    let mut noise = 1u64;
    for word in free.iter_mut().flat_map(|buffer| buffer.chunks_mut(8)) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        word.copy_from_slice(&noise.to_le_bytes());
    }
    let take = |ring: &mut Ring, all: bool| -> Result<Vec<Buffer>> {
        let mut taken = Vec::new();
        while let Some(landed) = ring.wait()? {
            anyhow::ensure!(landed.result? == BUFFER, "a short write");
            taken.push(landed.buffer);
            if !all {
                break;
            }
        }
        Ok(taken)
    };
    for offset in (start..start + length as u64).step_by(BUFFER) {
        let Some(ring) = &mut ring else {
            file.write_all_at(&free[0], offset)?;
            continue;
        };
        if free.is_empty() {
            free = take(ring, false)?;
        }
        let buffer = free.pop().context("no buffer")?;
        ring.write(file.as_fd(), buffer, BUFFER, offset, 0)
            .map_err(|(_, error)| error)?;
    }
    if let Some(ring) = &mut ring {
        take(ring, true)?;
    }
    Ok(())
}
