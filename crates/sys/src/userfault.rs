//! Answers page faults of a process from another thread or process: userfaultfd(2), for shared
//! memory.
//!
//! A thread that touches a missing page of an armed range stops. The thread continues after the
//! page is [published](Userfault::publish), when the page is in the file, or after the page is
//! mapped as [zero](Userfault::zero).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const PAGE: u64 = 4096;

// Numbers of linux/userfaultfd.h, which are part of the kernel's interface.
const API: u64 = 0xaa;
#[cfg(target_arch = "x86_64")]
const USERFAULTFD_IOC_NEW: u64 = 0xaa00;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_WAKE: u64 = 0x8010_aa02;
const UFFDIO_ZEROPAGE: u64 = 0xc020_aa04;
const UFFDIO_CONTINUE: u64 = 0xc020_aa07;
const FEATURE_MISSING_SHMEM: u64 = 1 << 5;
const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
const MODE_MISSING: u64 = 1;
const MODE_MINOR: u64 = 1 << 2;
const EVENT_PAGEFAULT: u64 = 0x12;
const USER_MODE_ONLY: libc::c_int = 1;
/// The size of a message of userfaultfd, in bytes.
const MESSAGE: usize = 32;

/// The page faults that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Faults of the program and of its system calls. Most hosts require a privilege for this
    /// value.
    Everybody,
    /// Faults of the program, but not of its system calls. A system call that touches a missing
    /// page fails.
    Programs,
}

/// A descriptor from which page faults are read.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Userfault {
    /// Uses the descriptor of another process, which must be nonblocking. The descriptor arms
    /// ranges of the memory of that process.
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

/// The device that creates such descriptors, without a privilege, for every process that has it
/// open; since Linux 6.1.
pub const DEVICE: &str = "/dev/userfaultfd";

impl Userfault {
    /// Returns a descriptor for the memory of a stopped process. The process creates the descriptor
    /// with its open descriptor `device`, which is then closed. The process keeps the new
    /// descriptor under the number that is returned too, so that armed ranges stay armed when the
    /// caller ends.
    ///
    /// # Errors
    /// Fails with the error of ioctl(2) or pidfd_getfd(2).
    #[cfg(target_arch = "x86_64")]
    pub fn of(
        process: &mut crate::remote::Stopped,
        pidfd: BorrowedFd<'_>,
        device: i32,
    ) -> io::Result<(Self, i32)> {
        let device = u64::try_from(device).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = u64::try_from(libc::O_CLOEXEC | libc::O_NONBLOCK).unwrap_or(0);
        let made = process.call(libc::SYS_ioctl, [device, USERFAULTFD_IOC_NEW, flags]);
        process.call(libc::SYS_close, [device, 0, 0])?;
        let number = i32::try_from(made?).map_err(|_| io::ErrorKind::InvalidData)?;
        let flags = rustix::process::PidfdGetfdFlags::empty();
        let ours = rustix::process::pidfd_getfd(pidfd, number, flags)?;
        Ok((Self(ours), number))
    }

