//! Prints text, and sets the exit status of a program whose output could not be written.
//!
//! The print macros of the standard library panic if a stream accepts no more bytes. A panic would
//! end a boot or a clone halfway. The macros of this crate remember the first error instead, and
//! [`end`] reports it. The macros have the same names as those of the standard library, and a
//! program imports them with `#[macro_use(print, println, eprint, eprintln)] extern crate cli;`.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdout};

use crate::progress::{self, Stream};
use crate::status;

/// The first error of a write to standard output.
static LOST: OnceLock<Errno> = OnceLock::new();

/// Prints on standard output, as the macro of the standard library does, without a panic.
#[macro_export]
macro_rules! print {
    ($($word:tt)*) => { $crate::output::print(::std::format_args!($($word)*)) };
}

/// Prints a line on standard output.
#[macro_export]
macro_rules! println {
    ($($word:tt)*) => {
        $crate::output::print(::std::format_args!("{}\n", ::std::format_args!($($word)*)))
    };
}

/// Prints on standard error.
#[macro_export]
macro_rules! eprint {
    ($($word:tt)*) => { $crate::output::complain(::std::format_args!($($word)*)) };
}

/// Prints a line on standard error.
#[macro_export]
macro_rules! eprintln {
    ($($word:tt)*) => {
        $crate::output::complain(::std::format_args!("{}\n", ::std::format_args!($($word)*)))
    };
}

/// Prints on standard output. If the write fails, [`end`] reports the error.
pub fn print(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    if progress::take(Stream::Output, text.as_bytes()) {
        return;
    }
    if let Err(errno) = write(text.as_bytes()) {
        lost(errno);
    }
}

/// Prints on standard error. A failed write is ignored, because no other stream could report it.
pub fn complain(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    if !progress::take(Stream::Error, text.as_bytes()) {
        let _ = write_all(stderr(), text.as_bytes());
    }
}

/// Writes all of `bytes` to standard output.
///
/// # Errors
/// Fails with the error of write(2), or with `EBADF` if the program was started without standard output.
pub fn write(bytes: &[u8]) -> Result<(), Errno> {
    if sys::inherited::had_no_output() {
        return Err(Errno::BADF);
    }
    write_all(stdout(), bytes)
}

/// Remembers that some output was lost. [`end`] reports the first reason for which output was lost.
pub fn lost(why: Errno) {
    let _ = LOST.set(why);
}

/// Lets SIGPIPE end the program at once if the reader of a pipe closes the pipe. Only commands that
/// change nothing may call `only_prints`. Commands that change a zone finish their work, and
/// [`end`] reports the lost output.
pub fn only_prints() {
    sys::process::restore_sigpipe();
}

/// Prints the help of a program, or another text for which the user asked, and returns its exit
/// status.
#[must_use]
pub fn help(program: &str, text: &str) -> ExitCode {
    only_prints();
    print!("{text}");
    end(program, status::OK)
}

/// If the first argument is `--version`, prints the version and returns the exit status; otherwise
/// returns `None`.
#[must_use]
pub fn version(program: &str) -> Option<ExitCode> {
    let asked = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "--version");
    let text = format!("{program} {}\n", env!("CARGO_PKG_VERSION"));
    asked.then(|| help(program, &text))
}

/// Returns the exit status of a program that ends with `status`. If output was lost, prints a
/// message and returns [`status::ERROR`]. The last line of JSON has the same exit status.
#[must_use]
pub fn end(program: &str, status: u8) -> ExitCode {
    let why = |errno: &Errno| {
        let why = std::io::Error::from(*errno);
        format!("{program}: could not write to standard output: {why}\n")
    };
    progress::finish();
    let known = LOST.get();
    if let Some(errno) = known {
        complain(format_args!("{}", why(errno)));
    }
    progress::end(known.map_or(status, |_| status::ERROR));
    // The last lines may be lost themselves.
    let Some(errno) = LOST.get() else {
        return ExitCode::from(status);
    };
    if progress::is_on_stdout() {
        let _ = write_all(stderr(), why(errno).as_bytes());
    }
    ExitCode::from(status::ERROR)
}

/// Writes all of `bytes`. Waits if another process made the stream non-blocking.
pub(crate) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for(to, PollFlags::OUT),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Waits until a stream is ready, or has ended.
pub(crate) fn wait_for(stream: BorrowedFd<'_>, events: PollFlags) {
    let _ = poll(&mut [PollFd::from_borrowed_fd(stream, events)], None);
}
