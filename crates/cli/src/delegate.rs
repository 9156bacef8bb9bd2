//! Asks zoneauthd(8) to run a command that needs root.
//!
//! The client does not pass its own streams to zoneauthd. zoneauthd creates pipes or a terminal for
//! the program and sends the client the opposite sides. The client copies the bytes between the
//! received pipes and its own streams, as ssh does with a terminal.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use authority::reply::{self, SIGNALS};
use authority::request::{self, Request, Stream};
use authority::{End, Program, Reply, SOCKET};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::{Signal, getpgrp};
use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use rustix::time::Timespec;
use store::Root;
use sys::signals::{self, Taken};

use crate::output::{wait_for, write_all};
use crate::progress;
use crate::{eprintln, status};

/// Interval at which a client in the background checks whether it is in the foreground again.
const FOREGROUND_POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Maximum number of bytes that one read copies.
const COPY_BYTES: usize = 32 * 1024;

/// The program's use of standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The program does not read standard input. Typed-ahead input, or the input of a shell's loop,
    /// stays unread.
    Nothing,
    /// The program reads standard input, perhaps as a terminal.
    Standard,
}

/// The result of a request to zoneauthd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program ran and ended with this exit status.
    Ended(u8),
    /// zoneauthd did not start the program, or the client does not know how the program ended. The
    /// text is the reason of the refusal.
    Refused(String),
    /// No zoneauthd listens on the socket.
    NoService,
}

/// Returns the address of zoneauthd's socket below a root. A socket address holds at most 108
/// bytes, and the path of an alternate root may be longer. Therefore the address names the folder
/// by a descriptor, which the caller must keep open while it uses the address.
///
/// # Errors
/// Fails if the folder of the socket does not exist.
pub fn address(root: &Root) -> io::Result<(SocketAddrUnix, OwnedFd)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, root.run(), flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(SOCKET);
    Ok((SocketAddrUnix::new(short)?, folder))
}

