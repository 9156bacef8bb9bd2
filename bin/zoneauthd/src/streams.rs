//! Creates the streams of a program, and the user's sides of these streams.
//!
//! zoneauthd creates all streams. A program that runs as root never gets a descriptor that its user
//! opened: such a descriptor could depend on the writer's identity (in /proc, say), block for ever,
//! or refer to a file with a quota.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use authority::Request;
use authority::request::Stream;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both sides of a program's three standard streams.
#[derive(Debug)]
pub struct Streams {
    /// The program's sides of the streams.
    pub program: [Stdio; 3],
    /// The user's sides of the streams, in the order of the protocol.
    pub user: Vec<OwnedFd>,
}

/// Creates the streams that a request asks for.
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
