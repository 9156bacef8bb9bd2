//! Receives a stream from an untrusted sender beside the root of a zone that is being installed.
//!
//! The received file system is not trusted. While its files are copied into the root, as from any
//! directory, it is mounted read-only, without set-id programs and devices. Therefore no setting of
//! the sender's file system (properties, case of names, user quotas, snapshots) affects the zone.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | receive `received` | a zone that is being installed: destroyed with it |
//! | mount it; copy; unmount it | the same |
//! | destroy it | a zone without it |

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::Place;
use super::command::{FileSystem, zfs, zfs_reads};
use super::stream::refuse_properties;
use crate::error::{Error, Result};
use crate::zfs::property::RECEIVED;

/// Number of bytes that are passed on at a time.
const PIPE_BYTES: usize = 256 << 10;

/// The file system of a received stream. Dropping this value removes the file system.
#[derive(Debug)]
pub struct Received {
    name: FileSystem,
    zonepath: PathBuf,
    kept: bool,
}

/// Receives a stream of one snapshot into a file system beside the empty root of the zone at a
/// zonepath.
///
/// # Errors
/// Fails with the message of zfs(8) if the stream cannot be read, and then removes all received
/// data.
pub fn receive_beside(zonepath: &Path, from: &mut dyn Read) -> Result<Received> {
    let (place, parts, lock) = Place::open(zonepath)?;
    // The lock is released, because the transfer may take long, and no other process changes a zone
    // that is being installed.
    drop(lock);
    let received = Received {
        name: place.part(RECEIVED)?,
        zonepath: zonepath.to_owned(),
        kept: true,
    };
    if parts.iter().any(|part| part.name == received.name) {
        received.destroy()?;
    }
    place.zonepath.make(RECEIVED)?;
    let at = format!("mountpoint={}", received.path().display());
    let mut words = vec!["receive", "-u", "-o", &at];
    for option in [
        "canmount=noauto",
        "readonly=on",
        "setuid=off",
        "devices=off",
        "exec=off",
        "atime=off",
        "snapdir=hidden",
    ] {
        words.extend(["-o", option]);
    }
    words.push(received.name.as_str());
    feed(&words, from, zonepath)?;
    refuse_properties(&place, &received.name)?;
    zfs(&["mount", received.name.as_str()])?;
    Ok(received)
}

/// Runs zfs(8) and writes all of `from` to its standard input.
fn feed(words: &[&str], from: &mut dyn Read, at: &Path) -> Result<()> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::pipe::pipe_with(flags).map_err(|errno| Error::io("pipe", at, errno))?;
    let (mut ours, mut theirs) = (File::from(ours), File::from(theirs));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let done = zfs_reads(words, ours.as_fd());
            ended.store(true, Ordering::Relaxed);
            // This thread reads the rest of the stream, because a write to a pipe without a reader
            // raises SIGPIPE, which would end this process.
            let _ = io::copy(&mut ours, &mut io::sink());
            done
        });
        let copied = copy(from, &mut theirs, &ended);
        // Closing the pipe marks the end of the stream.
        drop(theirs);
        let done = reads.join().unwrap_or_else(|_| {
            let why = io::Error::other("the thread that runs zfs(8) failed");
            Err(Error::io("read", at, why))
        });
        // The read error is reported first, because zfs(8) sees such a stream only as one that ends
        // too early.
        copied.map_err(|error| Error::io("read", "the stream", error))?;
        done
    })
}

/// Copies until the end of the stream, or until the reader has ended, which reports its own error.
fn copy(from: &mut dyn Read, to: &mut impl Write, ended: &AtomicBool) -> io::Result<()> {
    let mut piece = vec![0; PIPE_BYTES];
    while !ended.load(Ordering::Relaxed) {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&piece[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Received {
    /// Returns the path of the received files.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.zonepath.join(RECEIVED)
    }

    /// Removes the received file system.
    ///
    /// # Errors
    /// Fails with the error of zfs(8).
    pub fn discard(mut self) -> Result<()> {
        self.kept = false;
        self.destroy()
    }

    fn destroy(&self) -> Result<()> {
        match zfs(&["destroy", "-r", self.name.as_str()]) {
            Err(error) if !super::property::is_missing(&error) => return Err(error),
            _ => {}
        }
        match std::fs::remove_dir(self.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("rmdir", self.path(), error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if self.kept {
            // An error is ignored, because the first error is the one to report. The removal of the
            // zone removes the rest.
            let _ = self.destroy();
        }
    }
}