    /// Returns a descriptor for the memory of this process.
    ///
    /// # Errors
    /// Fails with EPERM without the privilege that [`Whose`] needs, and with ENOSYS if the kernel
    /// has no userfaultfd.
    pub fn new(whose: Whose) -> io::Result<Self> {
        let flags = libc::O_CLOEXEC
            | libc::O_NONBLOCK
            | match whose {
                Whose::Everybody => 0,
                Whose::Programs => USER_MODE_ONLY,
            };
        // SAFETY: userfaultfd(2) takes a number and no pointer.
        let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let descriptor = libc::c_int::try_from(descriptor).unwrap_or(-1);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and no other value owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Negotiates the needed features with the kernel: missing and minor faults of shared memory.
    /// Each descriptor needs this call exactly once, before every other call.
    ///
    /// # Errors
    /// Fails with EINVAL if the kernel is older than 5.14, or after an earlier call.
    pub fn agree(&self) -> io::Result<()> {
        let mut words = [API, FEATURE_MISSING_SHMEM | FEATURE_MINOR_SHMEM, 0];
        self.call(UFFDIO_API, &mut words)
    }

    /// Arms a range of whole pages of a shared mapping.
    ///
    /// # Errors
    /// Fails with the error of ioctl_userfaultfd(2).
    pub fn arm(&self, address: u64, length: u64) -> io::Result<()> {
        let mut words = [address, length, MODE_MISSING | MODE_MINOR, 0];
        self.call(UFFDIO_REGISTER, &mut words)
    }

    /// Disarms a range: the kernel handles its faults again, and waiting threads continue.
    ///
    /// The kernel wakes the waiting threads before it takes the lock of the mapping (Linux 6.18 at
    /// least, because faults need only that lock). A thread with a fault in between would wait
    /// forever, so all threads are woken once more afterwards.
    ///
    /// # Errors
    /// Fails with the error of ioctl_userfaultfd(2).
    pub fn disarm(&self, address: u64, length: u64) -> io::Result<()> {
        let let_go = self.call(UFFDIO_UNREGISTER, &mut [address, length]);
        let woken = self.wake(address, length);
        let_go.and(woken)
    }

    /// Maps pages that are in the file. Pages that are already mapped do not change.
    ///
    /// # Errors
    /// Fails with EFAULT if a page is not in the file, and with ESRCH if the process has ended.
    pub fn publish(&self, address: u64, length: u64) -> io::Result<()> {
        self.each(UFFDIO_CONTINUE, address, length)
    }

    /// Maps zeros for pages that the file does not have. A page that is already mapped does not
    /// change. Fails with EEXIST for a page that the file has.
    ///
    /// # Errors
    /// Fails with the error of ioctl_userfaultfd(2).
    pub fn zero(&self, address: u64) -> io::Result<()> {
        let mut words = [address, PAGE, 0, 0];
        loop {
            match self.call(UFFDIO_ZEROPAGE, &mut words) {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                result => return result,
            }
        }
    }

    /// Wakes the threads that wait for pages of a range. [`Userfault::publish`] and
    /// [`Userfault::zero`] do this as well, but not for pages that are already mapped.
    ///
    /// # Errors
    /// Fails with the error of ioctl_userfaultfd(2).
    pub fn wake(&self, address: u64, length: u64) -> io::Result<()> {
        self.call(UFFDIO_WAKE, &mut [address, length])
    }

    /// Returns the address of the page of the next waiting fault, if there is one.
    ///
    /// # Errors
    /// Fails with the error of read(2).
    pub fn fault(&self) -> io::Result<Option<u64>> {
        let mut message = [0; MESSAGE];
        loop {
            match rustix::io::read(&self.0, &mut message) {
                Ok(MESSAGE) => {}
                Ok(_) | Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let word = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&message[at..at + 8]);
                u64::from_ne_bytes(bytes)
            };
            // Only page faults were requested, so other events are ignored.
            if u64::from(message[0]) == EVENT_PAGEFAULT {
                return Ok(Some(word(16) & !(PAGE - 1)));
            }
        }
    }

    /// An operation on the pages of a range that may stop before the end of the range.
    fn each(&self, operation: u64, address: u64, length: u64) -> io::Result<()> {
        let (mut at, end) = (address, address.saturating_add(length));
        while at < end {
            let mut words = [at, end - at, 0, 0];
            let Err(error) = self.call(operation, &mut words) else {
                return Ok(());
            };
            let code = error.raw_os_error();
            // The number of bytes that are done, or a negative error number.
            let done = i64::from_ne_bytes(words[3].to_ne_bytes());
            match (u64::try_from(done), code) {
                (Ok(done), Some(libc::EAGAIN | libc::EEXIST)) if done > 0 => at += done,
                (_, Some(libc::EAGAIN)) => {}
                (_, Some(libc::EEXIST)) => at += PAGE,
                _ => return Err(error),
            }
        }
        Ok(())
    }

