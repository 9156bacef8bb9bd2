//! Processes in new namespaces and cgroups, and programs started in them.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

/// Namespaces of [`fork`], as in clone(2).
pub mod ns {
    /// User ids.
    pub const USER: u64 = libc::CLONE_NEWUSER as u64;
    /// Process ids.
    pub const PID: u64 = libc::CLONE_NEWPID as u64;
    /// Mounts.
    pub const MOUNT: u64 = libc::CLONE_NEWNS as u64;
    /// Host name.
    pub const UTS: u64 = libc::CLONE_NEWUTS as u64;
    /// System V IPC and message queues.
    pub const IPC: u64 = libc::CLONE_NEWIPC as u64;
    /// Network.
    pub const NET: u64 = libc::CLONE_NEWNET as u64;
    /// The view of the cgroup tree.
    pub const CGROUP: u64 = libc::CLONE_NEWCGROUP as u64;
    /// Monotonic and boot clocks, for children of the caller.
    pub const TIME: u64 = 0x80;
    /// Everything that a process of a zone joins.
    pub const ALL: u64 = USER | PID | MOUNT | UTS | IPC | NET | CGROUP | TIME;
}

/// A child process.
#[derive(Debug)]
pub struct Child {
    /// As the caller's pid namespace numbers it.
    pub pid: i32,
    /// Refers to this very process, whatever happens to the number.
    pub pidfd: OwnedFd,
}

