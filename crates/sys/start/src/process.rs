//! Processes: start, reap, and the end of it all.

use core::ffi::{CStr, c_char};
use core::ptr;

use crate::call::{Errno, check, nr, syscall};
use crate::signal::{SignalSet, block};

/// Maximum number of arguments, or of environment variables, of a program that is started here.
const MAX_WORDS: usize = 8;

/// The result of [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// This child ended, with a status as wait(2) encodes it.
    Child(i32, i32),
    /// Children live, none has ended.
    NoneEnded,
    /// There is no child.
    NoChild,
}

/// The ways to end the machine, or the pid namespace: there the kernel kills all processes, and
/// process 1 is seen to die of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// Off; process 1 dies of SIGINT.
    Off,
    /// Starts anew; process 1 dies of SIGHUP.
    Restart,
}

/// The number of this process in its pid namespace.
#[must_use]
pub fn pid() -> i32 {
    // SAFETY: getpid(2) takes nothing and touches no memory.
    let pid = unsafe { syscall(nr::GETPID, [0; 5]) };
    // It fits: process numbers are below 2^22.
    pid as i32
}

/// Milliseconds of a clock that only goes forward.
#[must_use]
pub fn clock_ms() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    let place = &raw mut time;
    // SAFETY: `place` points at a timespec of two 64-bit words.
    unsafe {
        syscall(
            nr::CLOCK_GETTIME,
            [CLOCK_MONOTONIC, place.expose_provenance(), 0, 0, 0],
        )
    };
    time[0] * 1000 + time[1] / 1_000_000
}

/// Sets the mask of modes for new files.
pub fn set_umask(mask: u16) {
    // SAFETY: umask(2) takes a number and touches no memory.
    unsafe { syscall(nr::UMASK, [usize::from(mask), 0, 0, 0, 0]) };
}

/// Makes `path` the working folder.
///
/// # Errors
/// The kernel's word.
pub fn change_dir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path ends in a zero byte.
    check(unsafe { syscall(nr::CHDIR, [path.as_ptr().expose_provenance(), 0, 0, 0, 0]) })
        .map(|_| ())
}

/// True when `path` is a program this process may run.
#[must_use]
pub fn is_executable(path: &CStr) -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    const X_OK: usize = 1;
    let args = [AT_FDCWD, path.as_ptr().expose_provenance(), X_OK, 0, 0];
    // SAFETY: the path ends in a zero byte.
    check(unsafe { syscall(nr::FACCESSAT, args) }).is_ok()
}

/// Writes to an open file, as far as it goes: for messages on a console, whose failure cannot be
/// reported.
pub fn write(fd: u8, bytes: &[u8]) {
    let args = [
        usize::from(fd),
        bytes.as_ptr().expose_provenance(),
        bytes.len(),
        0,
        0,
    ];
    // SAFETY: pointer and length are those of one slice.
    unsafe { syscall(nr::WRITE, args) };
}

/// Gives up the controlling terminal, if standard input is one: the keys of a
/// console must not signal this process.
pub fn forget_terminal() {
    const TIOCNOTTY: usize = 0x5422;
    // SAFETY: this request takes no argument.
    unsafe { syscall(nr::IOCTL, [0, TIOCNOTTY, 0, 0, 0]) };
}

/// Keeps an open file to this program: those that it starts do not have it.
pub fn keep_from_children(fd: u8) {
    const F_SETFD: usize = 2;
    const FD_CLOEXEC: usize = 1;
    let args = [usize::from(fd), F_SETFD, FD_CLOEXEC, 0, 0];
    // SAFETY: this command takes a number and touches no memory.
    unsafe { syscall(nr::FCNTL, args) };
}

