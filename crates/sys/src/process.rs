//! Starts processes in new namespaces and cgroups, and programs in them.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

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
    /// All namespaces that a process of a zone joins.
    pub const ALL: u64 = USER | PID | MOUNT | UTS | IPC | NET | CGROUP | TIME;
}

/// A child process.
#[derive(Debug)]
pub struct Child {
    /// The pid in the caller's pid namespace.
    pub pid: i32,
    /// A pidfd, which refers to this process even if its pid is reused.
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

/// Starts a child process in the namespaces `flags` (see [`ns`]) and, if given, in the cgroup whose
/// folder is open as `cgroup`. The child runs `body` and exits with its result. The child has the
/// standard streams, and copies of `keep` with the same numbers. `body` must not use any other
/// descriptor.
///
/// # Errors
/// Fails with the error of clone3(2). Fails with `EBUSY` if the caller has more than one thread:
/// the child would have a copy of the locks of the other threads, and no thread to release them.
/// Waits about a second for threads that have just ended.
pub fn fork(
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
    keep: &[BorrowedFd<'_>],
    body: impl FnOnce() -> u8,
) -> io::Result<Child> {
    wait_for_threads()?;
    // SAFETY: the caller has one thread (checked above). Therefore each lock in the child is either
    // free or held by this thread, which exists in the child.
    match unsafe { clone3(flags, libc::SIGCHLD, cgroup)? } {
        Some(child) => Ok(child),
        None => {
            close_all_but(keep);
            let status = body();
            exit_now(status)
        }
    }
}

/// Sets the arguments that /proc/PID/cmdline shows for this process, where ps(1) and pgrep(1) read
/// them. The text stays in memory until the process ends.
///
/// # Errors
/// Fails with the error of prctl(2): EPERM without CAP_SYS_RESOURCE, EINVAL if the kernel lacks it.
pub fn show_as(text: CString) -> io::Result<()> {
    let text: &'static [u8] = Box::leak(text.into_bytes_with_nul().into_boxed_slice());
    let range = text.as_ptr_range();
    let none: libc::c_ulong = 0;
    let set = |what: libc::c_int, address: *const u8| {
        let what = libc::c_ulong::from(what.unsigned_abs());
        // SAFETY: the kernel stores the address as a number, and only reads the text at this
        // address. The text is never freed.
        match unsafe { libc::prctl(libc::PR_SET_MM, what, address, none, none) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let start = || set(libc::PR_SET_MM_ARG_START, range.start);
    let end = || set(libc::PR_SET_MM_ARG_END, range.end);
    // The kernel requires that the start is never behind the end, so the order of the two calls
    // depends on the addresses.
    start().and_then(|()| end()).or_else(|_| {
        end()?;
        start()
    })
}

/// Number of looks at the threads before a second thread counts as one that stays. They take a second;
/// on a busy machine, where the thread that ends waits for a processor, they take longer.
const THREAD_END_LOOKS: u32 = 10_000;

/// Waits until the caller is the only thread of its process. A joined thread still counts for a
/// moment: the kernel wakes the joining thread before it has released the other (kernel/exit.c:
/// exit_mm before release_task).
fn wait_for_threads() -> io::Result<()> {
    for _ in 0..THREAD_END_LOOKS {
        if crate::thread_count()? == 1 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
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

/// The file of a program.
#[derive(Debug)]
pub enum Executable {
    /// An open descriptor, so that no path is looked up. The file cannot be a script, because the
    /// interpreter would have no name with which to open it.
    Open(OwnedFd),
    /// A path, which is looked up at exec.
    Path(CString),
}

impl Executable {
    /// The arguments of execveat(2): the folder or file, the path relative to it, and the flags.
    fn parts(&self) -> (RawFd, *const libc::c_char, libc::c_int) {
        match self {
            Self::Open(file) => (file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH),
            Self::Path(path) => (libc::AT_FDCWD, path.as_ptr(), 0),
        }
    }
}

/// A program to start. Everything is prepared before the process is created.
#[derive(Debug)]
pub struct Program {
    /// The file of the program.
    pub executable: Executable,
    /// The arguments, with the name of the program first.
    pub arguments: Vec<CString>,
    /// The environment, as `NAME=value`.
    pub environment: Vec<CString>,
}

impl Program {
    /// Executes the program in the calling process, which keeps its standard streams and no other
    /// descriptor. Returns only on failure.
    #[must_use]
    pub fn exec(&self) -> io::Error {
        self.exec_with_blocked(&[])
    }

    /// Does the same as [`Program::exec`] for a program that waits for these signals. A signal that
    /// arrives before the program waits is not lost.
    #[must_use]
    pub fn exec_with_blocked(&self, signals: &[i32]) -> io::Error {
        // SAFETY: close_range only marks descriptors here. Descriptors that this program still uses
        // stay open until it executes the new program.
        unsafe {
            let marked = libc::syscall(
                libc::SYS_close_range,
                3 as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            // If the descriptors cannot be marked, the program is not executed, because it must not
            // get them.
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

    /// Does the same as [`Program::exec`], and passes `pass` to the program as descriptors 3, 4,
    /// ...
    #[must_use]
    pub fn exec_passing(&self, pass: &[BorrowedFd<'_>]) -> io::Error {
        self.exec_passing_with_blocked(pass, &[])
    }

    /// Does the same as [`Program::exec_passing`] for a program that waits for these signals.
    #[must_use]
    pub fn exec_passing_with_blocked(&self, pass: &[BorrowedFd<'_>], signals: &[i32]) -> io::Error {
        let count = RawFd::try_from(pass.len() + 3).unwrap_or(RawFd::MAX);
        let (mut folder, path, flags) = self.executable.parts();
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        // SAFETY: the descriptors are first copied to numbers above the final ones, and then to the
        // final ones. The former owners of the final numbers are not used any more, because the
        // process executes the new program or ends.
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

    /// Starts the program as a daemon: in a session of its own, in `cgroup` if given, with standard
    /// output on `output`, standard error on `errors`, the other streams (and those that are not
    /// given) on /dev/null, and `pass` as descriptors 3, 4, ... The caller may have threads.
    ///
    /// # Errors
    /// Fails if the process cannot be created. If the program cannot be executed, the process ends
    /// with exit status 127.
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
        // SAFETY: the child only makes system calls with the data that is prepared above. It
        // allocates no memory and takes no lock, so other threads do not matter.
        if let Some(child) = unsafe { clone3(0, libc::SIGCHLD, cgroup)? } {
            return Ok(child);
        }
        // SAFETY: the child makes plain system calls on descriptors and prepared arrays. It ends in
        // exec or _exit, and never returns to the caller's code.
        unsafe {
            libc::setsid();
            // First the descriptors move to numbers above the final ones, and then to the final
            // ones.
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

/// Duplicates a descriptor to a number from `floor` up. Ends the process on failure.
///
/// # Safety
/// Call this function only in a process that will execute a program or end.
unsafe fn moved_up(fd: RawFd, floor: RawFd) -> RawFd {
    // SAFETY: fcntl copies a descriptor, and the kernel chooses a free number for the copy.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor) };
    if copy < 0 {
        exit_now(126);
    }
    copy
}

/// Returns the array of pointers for exec, with the null pointer at its end.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Makes a broken pipe end the program, as is usual for commands.
pub fn restore_sigpipe() {
    // SAFETY: the call sets the default action, and no signal handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Sends a signal by its number, which may be a real-time signal.
///
/// # Errors
/// Fails with the error of pidfd_send_signal(2).
pub fn send_signal(pidfd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: the call takes numbers and a null pointer, and touches no memory of this process.
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

/// Ends the process at once, and runs no exit handler of the program.
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
    // SAFETY: both arrays end with a null pointer, which `pointers` adds. All other pointers lead
    // to strings that exist until the call replaces the process or fails. The signal calls change
    // only settings that the process inherited: the new program starts with only the signals of
    // `blocked` blocked, and with none ignored (Rust programs ignore SIGPIPE). The kernel refuses
    // signal numbers that cannot be set.
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

/// Creates a process with clone3(2). Returns `None` in the child.
///
/// # Safety
/// The child may be a copy of a program with several threads. Until the child executes another
/// program, it may do only what is allowed in a signal handler.
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
    // SAFETY: `args` is a whole clone_args of the size given, and `pidfd` exists during the call.
    // No stack is passed, so the child continues on its own copy of the caller's stack.
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
        // Descriptor 4 is the folder that ls reads.
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
