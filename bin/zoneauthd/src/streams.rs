//! The streams of a program, and the ends of them that its user gets.
//!
//! All of them are made here. A program that runs as root never has a descriptor that
//! its user opened: not one whose meaning depends on who writes (in /proc, say), not
//! one that blocks for ever, not one of a file that has a quota.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use authority::Request;
use authority::request::Stream;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both sides of a program's three streams.
#[derive(Debug)]
pub struct Streams {
    /// For the program.
    pub program: [Stdio; 3],
    /// For the user, in the order of the protocol.
    pub user: Vec<OwnedFd>,
}

/// Makes the streams that a request names.
pub fn make(request: &Request) -> std::io::Result<Streams> {
    let mut user = Vec::new();
    let mut terminal = None;
    if request.streams[0] == Stream::Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags)?;
        unlockpt(&controller)?;
        let theirs = ioctl_tiocgptpeer(&controller, flags)?;
        let (rows, columns) = request.size;
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size)?;
        user.push(controller);
        terminal = Some(theirs);
    }
    let mut program = Vec::new();
    for (number, stream) in request.streams.into_iter().enumerate() {
        program.push(match (stream, &terminal) {
            (Stream::Terminal, Some(terminal)) => Stdio::from(terminal.try_clone()?),
            (Stream::Pipe, _) => {
                let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
                let (ours, theirs) = match number {
                    0 => (reading, writing),
                    _ => (writing, reading),
                };
                user.push(theirs);
                Stdio::from(ours)
            }
            _ => Stdio::null(),
        });
    }
    let program = program.try_into();
    Ok(Streams {
        program: program.map_err(|_| std::io::Error::other("not three streams"))?,
        user,
    })
}