/// Starts a program in a process group of its own, with no signal blocked. It is in the
/// session of this process, which has no terminal: a shell that led a session would take the
/// console for its own, and its end would be that of all it has started. Should
/// the file be of no known format, /bin/sh runs it. The child ends with status
/// 127 when neither works.
///
/// # Errors
/// [`Errno::TOO_BIG`] for more than 7 arguments or settings; the kernel's word
/// when there can be no further process.
pub fn spawn(path: &CStr, args: &[&CStr], environment: &[&CStr]) -> Result<i32, Errno> {
    const SIGCHLD: usize = 17;
    const SHELL: &CStr = c"/bin/sh";
    // One place in front: for the shell, whose argument the path then is.
    let mut argv = [ptr::null(); MAX_WORDS + 2];
    let mut envp = [ptr::null(); MAX_WORDS];
    if args.len() >= MAX_WORDS || environment.len() >= MAX_WORDS {
        return Err(Errno::TOO_BIG);
    }
    argv[0] = SHELL.as_ptr();
    argv[1] = path.as_ptr();
    for (place, arg) in argv[2..].iter_mut().zip(args) {
        *place = arg.as_ptr();
    }
    for (place, setting) in envp.iter_mut().zip(environment) {
        *place = setting.as_ptr();
    }

    // SAFETY: fork without a shared address space: the child has a copy of
    // everything, and this program has one thread and holds no lock.
    let pid = check(unsafe { syscall(nr::CLONE, [SIGCHLD, 0, 0, 0, 0]) })?;
    if pid == 0 {
        block(SignalSet::default());
        // SAFETY: setpgid(2) takes two numbers; zeros are the caller.
        unsafe { syscall(nr::SETPGID, [0; 5]) };
        if execute(path, &argv[1..], &envp) == Errno::NOEXEC {
            execute(SHELL, &argv, &envp);
        }
        exit(127);
    }
    // It fits: process numbers are below 2^22.
    Ok(pid as i32)
}

/// Strings that each end in a zero byte, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    /// Nothing when the last one does not end.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.last() {
            Some(0) | None => Some(Self(bytes)),
            Some(_) => None,
        }
    }

    /// The first string, taken away.
    pub fn take(&mut self) -> Option<&'a CStr> {
        let first = CStr::from_bytes_until_nul(self.0).ok()?;
        self.0 = &self.0[first.count_bytes() + 1..];
        Some(first)
    }

    /// The first so many strings, taken away.
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let all = self.0;
        for _ in 0..count {
            self.take()?;
        }
        Some(Self(&all[..all.len() - self.0.len()]))
    }

    fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// The user that a program runs as, and its working directory.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: &'a [u32],
    /// Working folder.
    pub folder: &'a CStr,
}

/// Maximum number of arguments, or of environment variables, of a program that is started as
/// another user.
const MAX_STRINGS: usize = 1024;

/// Starts a program as a user, in a session of its own, with no signal blocked. A name without
/// slash is looked up in PATH of `environment`. The child exits with status 126 if it cannot set
/// itself up, and 127 if the program does not exist; before, it calls `tell` with the failed step
/// and the error.
///
/// # Errors
/// [`Errno::TOO_BIG`] for more than 1023 words or settings, or no word at all; the
/// kernel's word when there can be no further process.
pub fn spawn_as(
    place: Place<'_>,
    words: Strings<'_>,
    environment: Strings<'_>,
    tell: impl FnOnce(&[u8], Errno),
) -> Result<i32, Errno> {
    const SIGCHLD: usize = 17;
    let mut argv = [ptr::null(); MAX_STRINGS];
    let mut envp = [ptr::null(); MAX_STRINGS];
    let program = fill(&mut argv, words)?.ok_or(Errno::TOO_BIG)?;
    fill(&mut envp, environment)?;
    // SAFETY: fork without a shared address space: the child has a copy of
    // everything, and this program has one thread and holds no lock.
    let pid = check(unsafe { syscall(nr::CLONE, [SIGCHLD, 0, 0, 0, 0]) })?;
    if pid != 0 {
        // It fits: process numbers are below 2^22.
        return Ok(pid as i32);
    }
    block(SignalSet::default());
    // SAFETY: setsid(2) takes nothing.
    unsafe { syscall(nr::SETSID, [0; 5]) };
    if let Err(errno) = become_somebody(place) {
        tell(b"its user", errno);
        exit(126);
    }
    if let Err(errno) = change_dir(place.folder) {
        tell(place.folder.to_bytes(), errno);
        exit(126);
    }
    if program.to_bytes().contains(&b'/') {
        let errno = execute(program, &argv, &envp);
        tell(program.to_bytes(), errno);
        exit(127);
    }
    let mut last = Errno::NO_ENTRY;
    let mut settings = environment;
    let mut path: &[u8] = b"/usr/bin:/bin";
    while let Some(setting) = settings.take() {
        if let Some(value) = setting.to_bytes().strip_prefix(b"PATH=") {
            path = value;
        }
    }
    for folder in path.split(|byte| *byte == b':') {
        let mut whole = [0; 4096];
        let parts = [folder, b"/", program.to_bytes()];
        let mut used = 0;
        for byte in parts.iter().flat_map(|part| part.iter()) {
            if used + 1 < whole.len() {
                whole[used] = *byte;
            }
            used += 1;
        }
        if used + 1 < whole.len() {
            if let Ok(whole) = CStr::from_bytes_until_nul(&whole) {
                last = execute(whole, &argv, &envp);
            }
        }
    }
    tell(program.to_bytes(), last);
    exit(127)
}

