//! Starts and reaps processes, ends this process, and powers the machine off.

use core::ffi::{CStr, c_char};
use core::ptr;

use crate::call::{Errno, check, nr, syscall};
use crate::signal::{SignalSet, block};

/// The number 1 more than the maximum of arguments, or of environment variables, of a program that
/// [`spawn`] starts.
const MAX_WORDS: usize = 8;

/// The result of [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// The pid of a child that ended, and its status as wait(2) encodes it.
    Child(i32, i32),
    /// The process has children, but none of them has ended.
    NoneEnded,
    /// The process has no children.
    NoChild,
}

/// An order to end the machine. In a pid namespace, the kernel kills all processes of the namespace
/// instead, and the parent of process 1 sees that a signal killed process 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// Powers the machine off. In a pid namespace, process 1 dies of SIGINT.
    Off,
    /// Restarts the machine. In a pid namespace, process 1 dies of SIGHUP.
    Restart,
}

/// Returns the pid of this process in its pid namespace.
#[must_use]
pub fn pid() -> i32 {
    // SAFETY: getpid(2) takes no arguments and touches no memory.
    let pid = unsafe { syscall(nr::GETPID, [0; 5]) };
    // The cast keeps the value, because pids are below 2^22.
    pid as i32
}

/// Returns the time of CLOCK_MONOTONIC in milliseconds.
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

/// Sets the umask of this process: the permission bits that new files do not get.
pub fn set_umask(mask: u16) {
    // SAFETY: umask(2) takes a number and touches no memory.
    unsafe { syscall(nr::UMASK, [usize::from(mask), 0, 0, 0, 0]) };
}

