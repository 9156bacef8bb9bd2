//! A session, or a command, on a terminal of the zone's own.

use std::os::fd::{AsFd, OwnedFd};

use host::flatten;
use platform::enter::RunningZone;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat};
use rustix::io::{Errno, read, write};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::time::Timespec;
use sys::process::Child;
use sys::signals::{self, Taken};

use crate::buffer::Buffer;
use crate::call::Call;
use crate::keyboard::Keyboard;
use crate::sink::Sink;
use crate::terminal::{self, Raw};
use crate::{child, inside};

/// Interval between checks of the window's size.
const WINDOW_POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Maximum number of bytes that are shown after the end of a session. Without a bound, a background
/// program could write to the terminal for ever.
const MAX_FINAL_BYTES: u64 = 1 << 20;

/// The end of a session.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The user left the session, or the user's terminal is gone.
    Left,
    /// The program has ended with this exit status.
    Ended(u8),
    /// No process has the zone's terminal open any more.
    Closed,
    /// This signal ends zlogin.
    Signal(i32),
}

/// Runs a session or a command on a terminal of the zone, and relays between this terminal and the
/// caller's terminal.
pub fn run(zone: &RunningZone, call: &Call, command: Option<&str>) -> Result<u8, String> {
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| format!("could not make a socket: {errno}"))?;
    let size = terminal::size_or_common();
    let child = zone.enter(None, &[theirs.as_fd()], || {
        match take_terminal(&theirs, size) {
            Ok(()) => inside::become_command(zone, call, command),
            Err(error) => {
                let text = format!("zlogin: could not make a terminal in the zone: {error}\n");
                let _ = write(rustix::stdio::stderr(), text.as_bytes());
                inside::NOT_RUN
            }
        }
    });
    let child = child.map_err(|error| flatten(&error))?;
    drop(theirs);
    let taken = terminal::take_signals()?;
    let Some((controller, name)) = receive_terminal(&ours, &child, &taken) else {
        return match wait(&child, &taken) {
            End::Ended(status) => Ok(status),
            End::Signal(number) => signals::die_by(number),
            End::Left | End::Closed => Ok(cli::status::ERROR),
        };
    };
    fcntl_getfl(&controller)
        .and_then(|flags| fcntl_setfl(&controller, flags | OFlags::NONBLOCK))
        .map_err(|errno| format!("could not use a terminal of the zone: {errno}"))?;
    // The message shows the name that the zone reports for its terminal, so only digits are taken
    // from the name.
    let number: String = name.chars().filter(char::is_ascii_digit).take(10).collect();
    if !call.quiet {
        println!("[Connected to zone '{}' pts/{number}]", call.zone);
    }
    let raw = Raw::enter();
    let mut end = pump(&controller, &child, &taken, &mut Keyboard::new(call.escape));
    drop(raw);
    // Closing the controller hangs up the remaining processes of the session.
    drop(controller);
    // A session ends when its terminal closes. For a command zlogin waits, because the exit status
    // counts.
    if end == End::Closed && command.is_some() {
        end = wait(&child, &taken);
    }
    if let End::Signal(number) = end {
        signals::die_by(number);
    }
    if !call.quiet {
        println!("\n[Connection to zone '{}' pts/{number} closed]", call.zone);
    }
    // The exit status of an interactive session is always 0.
    Ok(match (command, end) {
        (None, _) => cli::status::OK,
        (Some(_), End::Ended(status)) => status,
        (Some(_), _) => cli::status::ERROR,
    })
}

/// Returns the terminal that the process in the zone created, and its name. Returns `None` if the
/// process created no terminal, or if the user stops waiting: the zone's file system may never
/// answer.
fn receive_terminal(ours: &OwnedFd, child: &Child, taken: &Taken) -> Option<(OwnedFd, String)> {
    loop {
        let mut watched = [
            PollFd::new(ours, PollFlags::IN),
            PollFd::new(taken, PollFlags::IN),
            PollFd::new(&child.pidfd, PollFlags::IN),
        ];
        if poll(&mut watched, None).is_err() {
            continue;
        }
        let [sent, others @ ..] = watched.map(|one| !one.revents().is_empty());
        if sent {
            return sys::passing::receive(ours.as_fd());
        }
        if others.contains(&true) {
            return None;
        }
    }
}

