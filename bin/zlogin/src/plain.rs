//! A command with three streams and no terminal.
//!
//! The command has pipes, and zlogin moves the bytes. A command that had a descriptor of the
//! caller's terminal could type into the caller's shell, or continue to read the user's input after
//! zlogin has ended. zlogin returns when the command has ended and zlogin has written all output
//! that the command and its children produced until then. zlogin does not wait for a background
//! process that keeps the pipes open.

use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};

use host::flatten;
use platform::enter::RunningZone;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};
use rustix::time::Timespec;
use sys::process::Child;
use sys::signals::{self, Taken};

use crate::buffer::Buffer;
use crate::call::Call;
use crate::sink::Sink;
use crate::{child, inside, terminal};

/// Number of pieces of a stream that are moved before zlogin serves the other streams.
const PIECES_PER_TURN: usize = 16;

/// Interval at which a zlogin in the background checks whether it is in the foreground again.
const FOREGROUND_POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Runs the command, or a shell that reads commands, and returns its exit status.
pub fn run(zone: &RunningZone, call: &Call, command: Option<&str>) -> Result<u8, String> {
    let pipe = || zone.pipe().map_err(|error| flatten(&error));
    let (their_input, input) = pipe()?;
    let (output, their_output) = pipe()?;
    let (errors, their_errors) = pipe()?;
    for ours in [&input, &output, &errors] {
        do_not_wait(ours)?;
    }
    let taken = terminal::take_signals()?;
    let theirs = [
        their_input.as_fd(),
        their_output.as_fd(),
        their_errors.as_fd(),
    ];
    let child = zone
        .enter(Some(theirs), &[], || {
            inside::become_command(zone, call, command)
        })
        .map_err(|error| flatten(&error))?;
    drop((their_input, their_output, their_errors));
    let mut input = Input::new(input);
    if call.no_input {
        input.to = None;
    }
    let mut outputs = [
        Output::new(output, Sink::new(rustix::stdio::stdout())),
        Output::new(errors, Sink::new(rustix::stdio::stderr())),
    ];
    let status = relay(&child, &taken, &mut input, &mut outputs);
    match outputs.iter().find_map(|output| output.problem) {
        Some(errno) => Err(format!(
            "could not write the output of the command: {errno}"
        )),
        None => Ok(status),
    }
}

fn do_not_wait(pipe: &OwnedFd) -> Result<(), String> {
    fcntl_getfl(pipe)
        .and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK))
        .map_err(|errno| format!("could not make a pipe: {errno}"))
}

/// Relays the three streams until the command has ended and its output is written.
fn relay(child: &Child, taken: &Taken, input: &mut Input, outputs: &mut [Output; 2]) -> u8 {
    let mut status = None;
    loop {
        if let Some(status) = status {
            if outputs.iter().all(Output::is_done) {
                return status;
            }
        }
        let mut watched = vec![PollFd::new(taken, PollFlags::IN)];
        if status.is_none() {
            watched.push(PollFd::new(&child.pidfd, PollFlags::IN));
        }
        outputs.iter().for_each(|output| output.watch(&mut watched));
        let from_user = input.watch(&mut watched);
        let timeout = input.away.then_some(&FOREGROUND_POLL_INTERVAL);
        let waited = poll(&mut watched, timeout);
        let came = |at: usize| watched.get(at).is_some_and(|one| !one.revents().is_empty());
        let (signal, ended) = (came(0), status.is_none() && came(1));
        let typed = from_user.is_some_and(came);
        if waited.is_err() {
            continue;
        }
        if signal {
            while let Some(number) = taken.next() {
                match status {
                    None => child::forward(child, number),
                    Some(_) => signals::die_by(number),
                }
            }
        }
        if ended {
            status = child::status(child);
            if status.is_some() {
                outputs.iter_mut().for_each(Output::end);
                input.to = None;
            }
        }
        outputs.iter_mut().for_each(Output::advance);
        input.advance(typed);
    }
}

/// Moves output of the zone to one of the caller's streams.
struct Output {
    /// The pipe from the zone; `None` after its end.
    from: Option<OwnedFd>,
    to: Sink,
    buffer: Buffer,
    /// Maximum number of bytes still to be read from the pipe.
    left: u64,
    /// The error of the caller's stream, if writing to it failed.
    problem: Option<Errno>,
}

