//! Lets this process decide about each read of a file before the read starts: fanotify(7) with
//! permission events.
//!
//! A process that reads a watched file waits until [`Asked::answer_all`] allows the read. When the
//! watching process ends, the kernel allows all waiting reads, and later reads do not wait.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Size of `struct fanotify_event_metadata`, version 3, in bytes.
const EVENT_SIZE: usize = 24;
/// Offsets of the length, the version and the descriptor in an event.
const LENGTH_AT: usize = 0;
const VERSION_AT: usize = 4;
const DESCRIPTOR_AT: usize = 16;

/// Maximum number of events in one read. Each event has a descriptor, which counts as an open file.
const EVENTS_PER_READ: usize = 32;

/// A group of watched files.
#[derive(Debug)]
pub struct Asked(OwnedFd);

impl AsFd for Asked {
    /// Returns a descriptor that is readable while a process waits to read a watched file.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Asked {
    /// Makes a group without files. The kernel counts the group for the caller's effective user,
    /// who can have 128 groups.
    ///
    /// # Errors
    /// Fails with `ENOSYS` or `EINVAL` if the kernel has no such events, with `EPERM` without
    /// CAP_SYS_ADMIN, and with `EMFILE`.
    pub fn new() -> io::Result<Self> {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        let of_events = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE;
        // SAFETY: fanotify_init(2) takes numbers only.
        let fd = unsafe { libc::fanotify_init(flags, of_events.unsigned_abs()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Starts to watch an open file, for reads by any path.
    ///
    /// # Errors
    /// Fails with the error of fanotify_mark(2).
    pub fn watch(&self, file: impl AsFd) -> io::Result<()> {
        self.mark(libc::FAN_MARK_ADD, file.as_fd())
    }

    /// Stops watching a file. Processes that already wait still need an answer.
    ///
    /// # Errors
    /// Fails with the error of fanotify_mark(2).
    pub fn unwatch(&self, file: impl AsFd) -> io::Result<()> {
        self.mark(libc::FAN_MARK_REMOVE, file.as_fd())
    }

    fn mark(&self, action: libc::c_uint, file: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both descriptors are borrowed for the call. Because the path is a null pointer,
        // the mark is for `file`.
        let result = unsafe {
            libc::fanotify_mark(
                self.0.as_raw_fd(),
                action,
                libc::FAN_ACCESS_PERM,
                file.as_raw_fd(),
                std::ptr::null(),
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Allows all reads that wait now.
    ///
    /// # Errors
    /// Fails with the error of read(2). The call succeeds if no process waits.
    pub fn answer_all(&self) -> io::Result<()> {
        let mut events = [0_u8; EVENT_SIZE * EVENTS_PER_READ];
        loop {
            let length = match rustix::io::read(&self.0, &mut events) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for descriptor in descriptors(&events[..length]) {
                self.admit(descriptor);
                // SAFETY: the kernel has opened this descriptor for this event, and no other code
                // knows its number.
                drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
    }

    fn admit(&self, descriptor: i32) {
        let mut response = [0_u8; 8];
        response[..4].copy_from_slice(&descriptor.to_ne_bytes());
        response[4..].copy_from_slice(&libc::FAN_ALLOW.to_ne_bytes());
        // A process that was killed in the meantime needs no answer.
        let _ = rustix::io::write(&self.0, &response);
    }
}

/// Returns the descriptors of the events in these bytes. An overflow event has no descriptor.
fn descriptors(mut events: &[u8]) -> Vec<i32> {
    let word = |event: &[u8], at: usize| -> Option<[u8; 4]> {
        event.get(at..at + 4).and_then(|word| word.try_into().ok())
    };
    let mut found = Vec::new();
    while events.len() >= EVENT_SIZE {
        let Some(length) = word(events, LENGTH_AT).map(u32::from_ne_bytes) else {
            break;
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length < EVENT_SIZE || length > events.len() {
            break;
        }
        let descriptor = word(events, DESCRIPTOR_AT).map(i32::from_ne_bytes);
        if events[VERSION_AT] == libc::FANOTIFY_METADATA_VERSION {
            found.extend(descriptor.filter(|descriptor| *descriptor >= 0));
        }
        events = &events[length..];
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn event(length: u32, descriptor: i32) -> Vec<u8> {
        let mut event = vec![0; EVENT_SIZE];
        event[..4].copy_from_slice(&length.to_ne_bytes());
        event[VERSION_AT] = libc::FANOTIFY_METADATA_VERSION;
        event[DESCRIPTOR_AT..DESCRIPTOR_AT + 4].copy_from_slice(&descriptor.to_ne_bytes());
        event
    }

    #[test]
    fn reads_events_and_stops_at_odd_ones() {
        let events = [event(24, 7), event(24, -1), event(24, 9)].concat();
        assert_eq!(descriptors(&events), [7, 9]);
        assert_eq!(descriptors(&[event(24, 7), event(8, 9)].concat()), [7]);
        assert_eq!(descriptors(&event(25, 7)), []);
        assert_eq!(descriptors(&events[..30]), [7]);
    }

    #[test]
    fn a_reader_waits_until_it_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        let asked = match Asked::new() {
            Ok(asked) => asked,
            Err(error) => {
                eprintln!("skipped: fanotify: {error}");
                return;
            }
        };
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        asked.watch(&file).unwrap();
        let reader = std::thread::spawn(move || fs::read_to_string(path).unwrap());
        poll(&mut [PollFd::new(&asked, PollFlags::IN)], None).unwrap();
        file.write_all(b"new").unwrap();
        asked.unwatch(&file).unwrap();
        asked.answer_all().unwrap();
        assert_eq!(reader.join().unwrap(), "new");
        // Later reads cause no event, and without a listener they do not wait either.
        let path = dir.path().join("file");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        asked.watch(&file).unwrap();
        drop(asked);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }
}