/// Runs in the zone: opens a terminal of the zone and makes it the controlling terminal.
fn take_terminal(to_zlogin: &OwnedFd, size: Winsize) -> Result<(), String> {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, ptsname, unlockpt};
    let text = |errno: Errno| errno.to_string();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let controller = openat(CWD, "/dev/pts/ptmx", flags, Mode::empty()).map_err(text)?;
    unlockpt(&controller).map_err(text)?;
    let name = ptsname(&controller, Vec::new()).map_err(text)?;
    let terminal =
        ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(text)?;
    tcsetwinsize(&controller, size).map_err(text)?;
    sys::passing::send(
        to_zlogin.as_fd(),
        controller.as_fd(),
        &name.to_string_lossy(),
    )
    .map_err(|error| error.to_string())?;
    drop(controller);
    rustix::process::ioctl_tiocsctty(&terminal).map_err(text)?;
    rustix::stdio::dup2_stdin(&terminal).map_err(text)?;
    rustix::stdio::dup2_stdout(&terminal).map_err(text)?;
    rustix::stdio::dup2_stderr(&terminal).map_err(text)
}

/// Waits until the process ends, without relaying a terminal.
fn wait(child: &Child, taken: &Taken) -> End {
    loop {
        if let Some(number) = taken.next() {
            return End::Signal(number);
        }
        if let Some(status) = child::status(child) {
            return End::Ended(status);
        }
        let mut watched = [
            PollFd::new(taken, PollFlags::IN),
            PollFd::new(&child.pidfd, PollFlags::IN),
        ];
        let _ = poll(&mut watched, None);
    }
}

/// Moves bytes in both directions until the session is over. This loop never waits for the zone or
/// for the caller's terminal, so that the user can leave at any time.
fn pump(controller: &OwnedFd, child: &Child, taken: &Taken, keyboard: &mut Keyboard) -> End {
    let mut size = terminal::size();
    let mut screen = Sink::new(rustix::stdio::stdout());
    let mut shown = Buffer::default();
    let mut ended = None;
    let mut left = MAX_FINAL_BYTES;
    loop {
        let mut watched = vec![PollFd::new(taken, PollFlags::IN)];
        if ended.is_none() {
            watched.push(PollFd::new(&child.pidfd, PollFlags::IN));
        }
        if !shown.is_empty() {
            watched.push(PollFd::from_borrowed_fd(screen.stream(), PollFlags::OUT));
        }
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, shown.is_empty());
        wanted.set(PollFlags::OUT, keyboard.has_more());
        if !wanted.is_empty() {
            watched.push(PollFd::new(controller, wanted));
        }
        let from_user = watched.len();
        if keyboard.listens() && !terminal::in_background() {
            watched.push(PollFd::from_borrowed_fd(terminal::stdin(), PollFlags::IN));
        }
        let waited = poll(&mut watched, Some(&WINDOW_POLL_INTERVAL));
        let came = |at: usize| watched.get(at).is_some_and(|one| !one.revents().is_empty());
        let typed = waited.is_ok() && came(from_user);
        if let Some(number) = taken.next() {
            return End::Signal(number);
        }
        if ended.is_none() {
            ended = child::status(child);
        }
        if typed {
            keyboard.read();
        }
        let hung_up = keyboard.send(|bytes| write(controller, bytes)).is_err();
        if hung_up {
            keyboard.clear();
        }
        if keyboard.left() {
            return End::Left;
        }
        if shown.is_empty() {
            match shown.fill(left, |space| read(controller, space)) {
                Err(Errno::AGAIN | Errno::INTR) if !hung_up => {
                    if let Some(status) = ended {
                        // No output is left to show.
                        return End::Ended(status);
                    }
                }
                Ok(0) | Err(_) => return ended.map_or(End::Closed, End::Ended),
                Ok(length) if ended.is_some() => left -= length as u64,
                Ok(_) => {}
            }
        }
        if shown.drain(|bytes| screen.write(bytes)).is_err() {
            return End::Left;
        }
        let now = terminal::size();
        if let Some(now) = now {
            if size.is_none_or(|size| !terminal::same_size(&size, &now)) {
                let _ = tcsetwinsize(controller, now);
            }
        }
        size = now;
    }
}