impl Output {
    fn new(from: OwnedFd, to: Sink) -> Self {
        Self {
            from: Some(from),
            to,
            buffer: Buffer::default(),
            left: u64::MAX,
            problem: None,
        }
    }

    const fn is_done(&self) -> bool {
        self.from.is_none() && self.buffer.is_empty()
    }

    fn watch<'a>(&'a self, watched: &mut Vec<PollFd<'a>>) {
        if !self.buffer.is_empty() {
            watched.push(PollFd::from_borrowed_fd(self.to.stream(), PollFlags::OUT));
        } else if let Some(from) = &self.from {
            watched.push(PollFd::new(from, PollFlags::IN));
        }
    }

    /// Called when the command has ended: from now on only the bytes that are in the pipe are read.
    fn end(&mut self) {
        let waiting = self.from.as_ref().map(rustix::io::ioctl_fionread);
        self.left = waiting.and_then(Result::ok).unwrap_or(0);
        self.close_if_done();
    }

    fn close_if_done(&mut self) {
        if self.left == 0 {
            self.from = None;
        }
    }

    /// Moves as much as possible without waiting.
    fn advance(&mut self) {
        for _ in 0..PIECES_PER_TURN {
            let Self { buffer, to, .. } = self;
            match buffer.drain(|bytes| to.write(bytes)) {
                Ok(()) if self.buffer.is_empty() => {}
                Ok(()) => return,
                Err(errno) => {
                    // The pipe has no reader: the closed pipe will end the command.
                    self.problem = (errno != Errno::PIPE).then_some(errno);
                    self.from = None;
                    self.buffer = Buffer::default();
                }
            }
            let Some(from) = &self.from else { return };
            match self.buffer.fill(self.left, |space| read(from, space)) {
                Ok(0) => self.from = None,
                Ok(length) => {
                    self.left -= length as u64;
                    self.close_if_done();
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => self.from = None,
            }
        }
    }
}

/// Moves the caller's standard input to the zone.
struct Input {
    /// The pipe to the zone; `None` if the zone has closed the pipe or the input has ended.
    to: Option<OwnedFd>,
    buffer: Buffer,
    is_terminal: bool,
    /// True while zlogin is a background job of the terminal, and another program reads the
    /// keyboard.
    away: bool,
}

impl Input {
    fn new(to: OwnedFd) -> Self {
        Self {
            to: Some(to),
            buffer: Buffer::default(),
            is_terminal: std::io::stdin().is_terminal(),
            away: false,
        }
    }

    /// Adds the descriptors to poll to `watched`. Returns the index of standard input in `watched`,
    /// if it is added.
    fn watch<'a>(&'a self, watched: &mut Vec<PollFd<'a>>) -> Option<usize> {
        let to = self.to.as_ref()?;
        if !self.buffer.is_empty() {
            watched.push(PollFd::new(to, PollFlags::OUT));
            return None;
        }
        // With no requested events, poll(2) still reports a pipe whose reader has closed it.
        watched.push(PollFd::new(to, PollFlags::empty()));
        if self.away {
            return None;
        }
        watched.push(PollFd::from_borrowed_fd(terminal::stdin(), PollFlags::IN));
        Some(watched.len() - 1)
    }

    fn advance(&mut self, typed: bool) {
        let Some(to) = &self.to else { return };
        if is_abandoned(to) {
            self.to = None;
            return;
        }
        if typed {
            self.away = self.is_terminal && terminal::in_background();
        } else if self.away {
            self.away = terminal::in_background();
        }
        if typed && !self.away && self.buffer.is_empty() {
            match self
                .buffer
                .fill(u64::MAX, |space| read(terminal::stdin(), space))
            {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // zlogin was put into the background just now.
                Err(Errno::IO) if self.is_terminal && terminal::in_background() => {
                    self.away = true;
                }
                Ok(0) | Err(_) => {
                    self.to = None;
                    return;
                }
                Ok(_) => {}
            }
        }
        if self.buffer.drain(|bytes| write(to, bytes)).is_err() {
            self.to = None;
        }
    }
}

/// Returns true if the zone has closed the read side of the pipe.
fn is_abandoned(pipe: &OwnedFd) -> bool {
    let mut state = [PollFd::new(pipe, PollFlags::empty())];
    poll(&mut state, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