/// Lists strings, and a null pointer behind them; gives the first.
fn fill<'a>(
    list: &mut [*const c_char; MAX_STRINGS],
    mut strings: Strings<'a>,
) -> Result<Option<&'a CStr>, Errno> {
    let mut first = None;
    for place in &mut list[..MAX_STRINGS - 1] {
        match strings.take() {
            Some(string) => {
                first = first.or(Some(string));
                *place = string.as_ptr();
            }
            None => break,
        }
    }
    match strings.is_empty() {
        true => Ok(first),
        false => Err(Errno::TOO_BIG),
    }
}

/// Drops the privileges of this process for good: groups first, because a user may not change them.
fn become_somebody(place: Place<'_>) -> Result<(), Errno> {
    let groups = place.groups.as_ptr().expose_provenance();
    // SAFETY: pointer and length are those of one slice.
    check(unsafe { syscall(nr::SETGROUPS, [place.groups.len(), groups, 0, 0, 0]) })?;
    // SAFETY: setgid(2) takes a number.
    check(unsafe { syscall(nr::SETGID, [place.gid as usize, 0, 0, 0, 0]) })?;
    // SAFETY: setuid(2) takes a number.
    check(unsafe { syscall(nr::SETUID, [place.uid as usize, 0, 0, 0, 0]) }).map(|_| ())
}

/// Reads the beginning of a file; says how much there was.
///
/// # Errors
/// The kernel's word.
pub fn read_file(path: &CStr, into: &mut [u8]) -> Result<usize, Errno> {
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2_000_000;
    const O_NONBLOCK: usize = 0o4000;
    let args = [
        AT_FDCWD,
        path.as_ptr().expose_provenance(),
        O_CLOEXEC | O_NONBLOCK,
        0,
        0,
    ];
    // SAFETY: the path ends in a zero byte.
    let fd = check(unsafe { syscall(nr::OPENAT, args) })?;
    let mut have = 0;
    let done = loop {
        let rest = &mut into[have..];
        let args = [fd, rest.as_mut_ptr().expose_provenance(), rest.len(), 0, 0];
        // SAFETY: pointer and length are those of one slice that no other code has.
        match check(unsafe { syscall(nr::READ, args) }) {
            Ok(0) => break Ok(have),
            Ok(read) => have += read,
            Err(Errno::INTR) => {}
            Err(errno) => break Err(errno),
        }
    };
    // SAFETY: the descriptor is ours and not used again.
    unsafe { syscall(nr::CLOSE, [fd, 0, 0, 0, 0]) };
    done
}