/// The kernel's `struct clone_args`, version 2 (Linux 5.7).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Starts a child in the namespaces `flags` (see [`ns`]) and, when given, in the cgroup whose
/// folder is open as `cgroup`. The child runs `body` and exits with its result. It has the standard
/// streams and copies of `keep` under the same numbers, and no other descriptor: `body` must not
/// use any.
///
/// # Errors
/// Fails with the error of clone3(2); with `EBUSY` if the caller has more than one thread, because
/// the child would have a copy of the others' locks and no thread to release them. Threads that
/// have ended are waited for, up to [`THREAD_END_TIMEOUT`].
pub fn fork(
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
    keep: &[BorrowedFd<'_>],
    body: impl FnOnce() -> u8,
) -> io::Result<Child> {
    wait_for_threads()?;
    // SAFETY: the caller has one thread (checked above), so the child is a whole
    // copy of a program whose every lock is free or held by the copied thread.
    match unsafe { clone3(flags, libc::SIGCHLD, cgroup)? } {
        Some(child) => Ok(child),
        None => {
            close_all_but(keep);
            let status = body();
            exit_now(status)
        }
    }
}

/// Shows other arguments of this process in /proc/PID/cmdline, where ps(1) and pgrep(1) read them.
/// The text stays in memory until the process ends.
///
/// # Errors
/// Fails with the error of prctl(2): EPERM without CAP_SYS_RESOURCE, EINVAL if the kernel lacks it.
pub fn show_as(text: CString) -> io::Result<()> {
    let text: &'static [u8] = Box::leak(text.into_bytes_with_nul().into_boxed_slice());
    let range = text.as_ptr_range();
    let none: libc::c_ulong = 0;
    let set = |what: libc::c_int, address: *const u8| {
        let what = libc::c_ulong::from(what.unsigned_abs());
        // SAFETY: the kernel takes the address as a number, and only shows what is there, which
        // is never freed.
        match unsafe { libc::prctl(libc::PR_SET_MM, what, address, none, none) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let start = || set(libc::PR_SET_MM_ARG_START, range.start);
    let end = || set(libc::PR_SET_MM_ARG_END, range.end);
    // The start may never be behind the end: which way to go first depends on the places.
    start().and_then(|()| end()).or_else(|_| {
        end()?;
        start()
    })
}

/// Timeout for the kernel to release a thread that was joined.
const THREAD_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits until the caller is the only thread of its process. A thread that joins another is woken
/// before the kernel has released that one (kernel/exit.c: exit_mm before release_task), and until
/// then the thread counts.
fn wait_for_threads() -> io::Result<()> {
    let end = Instant::now() + THREAD_END_TIMEOUT;
    while crate::thread_count()? != 1 {
        if Instant::now() >= end {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Closes every descriptor from 3 up that is not in `keep`.
fn close_all_but(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = keep
        .iter()
        .filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok())
        .collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().chain([u32::MAX]) {
        if number > first {
            // SAFETY: only called in a child that `fork` has just made. Values that
            // own these descriptors exist there, too, but are never used or dropped:
            // the child ends in exec or exit.
            unsafe { libc::syscall(libc::SYS_close_range, first, number - 1, 0) };
        }
        first = first.max(number.saturating_add(1));
    }
}

/// The location of a program's file.
#[derive(Debug)]
pub enum Executable {
    /// Open already; no path is looked up. It cannot be a script: the interpreter
    /// would have no name to open it by.
    Open(OwnedFd),
    /// Looked up when it is executed.
    Path(CString),
}

impl Executable {
    /// The folder or file to start from, the path from there, and how to take it.
    fn parts(&self) -> (RawFd, *const libc::c_char, libc::c_int) {
        match self {
            Self::Open(file) => (file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH),
            Self::Path(path) => (libc::AT_FDCWD, path.as_ptr(), 0),
        }
    }
}

/// A program to start, with everything prepared before the process is made.
#[derive(Debug)]
pub struct Program {
    /// The executable.
    pub executable: Executable,
    /// Arguments, the program's own name first.
    pub arguments: Vec<CString>,
    /// `NAME=value`.
    pub environment: Vec<CString>,
}

impl Program {
    /// Replaces the calling process, which keeps its standard streams and no other
    /// descriptor. Returns only when that failed.
    #[must_use]
    pub fn exec(&self) -> io::Error {
        self.exec_with_blocked(&[])
    }

    /// [`Program::exec`] of a program that waits for these signals: those that come
    /// before it does so are not lost.
    #[must_use]
    pub fn exec_with_blocked(&self, signals: &[i32]) -> io::Error {
        // SAFETY: marks descriptors; those that this program still uses stay open
        // until the new one begins.
        unsafe {
            let marked = libc::syscall(
                libc::SYS_close_range,
                3 as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            // Better no program than one with descriptors it must not have.
            if marked < 0 {
                return io::Error::last_os_error();
            }
        }
        exec_raw(
            self.executable.parts(),
            &pointers(&self.arguments),
            &pointers(&self.environment),
            signals,
        )
    }

    /// [`Program::exec`] of a program that gets `pass` as descriptors 3, 4, ...
    #[must_use]
    pub fn exec_passing(&self, pass: &[BorrowedFd<'_>]) -> io::Error {
        self.exec_passing_with_blocked(pass, &[])
    }

    /// [`Program::exec_passing`] of a program that waits for these signals.
    #[must_use]
    pub fn exec_passing_with_blocked(&self, pass: &[BorrowedFd<'_>], signals: &[i32]) -> io::Error {
        let count = RawFd::try_from(pass.len() + 3).unwrap_or(RawFd::MAX);
        let (mut folder, path, flags) = self.executable.parts();
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        // SAFETY: copies of descriptors, first out of the way of the numbers that are taken and
        // then into place. The former owners of those numbers are not used any more: the process
        // executes the new program, or ends.
        unsafe {
            if folder >= 0 {
                folder = moved_up(folder, count);
            }
            let moved: Vec<RawFd> = pass
                .iter()
                .map(|fd| moved_up(fd.as_raw_fd(), count))
                .collect();
            for (fd, number) in moved.iter().zip(3..) {
                if libc::dup2(*fd, number) < 0 {
                    return io::Error::last_os_error();
                }
            }
            let marked = libc::syscall(
                libc::SYS_close_range,
                count as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            if marked < 0 {
                return io::Error::last_os_error();
            }
        }
        exec_raw((folder, path, flags), &arguments, &environment, signals)
    }

    /// Starts the program as a daemon: in a session of its own, in `cgroup` when
    /// given, standard output on `output`, standard error on `errors`, the other streams
    /// (and those that are not given) on /dev/null, and `pass` as descriptors 3, 4, ...
    /// Threads of the caller do not matter.
    ///
    /// # Errors
    /// When the process cannot be made. That the program cannot be executed shows
    /// as exit status 127.
    pub fn spawn_daemon(
        &self,
        cgroup: Option<BorrowedFd<'_>>,
        output: Option<BorrowedFd<'_>>,
        errors: Option<BorrowedFd<'_>>,
        pass: &[BorrowedFd<'_>],
    ) -> io::Result<Child> {
        let null = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        let or_null = |fd: Option<BorrowedFd<'_>>| fd.map_or(null.as_raw_fd(), |fd| fd.as_raw_fd());
        let streams = [null.as_raw_fd(), or_null(output), or_null(errors)];
        let mut wanted: Vec<RawFd> = streams
            .into_iter()
            .chain(pass.iter().map(AsRawFd::as_raw_fd))
            .collect();
        let count = RawFd::try_from(wanted.len()).unwrap_or(RawFd::MAX);
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        let (mut folder, path, flags) = self.executable.parts();
        // SAFETY: the child only makes system calls on what was prepared above: it
        // allocates nothing and takes no lock, so other threads do not matter.
        if let Some(child) = unsafe { clone3(0, libc::SIGCHLD, cgroup)? } {
            return Ok(child);
        }
        // SAFETY: plain system calls on descriptors and prepared arrays; the child
        // ends in exec or _exit and never returns to the caller's code.
        unsafe {
            libc::setsid();
            // First out of the way of the numbers that will be taken, then into place.
            if folder >= 0 {
                folder = moved_up(folder, count);
            }
            for fd in &mut wanted {
                *fd = moved_up(*fd, count);
            }
            for (fd, number) in wanted.iter().zip(0..) {
                if libc::dup2(*fd, number) < 0 {
                    libc::_exit(126);
                }
            }
            libc::syscall(
                libc::SYS_close_range,
                count as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            exec_raw((folder, path, flags), &arguments, &environment, &[]);
            libc::_exit(127)
        }
    }
}

/// A copy of a descriptor at some number from `floor` up; ends the process without it.
///
/// # Safety
/// To be called in a child that is about to execute a program.
unsafe fn moved_up(fd: RawFd, floor: RawFd) -> RawFd {
    // SAFETY: copies a descriptor; the new number is free by the kernel's choice.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor) };
    if copy < 0 {
        exit_now(126);
    }
    copy
}

/// The array of pointers that exec takes, with the null at its end.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Lets a broken pipe end the program, as is the custom of commands.
pub fn restore_sigpipe() {
    // SAFETY: sets a default action; no handler of ours is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Sends a signal by its number, real-time signals included.
///
/// # Errors
/// Fails with the error of pidfd_send_signal(2).
pub fn send_signal(pidfd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: the call takes numbers and a null pointer: no memory of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            number,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Ends the process at once, running nothing of the program's on the way.
pub fn exit_now(status: u8) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(libc::c_int::from(status)) }
}

fn exec_raw(
    (folder, path, flags): (RawFd, *const libc::c_char, libc::c_int),
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    blocked: &[i32],
) -> io::Error {
    // SAFETY: both arrays end with a null pointer (their makers see to it) and all others point to
    // strings that live until the call replaces the process or fails. The signal calls only change
    // what this process inherited: the new program starts with no signal blocked but these and none
    // ignored, whatever the caller had set (SIGPIPE is one that Rust ignores). Numbers that cannot
    // be set are refused.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        for &number in blocked {
            libc::sigaddset(&raw mut mask, number);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut());
        crate::signals::reset_all();
        libc::syscall(
            libc::SYS_execveat,
            folder,
            path,
            arguments.as_ptr(),
            environment.as_ptr(),
            flags,
        );
    }
    io::Error::last_os_error()
}

/// `None` in the child.
///
/// # Safety
/// The child is a copy of a possibly multi-threaded program: until it executes
/// another one it may only do what is safe in a signal handler, unless the
/// caller has a single thread.
pub(crate) unsafe fn clone3(
    flags: u64,
    exit_signal: libc::c_int,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Option<Child>> {
    const CLONE_PIDFD: u64 = libc::CLONE_PIDFD as u64;
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: RawFd = -1;
    let mut args = CloneArgs {
        flags: flags | CLONE_PIDFD,
        pidfd: &raw mut pidfd as u64,
        exit_signal: exit_signal as u64,
        ..CloneArgs::default()
    };
    if let Some(folder) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = folder.as_raw_fd() as u64;
    }
    // SAFETY: `args` is a whole clone_args of the size given; `pidfd` outlives the
    // call; no stack is given, so the child continues on its copy of ours.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<CloneArgs>()) };
    match pid {
        0 => Ok(None),
        pid if pid > 0 => {
            // SAFETY: the kernel stored a new descriptor that no other value owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Some(Child {
                pid: pid as i32,
                pidfd,
            }))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::os::fd::AsFd;

    fn status(child: &Child) -> Option<i32> {
        waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
            .unwrap()?
            .exit_status()
    }

    #[test]
    fn a_daemon_gets_its_descriptors_and_no_others() {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        let shell = Program {
            executable: Executable::Open(std::fs::File::open("/bin/sh").unwrap().into()),
            arguments: [c"sh", c"-c", c"echo $X >&3; exec ls -x /proc/self/fd >&3"]
                .map(CString::from)
                .into(),
            environment: vec![c"X=y".into(), c"PATH=/bin".into()],
        };
        let child = shell
            .spawn_daemon(None, None, None, &[theirs.as_fd()])
            .unwrap();
        drop(theirs);
        let text = std::io::read_to_string(std::fs::File::from(ours)).unwrap();
        assert_eq!(status(&child), Some(0));
        let words: Vec<_> = text.split_whitespace().collect();
        // 4 is the folder that ls reads.
        assert_eq!(words, ["y", "0", "1", "2", "3", "4"]);
    }

    #[test]
    fn descriptors_at_the_numbers_in_between_do_no_harm() {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        let _crowd: Vec<_> = (0..100)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let shell = Program {
            executable: Executable::Path(c"/bin/sh".into()),
            arguments: [c"sh", c"-c", c"echo here >&4"].map(CString::from).into(),
            environment: vec![],
        };
        let null = std::fs::File::open("/dev/null").unwrap();
        let child = shell
            .spawn_daemon(None, None, None, &[null.as_fd(), theirs.as_fd()])
            .unwrap();
        drop(theirs);
        assert_eq!(
            std::io::read_to_string(std::fs::File::from(ours)).unwrap(),
            "here\n"
        );
        assert_eq!(status(&child), Some(0));
    }

    #[test]
    fn a_program_that_cannot_run_is_127() {
        let nothing = Program {
            executable: Executable::Path(c"/dev/null".into()),
            arguments: vec![],
            environment: vec![],
        };
        assert_eq!(
            status(&nothing.spawn_daemon(None, None, None, &[]).unwrap()),
            Some(127)
        );
    }

    #[test]
    fn fork_refuses_a_program_of_several_threads() {
        // The test harness itself has threads.
        let error = fork(0, None, &[], || 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    }
}