/// Asks zoneauthd to run a program with the arguments `words` and with the streams and signals of
/// this process. The process must have only one thread when it calls this function.
#[must_use]
pub fn run(program: Program, words: &[OsString], input: Input) -> Outcome {
    let Some(socket) = reach() else {
        return Outcome::NoService;
    };
    let text = |word: &OsString| word.to_str().map(str::to_owned);
    let Some(words) = words.iter().map(text).collect::<Option<Vec<_>>>() else {
        return Outcome::Refused("words must be UTF-8".to_owned());
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let size = tcgetwinsize(stdin()).ok();
    let request = Request {
        streams: streams(input),
        size: size.map_or((0, 0), |size| (size.ws_row, size.ws_col)),
        term: request::name(&variable("TERM")),
        lang: request::name(&variable("LANG")),
        program,
        words,
    };
    ask(&socket, &request).unwrap_or_else(|error| match error.raw_os_error() {
        Some(_) => Outcome::Refused(format!("zoneauthd went away: {error}")),
        None => Outcome::Refused(error.to_string()),
    })
}

/// Connects to zoneauthd. Returns `None` if the process that listens does not belong to root.
fn reach() -> Option<OwnedFd> {
    let root = crate::root(None).ok()?;
    let (address, _folder) = address(&root).ok()?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    connect(&socket, &address).ok()?;
    // The socket carries the user's input, so the process that listens must belong to root.
    let served_by = sys::peer::peer(socket.as_fd()).ok()?;
    (served_by.uid == 0).then_some(socket)
}

/// Returns the kinds of the program's standard input, output and error.
fn streams(input: Input) -> [Stream; 3] {
    // If this process is in the background, another program has the keyboard.
    let at_keyboard = io::stdin().is_terminal() && !in_background();
    let output = |is_terminal: bool| match is_terminal && at_keyboard && input == Input::Standard {
        true => Stream::Terminal,
        false => Stream::Pipe,
    };
    let input = match input {
        Input::Nothing => Stream::Nothing,
        Input::Standard if at_keyboard => Stream::Terminal,
        Input::Standard if io::stdin().is_terminal() => Stream::Nothing,
        Input::Standard => Stream::Pipe,
    };
    let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
    [input, output(out), output(err)]
}

fn ask(socket: &OwnedFd, request: &Request) -> io::Result<Outcome> {
    let packet = request.encode().map_err(io::Error::other)?;
    send(socket, &packet, SendFlags::NOSIGNAL)?;
    match hear(socket)? {
        Reply::Granted => {}
        Reply::Refused(why) => return Ok(Outcome::Refused(why)),
        Reply::Ended(_) => return Err(odd()),
    }
    let streams = &request.streams;
    let next = || {
        sys::passing::receive(socket.as_fd())
            .map(|(end, _)| end)
            .ok_or_else(odd)
    };
    let terminal = match streams[0] {
        Stream::Terminal => Some(next()?),
        _ => None,
    };
    let input = match streams[0] {
        Stream::Pipe => Some(next()?),
        _ => None,
    };
    let mut outputs = Vec::new();
    for (stream, to) in streams[1..].iter().zip([stdout(), stderr()]) {
        if *stream == Stream::Pipe {
            outputs.push((next()?, to));
        }
    }
    let taken = take_signals(terminal.is_some())?;
    let raw = terminal.as_ref().and_then(|_| Raw::enter());
    if let Some(terminal) = &terminal {
        let screen = match (streams[1], streams[2]) {
            (Stream::Terminal, _) => stdout(),
            (_, Stream::Terminal) => stderr(),
            _ => stdin(),
        };
        outputs.push((terminal.try_clone()?, screen));
        let keyboard = terminal.try_clone()?;
        drop(std::thread::spawn(move || type_to(&keyboard)));
    }
    if let Some(input) = input {
        drop(std::thread::spawn(move || copy(stdin(), input.as_fd())));
    }
    let outputs = outputs
        .into_iter()
        .map(|(from, to)| std::thread::spawn(move || show(from.as_fd(), to)))
        .collect();
    let outcome = attend(socket, &taken, terminal.as_ref(), outputs);
    drop(raw);
    match outcome? {
        Reply::Ended(End::Status(status)) => Ok(Outcome::Ended(status)),
        Reply::Ended(End::Signal(number)) => {
            // If a signal ended the program, this process ends by the same signal, as the shell
            // expects.
            if SIGNALS.contains(&i32::from(number)) {
                signals::die_by(i32::from(number));
            }
            Ok(Outcome::Ended(number.saturating_add(128)))
        }
        Reply::Refused(why) => Ok(Outcome::Refused(why)),
        Reply::Granted => Err(odd()),
    }
}

fn odd() -> io::Error {
    io::Error::other("zoneauthd sent an unexpected reply; it may be of another version")
}

fn hear(socket: &OwnedFd) -> io::Result<Reply> {
    let mut packet = [0; reply::MAX_SIZE];
    let (length, _) = rustix::io::retry_on_intr(|| recv(socket, &mut packet, RecvFlags::empty()))?;
    if length == 0 {
        return Err(Errno::CONNRESET.into());
    }
    Reply::decode(&packet[..length]).ok_or_else(odd)
}

/// Takes over the signals that are passed on to the program, and the signal for a changed window
/// size.
fn take_signals(terminal: bool) -> io::Result<Taken> {
    let taken = Taken::take(&[&SIGNALS[..], &[Signal::WINCH.as_raw()]].concat())?;
    // A reader that closes the pipe must not end this process. The program gets the error, and
    // zoneauthd reports how the program ends.
    signals::ignore(&[Signal::PIPE.as_raw()]);
    if terminal {
        // Ctrl-Z must not stop this process, because this process must receive the exit status of
        // the program.
        signals::ignore(&[Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw));
    }
    Ok(taken)
}

/// Passes signals on until the program has ended and its whole output is copied.
fn attend(
    socket: &OwnedFd,
    taken: &Taken,
    terminal: Option<&OwnedFd>,
    outputs: Vec<JoinHandle<()>>,
) -> io::Result<Reply> {
    loop {
        let mut watched = [
            PollFd::new(socket, PollFlags::IN),
            PollFd::new(taken, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [answered, signalled] = watched.map(|one| !one.revents().is_empty());
        while let Some(number) = signalled.then(|| taken.next()).flatten() {
            if SIGNALS.contains(&number) {
                send(socket, &reply::signal(number), SendFlags::NOSIGNAL)?;
            } else if let (Some(terminal), Some(size)) = (terminal, size()) {
                let _ = tcsetwinsize(terminal, size);
            }
        }
        if answered {
            let reply = hear(socket)?;
            for output in outputs {
                let _ = output.join();
            }
            return Ok(reply);
        }
    }
}

/// Copies input of the user until `from` has ended or `to` accepts no more.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    pass(from, |piece| write_all(to, piece).is_ok());
}

/// Shows output of the program until `from` has ended or `to` accepts no more.
fn show(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let stream = match to.as_raw_fd() == stderr().as_raw_fd() {
        true => progress::Stream::Error,
        false => progress::Stream::Output,
    };
    pass(from, |piece| {
        progress::relay(stream, piece) || write_all(to, piece).is_ok()
    });
}

/// Reads pieces until `from` has ended or `to` returns false.
fn pass(from: BorrowedFd<'_>, to: impl Fn(&[u8]) -> bool) {
    let mut piece = vec![0; COPY_BYTES];
    while let Some(length) = read_some(from, &mut piece) {
        if !to(&piece[..length]) {
            return;
        }
    }
}

/// Copies the user's input to the program's terminal while this process is in the foreground.
fn type_to(terminal: &OwnedFd) {
    loop {
        copy(stdin(), terminal.as_fd());
        if !in_background() {
            return;
        }
        let _ = poll(&mut [], Some(&FOREGROUND_POLL_INTERVAL));
    }
}

/// Reads some bytes and returns their number. Returns `None` at the end of the input.
fn read_some(from: BorrowedFd<'_>, piece: &mut [u8]) -> Option<usize> {
    loop {
        match rustix::io::read(from, &mut *piece) {
            Ok(0) => return None,
            Ok(length) => return Some(length),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for(from, PollFlags::IN),
            // A terminal reports its end as an error.
            Err(_) => return None,
        }
    }
}

/// The user's terminal in raw mode. Dropping a `Raw` restores the former mode of the terminal.
struct Raw(Termios);

impl Raw {
    fn enter() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

fn in_background() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group != getpgrp())
}

fn size() -> Option<Winsize> {
    tcgetwinsize(stdin()).ok()
}

fn stdin() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

fn stdout() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

fn stderr() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

/// Returns the exit status of a command that zoneauthd did not run, after printing the reason.
/// `classic` is the command's message for users who are not root.
pub fn refused(program: Program, outcome: &Outcome, classic: &str) -> u8 {
    match outcome {
        Outcome::Ended(status) => return *status,
        Outcome::Refused(why) => eprintln!("{program}: {why}"),
        Outcome::NoService => eprintln!(
            "{program}: {classic}\n\
             {program}: (users whom an admin resource of the zone names can, where zoneauthd runs)"
        ),
    }
    status::ERROR
}