/// Replaces this process; returns only when that failed. Both lists end in a
/// null pointer and hold pointers to strings that live.
fn execute(path: &CStr, argv: &[*const c_char], envp: &[*const c_char]) -> Errno {
    debug_assert!(argv.last().is_some_and(|last| last.is_null()));
    debug_assert!(envp.last().is_some_and(|last| last.is_null()));
    let args = [
        path.as_ptr().expose_provenance(),
        argv.as_ptr().expose_provenance(),
        envp.as_ptr().expose_provenance(),
        0,
        0,
    ];
    // SAFETY: the path ends in a zero byte, the lists are as said above: only
    // `spawn` makes them.
    match check(unsafe { syscall(nr::EXECVE, args) }) {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}

/// Takes the status of one child that has ended, without waiting.
#[must_use]
pub fn reap() -> Reaped {
    const ANY: usize = usize::MAX;
    const WNOHANG: usize = 1;
    let mut status = 0i32;
    let place = &raw mut status;
    // SAFETY: `place` points at the integer that the kernel writes; usage is not asked for.
    let result = unsafe { syscall(nr::WAIT4, [ANY, place.expose_provenance(), WNOHANG, 0, 0]) };
    match check(result) {
        Ok(0) => Reaped::NoneEnded,
        // It fits: process numbers are below 2^22.
        Ok(pid) => Reaped::Child(pid as i32, status),
        Err(_) => Reaped::NoChild,
    }
}

/// Powers off or restarts; returns only when that is not allowed.
pub fn set_power(power: Power) -> Errno {
    const MAGIC1: usize = 0xfee1_dead;
    const MAGIC2: usize = 0x2812_1969;
    let command = match power {
        Power::Off => 0x4321_fedc,
        Power::Restart => 0x0123_4567,
    };
    // SAFETY: with these commands the last argument is not looked at.
    match check(unsafe { syscall(nr::REBOOT, [MAGIC1, MAGIC2, command, 0, 0]) }) {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}

/// Ends this process.
pub fn exit(status: u8) -> ! {
    loop {
        // SAFETY: exit_group(2) takes a number and does not return.
        unsafe { syscall(nr::EXIT_GROUP, [usize::from(status), 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test, as reaping takes any child of this process.
    #[test]
    fn children_are_started_and_reaped() {
        assert_eq!(reap(), Reaped::NoChild);
        let path = c"/bin/sh";
        assert!(is_executable(path));
        assert!(!is_executable(c"/nowhere/sh"));
        let program = c"test \"$A\" = b && test \"$0\" = zero && exit 7";
        let pid = spawn(path, &[c"-c", program, c"zero"], &[c"A=b"]).unwrap();
        assert_eq!(ended(), (pid, 7 << 8));

        let pid = spawn(c"/nowhere/sh", &[], &[]).unwrap();
        assert_eq!(ended(), (pid, 127 << 8));
        assert_eq!(reap(), Reaped::NoChild);
        assert_eq!(spawn(path, &[c""; 8], &[]), Err(Errno::TOO_BIG));

        // As a user: here the caller's, for the test need not be root's.
        let words = Strings::new(b"sh\0-c\0test \"$A\" = b && test \"$PWD\" = /usr && exit 9\0");
        let environment = Strings::new(b"A=b\0PATH=/nowhere:/bin\0");
        let mut ids = [0; 4096];
        let length = read_file(c"/proc/self/status", &mut ids).unwrap();
        assert!(length > 100 && read_file(c"/nowhere", &mut ids).is_err());
        let is_root = std::string::String::from_utf8_lossy(&ids[..length]).contains("Uid:\t0\t");
        let place = Place {
            uid: 0,
            gid: 0,
            groups: &[],
            folder: c"/usr",
        };
        let silent = |_: &[u8], _| {};
        let pid = spawn_as(place, words.unwrap(), environment.unwrap(), silent).unwrap();
        assert_eq!(ended(), (pid, if is_root { 9 << 8 } else { 126 << 8 }));
        let none = Strings::new(b"").unwrap();
        assert_eq!(spawn_as(place, none, none, silent), Err(Errno::TOO_BIG));
    }

    #[test]
    fn strings_are_taken_one_by_one() {
        assert!(Strings::new(b"a").is_none());
        let mut strings = Strings::new(b"a\0\0b\0c\0").unwrap();
        assert_eq!(strings.take(), Some(c"a"));
        let mut two = strings.split(2).unwrap();
        assert_eq!(
            (two.take(), two.take(), two.take()),
            (Some(c""), Some(c"b"), None)
        );
        assert!(strings.split(2).is_none());
        assert_eq!(strings.take(), None);
    }

    fn ended() -> (i32, i32) {
        loop {
            match reap() {
                Reaped::Child(pid, status) => return (pid, status),
                Reaped::NoneEnded => std::thread::sleep(std::time::Duration::from_millis(1)),
                Reaped::NoChild => panic!("the child is gone"),
            }
        }
    }

    #[test]
    fn number_and_clock() {
        assert_eq!(u32::try_from(pid()), Ok(std::process::id()));
        assert!(clock_ms() <= clock_ms());
    }
}