    fn call<const N: usize>(&self, operation: u64, words: &mut [u64; N]) -> io::Result<()> {
        // The type of the request number differs between C libraries, but the bits are the same.
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
        let operation = operation as _;
        // SAFETY: the callers above pass an array that is at least as long as the structure of the
        // operation, which has only 64-bit fields. The kernel checks the ranges.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), operation, words.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use std::time::{Duration, Instant};

    fn ours() -> Option<Userfault> {
        let made = Userfault::new(Whose::Programs).and_then(|one| one.agree().map(|()| one));
        if let Err(error) = &made {
            println!("skipped: no userfaultfd here: {error}");
        }
        made.ok()
    }

    fn next(faults: &Userfault) -> u64 {
        let began = Instant::now();
        loop {
            if let Some(address) = faults.fault().unwrap() {
                return address;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no fault came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tests the order of wake and unregister on the real kernel. A model of the pager (loom,
    /// shuttle) would not find this error: the threads that could wait forever wait in the kernel.
    /// The pager's own code has one compare-and-swap for each chunk, and no lock that is held while
    /// a thread waits.
    #[test]
    fn no_thread_waits_for_an_unregistered_range() {
        let Some(faults) = ours() else { return };
        for round in 0..400 {
            let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&file, PAGE).unwrap();
            let guest = Mapping::new(file.as_fd(), 4096).unwrap();
            let at = guest.address();
            faults.arm(at, PAGE).unwrap();
            let goes = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    goes.store(true, std::sync::atomic::Ordering::Release);
                    let mut byte = [0xff];
                    guest.read(0, &mut byte).unwrap();
                    byte[0]
                });
                while !goes.load(std::sync::atomic::Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                // Some faults come before the range is disarmed, some after it, and some at the
                // same time.
                for _ in 0..round * 7 {
                    std::hint::spin_loop();
                }
                faults.disarm(at, PAGE).unwrap();
                let began = Instant::now();
                while !reader.is_finished() && began.elapsed() < Duration::from_secs(30) {
                    std::thread::sleep(Duration::from_micros(50));
                }
                let ended = reader.is_finished();
                // This limit ends a test that fails.
                faults.wake(at, PAGE).unwrap();
                assert!(ended, "round {round}: a thread waits for ever");
                assert_eq!(reader.join().unwrap(), 0);
            });
        }
    }

    #[test]
    fn faults_are_answered_with_pages_and_zeros() {
        let Some(faults) = ours() else { return };
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4 * PAGE).unwrap();
        let length = 4 * 4096;
        let guest = Mapping::new(file.as_fd(), length).unwrap();
        let ours = Mapping::new(file.as_fd(), length).unwrap();
        let at = guest.address();
        faults.arm(at, 4 * PAGE).unwrap();
        assert!(faults.fault().unwrap().is_none());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut bytes = [0xff; 4];
                for (page, byte) in bytes.iter_mut().enumerate() {
                    let mut one = [0xff];
                    guest.read(page * 4096, &mut one).unwrap();
                    *byte = one[0];
                }
                bytes
            });
            assert_eq!(next(&faults), at);
            ours.write(0, &[1; 8192]).unwrap();
            // Two pages are published at once, so the second page is read without a fault.
            faults.publish(at, 2 * PAGE).unwrap();
            assert_eq!(next(&faults), at + 2 * PAGE);
            let missing = faults.publish(at + 2 * PAGE, PAGE).unwrap_err();
            assert_eq!(missing.raw_os_error(), Some(libc::EFAULT));
            faults.zero(at + 2 * PAGE).unwrap();
            // Pages that are mapped do not change.
            faults.publish(at, 3 * PAGE).unwrap();
            assert_eq!(next(&faults), at + 3 * PAGE);
            faults.disarm(at, 4 * PAGE).unwrap();
            assert_eq!(reader.join().unwrap(), [1, 1, 0, 0]);
        });
    }
}