/// Changes the working directory to `path`.
///
/// # Errors
/// Fails with the error of chdir(2).
pub fn change_dir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` ends with a zero byte.
    check(unsafe { syscall(nr::CHDIR, [path.as_ptr().expose_provenance(), 0, 0, 0, 0]) })
        .map(|_| ())
}

/// Returns true if this process may execute the file `path`.
#[must_use]
pub fn is_executable(path: &CStr) -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    const X_OK: usize = 1;
    let args = [AT_FDCWD, path.as_ptr().expose_provenance(), X_OK, 0, 0];
    // SAFETY: `path` ends with a zero byte.
    check(unsafe { syscall(nr::FACCESSAT, args) }).is_ok()
}

/// Writes bytes to an open file with one write(2), which may write only a part of them. Returns no
/// error, because this function is for messages on a console, whose failure cannot be reported.
pub fn write(fd: u8, bytes: &[u8]) {
    let args = [
        usize::from(fd),
        bytes.as_ptr().expose_provenance(),
        bytes.len(),
        0,
        0,
    ];
    // SAFETY: the pointer and the length are those of the same slice.
    unsafe { syscall(nr::WRITE, args) };
}

/// Gives up the controlling terminal, if standard input is one, because keys that a user presses on
/// the console must not send signals to this process.
pub fn forget_terminal() {
    const TIOCNOTTY: usize = 0x5422;
    // SAFETY: the request TIOCNOTTY takes no argument.
    unsafe { syscall(nr::IOCTL, [0, TIOCNOTTY, 0, 0, 0]) };
}

/// Sets the close-on-exec flag of an open file, so that programs that this process starts do not
/// get the file.
pub fn keep_from_children(fd: u8) {
    const F_SETFD: usize = 2;
    const FD_CLOEXEC: usize = 1;
    let args = [usize::from(fd), F_SETFD, FD_CLOEXEC, 0, 0];
    // SAFETY: the command F_SETFD takes a number and touches no memory.
    unsafe { syscall(nr::FCNTL, args) };
}

/// Starts a program in a process group of its own, with no signal blocked. The program stays in the
/// session of this process, which has no terminal. If a shell led a session of its own, it would
/// take the console as its controlling terminal, and the end of the shell would end all processes
/// that the shell started. If the kernel does not know the format of the file, /bin/sh runs the
/// file. If neither works, the child ends with exit status 127.
///
/// # Errors
/// Fails with [`Errno::TOO_BIG`] for more than 7 arguments or environment variables, and with the
/// error of clone(2) if the kernel cannot make a process.
pub fn spawn(path: &CStr, args: &[&CStr], environment: &[&CStr]) -> Result<i32, Errno> {
    const SIGCHLD: usize = 17;
    const SHELL: &CStr = c"/bin/sh";
    // The list of arguments has one more entry at the start for /bin/sh, whose first argument is
    // then `path`.
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

    // SAFETY: the child gets a copy of the address space, as with fork(2). This program has one
    // thread and holds no lock.
    let pid = check(unsafe { syscall(nr::CLONE, [SIGCHLD, 0, 0, 0, 0]) })?;
    if pid == 0 {
        block(SignalSet::default());
        // SAFETY: setpgid(2) takes two numbers; the number 0 means the calling process.
        unsafe { syscall(nr::SETPGID, [0; 5]) };
        if execute(path, &argv[1..], &envp) == Errno::NOEXEC {
            execute(SHELL, &argv, &envp);
        }
        exit(127);
    }
    // The cast keeps the value, because pids are below 2^22.
    Ok(pid as i32)
}

/// A sequence of strings. Each string ends with a zero byte, and the next string follows at once.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    /// Returns the strings in `bytes`; `None` if the last string does not end with a zero byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.last() {
            Some(0) | None => Some(Self(bytes)),
            Some(_) => None,
        }
    }

    /// Removes the first string from the sequence and returns it; `None` if the sequence is empty.
    pub fn take(&mut self) -> Option<&'a CStr> {
        let first = CStr::from_bytes_until_nul(self.0).ok()?;
        self.0 = &self.0[first.count_bytes() + 1..];
        Some(first)
    }

    /// Removes the first `count` strings from the sequence and returns them; `None` if the sequence
    /// has fewer strings.
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

/// The user and groups with which a program runs, and its working directory.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary group ids.
    pub groups: &'a [u32],
    /// The working directory.
    pub folder: &'a CStr,
}

/// The number 1 more than the maximum of words, or of environment variables, of a program that
/// [`spawn_as`] starts.
const MAX_STRINGS: usize = 1024;

/// Starts a program as a user, in a session of its own, with no signal blocked. A program name
/// without a slash is searched in the PATH of `environment`. The child exits with status 126 if it
/// cannot set its user or working directory, and with status 127 if it cannot execute the program.
/// Before the child exits, it calls `tell` with the failed step and the error.
///
/// # Errors
/// Fails with [`Errno::TOO_BIG`] for more than 1023 words or environment variables, or if `words`
/// is empty, and with the error of clone(2) if the kernel cannot make a process.
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
    // SAFETY: the child gets a copy of the address space, as with fork(2). This program has one
    // thread and holds no lock.
    let pid = check(unsafe { syscall(nr::CLONE, [SIGCHLD, 0, 0, 0, 0]) })?;
    if pid != 0 {
        // The cast keeps the value, because pids are below 2^22.
        return Ok(pid as i32);
    }
    block(SignalSet::default());
    // SAFETY: setsid(2) takes no arguments.
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

/// Fills `list` with pointers to the strings; the entries after them stay null pointers. Returns
/// the first string, and fails with [`Errno::TOO_BIG`] for more than 1023 strings.
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

/// Gives this process the user and groups of `place`, and no way back to the former ones. The
/// groups are set before the user, because a process without privileges may not change its groups.
fn become_somebody(place: Place<'_>) -> Result<(), Errno> {
    let groups = place.groups.as_ptr().expose_provenance();
    // SAFETY: the pointer and the length are those of the same slice.
    check(unsafe { syscall(nr::SETGROUPS, [place.groups.len(), groups, 0, 0, 0]) })?;
    // SAFETY: setgid(2) takes a number.
    check(unsafe { syscall(nr::SETGID, [place.gid as usize, 0, 0, 0, 0]) })?;
    // SAFETY: setuid(2) takes a number.
    check(unsafe { syscall(nr::SETUID, [place.uid as usize, 0, 0, 0, 0]) }).map(|_| ())
}

/// Reads the beginning of a file, as many bytes as `into` can hold. Returns the number of bytes
/// that were read.
///
/// # Errors
/// Fails with the error of openat(2) or read(2).
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
    // SAFETY: `path` ends with a zero byte.
    let fd = check(unsafe { syscall(nr::OPENAT, args) })?;
    let mut have = 0;
    let done = loop {
        let rest = &mut into[have..];
        let args = [fd, rest.as_mut_ptr().expose_provenance(), rest.len(), 0, 0];
        // SAFETY: the pointer and the length are those of the same slice, which is mutably borrowed
        // here.
        match check(unsafe { syscall(nr::READ, args) }) {
            Ok(0) => break Ok(have),
            Ok(read) => have += read,
            Err(Errno::INTR) => {}
            Err(errno) => break Err(errno),
        }
    };
    // SAFETY: this function opened the descriptor and does not use it again.
    unsafe { syscall(nr::CLOSE, [fd, 0, 0, 0, 0]) };
    done
}

/// Returns true if the folder `path` has an entry whose name begins with `first`. Returns false if
/// the folder cannot be read.
#[must_use]
pub fn has_name(path: &CStr, first: u8) -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2_000_000;
    const O_NONBLOCK: usize = 0o4000;
    let path = path.as_ptr().expose_provenance();
    let args = [AT_FDCWD, path, O_CLOEXEC | O_NONBLOCK, 0, 0];
    // SAFETY: `path` ends with a zero byte.
    let Ok(fd) = check(unsafe { syscall(nr::OPENAT, args) }) else {
        return false;
    };
    let mut entries = [0; 512];
    let found = loop {
        let place = entries.as_mut_ptr().expose_provenance();
        // SAFETY: the pointer and the length are those of `entries`, which is mutably borrowed here.
        match check(unsafe { syscall(nr::GETDENTS64, [fd, place, entries.len(), 0, 0]) }) {
            Ok(0) | Err(_) => break false,
            Ok(length) if begins_with(&entries[..length], first) => break true,
            Ok(_) => {}
        }
    };
    // SAFETY: this function opened the descriptor and does not use it again.
    unsafe { syscall(nr::CLOSE, [fd, 0, 0, 0, 0]) };
    found
}

/// Returns true if the name of one of these entries begins with `first`. The format of an entry is
/// `struct linux_dirent64` of getdents64(2).
fn begins_with(mut entries: &[u8], first: u8) -> bool {
    /// The offsets of the length of an entry, of two bytes, and of its name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    while let Some(entry) = entries.get(..=NAME) {
        if entry[NAME] == first {
            return true;
        }
        let length = u16::from_ne_bytes([entry[LENGTH], entry[LENGTH + 1]]);
        entries = entries
            .get(usize::from(length).max(NAME)..)
            .unwrap_or_default();
    }
    false
}

/// Replaces the program of this process by another one: execve(2). Returns only on failure. Both
/// lists must end with a null pointer, and their other pointers must lead to existing strings.
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
    // SAFETY: `path` ends with a zero byte. Only `spawn` and `spawn_as` make the lists, with a null
    // pointer at the end and with pointers to strings that exist during the call.
    match check(unsafe { syscall(nr::EXECVE, args) }) {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}

/// Returns the pid and the status of one child that has ended, if there is one, and removes this
/// child from the process table. Does not wait.
#[must_use]
pub fn reap() -> Reaped {
    const ANY: usize = usize::MAX;
    const WNOHANG: usize = 1;
    let mut status = 0i32;
    let place = &raw mut status;
    // SAFETY: `place` points to the integer to which the kernel writes; the null pointer for the
    // resource usage is allowed.
    let result = unsafe { syscall(nr::WAIT4, [ANY, place.expose_provenance(), WNOHANG, 0, 0]) };
    match check(result) {
        Ok(0) => Reaped::NoneEnded,
        // The cast keeps the value, because pids are below 2^22.
        Ok(pid) => Reaped::Child(pid as i32, status),
        Err(_) => Reaped::NoChild,
    }
}

/// Powers the machine off or restarts it. Returns only if the kernel refuses.
pub fn set_power(power: Power) -> Errno {
    const MAGIC1: usize = 0xfee1_dead;
    const MAGIC2: usize = 0x2812_1969;
    let command = match power {
        Power::Off => 0x4321_fedc,
        Power::Restart => 0x0123_4567,
    };
    // SAFETY: the kernel ignores the last argument of reboot(2) for these commands.
    match check(unsafe { syscall(nr::REBOOT, [MAGIC1, MAGIC2, command, 0, 0]) }) {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}

/// Ends this process with an exit status.
pub fn exit(status: u8) -> ! {
    loop {
        // SAFETY: exit_group(2) takes a number and does not return.
        unsafe { syscall(nr::EXIT_GROUP, [usize::from(status), 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // All cases are in one test, because `reap` returns any child of this process.
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

        // The next part starts a program as root. If the test does not run as root, the child fails
        // with status 126.
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
    fn finds_an_entry_by_the_first_letter_of_its_name() {
        assert!(has_name(c"/", b'p'), "/proc");
        assert!(!has_name(c"/", b'\x01'));
        assert!(!has_name(c"/nowhere", b'p'));
        assert!(!has_name(c"/proc/self/status", b'p'));
        // A folder with more entries than one call of the kernel returns.
        assert!(has_name(c"/proc", b'v'), "/proc/version");
        assert!(!has_name(c"/proc", b'\x01'));
        assert!(!begins_with(&[0; 20], b'x'));
        assert!(!begins_with(&[b'x'; 19], b'x'));
    }

    #[test]
    fn number_and_clock() {
        assert_eq!(u32::try_from(pid()), Ok(std::process::id()));
        assert!(clock_ms() <= clock_ms());
    }
}
