//! Running something inside a zone.

use std::ffi::CString;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};

use model::ZoneName;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::termios::tcsetwinsize;
use rustix::time::Timespec;
use sys::process::{Child, Executable, Program};
use zone::Host;
use zone::enter::{Door, NoDoor};
use zone::platform::flatten;

use crate::call::{self, Call};
use crate::escape::Escape;
use crate::terminal::{self, Raw};

/// Where programs are in a zone, for finding login, su and a shell.
const FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Exit status of a command that could not be run.
const NOT_RUN: u8 = 127;

/// How often the size of the window is looked at.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

pub fn run(host: &Host, call: &Call) -> Result<u8, String> {
    let name: Result<ZoneName, _> = call.zone.parse();
    let zone = name.map_err(|_| format!("zone '{}' unknown", call.zone))?;
    let door = Door::open(host, &zone).map_err(|error| match error {
        NoDoor::Other(error) => flatten(&error),
        other => other.to_string(),
    })?;
    let (command, terminal) = match &call.mode {
        call::Mode::Command { words, terminal } => (Some(words.join(" ")), *terminal),
        _ => (None, std::io::stdin().is_terminal()),
    };
    if terminal {
        with_terminal(&door, call, command.as_deref())
    } else {
        plainly(&door, call, command.as_deref())
    }
}

/// The three streams are the caller's; the status is the command's.
fn plainly(door: &Door, call: &Call, command: Option<&str>) -> Result<u8, String> {
    let null = call
        .no_input
        .then(|| std::fs::File::open("/dev/null"))
        .transpose();
    let null = null.map_err(|error| format!("could not open /dev/null: {error}"))?;
    let keep: Vec<_> = null.iter().map(AsFd::as_fd).collect();
    let child = door.enter(&keep, || {
        if let Some(null) = &null {
            if rustix::stdio::dup2_stdin(null).is_err() {
                return NOT_RUN;
            }
        }
        become_command(door, call, command)
    });
    Ok(status(&child.map_err(|error| flatten(&error))?))
}

/// A terminal of the zone's own stands between the zone and the caller's.
fn with_terminal(door: &Door, call: &Call, command: Option<&str>) -> Result<u8, String> {
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| format!("could not make a socket: {errno}"))?;
    let size = terminal::size();
    let child = door.enter(&[theirs.as_fd()], || match take_terminal(&theirs, size) {
        Ok(()) => become_command(door, call, command),
        Err(error) => {
            let text = format!("zlogin: could not make a terminal in the zone: {error}\n");
            let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
            NOT_RUN
        }
    });
    let child = child.map_err(|error| flatten(&error))?;
    drop(theirs);
    let Some((controller, name)) = sys::passing::receive(ours.as_fd()) else {
        return Ok(status(&child));
    };
    // What the zone says of its terminal is shown, so it must be no more than a number.
    let number: String = name.chars().filter(char::is_ascii_digit).take(10).collect();
    if !call.quiet {
        println!("[Connected to zone '{}' pts/{number}]", call.zone);
    }
    let raw = Raw::enter();
    pump(&controller, &child, &mut Escape::new(call.escape));
    drop(raw);
    drop(controller);
    let status = status(&child);
    if !call.quiet {
        println!("\n[Connection to zone '{}' pts/{number} closed]", call.zone);
    }
    // A session always ends well; a command's status counts.
    Ok(if command.is_some() {
        status
    } else {
        cli::status::OK
    })
}

/// In the zone: makes a terminal of the zone's and takes it as the controlling one.
fn take_terminal(
    to_zlogin: &OwnedFd,
    size: Option<rustix::termios::Winsize>,
) -> Result<(), String> {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, ptsname, unlockpt};
    let text = |errno: rustix::io::Errno| errno.to_string();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let controller = openat(CWD, "/dev/pts/ptmx", flags, Mode::empty()).map_err(text)?;
    unlockpt(&controller).map_err(text)?;
    let name = ptsname(&controller, Vec::new()).map_err(text)?;
    let terminal =
        ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(text)?;
    if let Some(size) = size {
        tcsetwinsize(&controller, size).map_err(text)?;
    }
    sys::passing::send(
        to_zlogin.as_fd(),
        controller.as_fd(),
        &name.to_string_lossy(),
    )
    .map_err(|error| error.to_string())?;
    drop(controller);
    rustix::process::setsid().map_err(text)?;
    rustix::process::ioctl_tiocsctty(&terminal).map_err(text)?;
    rustix::stdio::dup2_stdin(&terminal).map_err(text)?;
    rustix::stdio::dup2_stdout(&terminal).map_err(text)?;
    rustix::stdio::dup2_stderr(&terminal).map_err(text)
}

/// In the zone: becomes the login, su or shell that was asked for.
fn become_command(door: &Door, call: &Call, command: Option<&str>) -> u8 {
    let attempts: Vec<Vec<String>> = attempts(call, command);
    let mut problem = "the zone has no shell".to_owned();
    for words in attempts {
        let Some(executable) = words.first().and_then(|name| find(name)) else {
            continue;
        };
        match program(door, executable, &words) {
            Ok(program) => problem = program.exec().to_string(),
            Err(error) => problem = error,
        }
    }
    let text = format!(
        "zlogin: could not run a shell in zone '{}': {problem}\n",
        call.zone
    );
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    NOT_RUN
}

/// What to run, the best first: a zone from an image may lack login or su.
fn attempts(call: &Call, command: Option<&str>) -> Vec<Vec<String>> {
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let user = call.user.as_str();
    let shell = match command {
        Some(command) => words(&["sh", "-c", command]),
        None => words(&["sh"]),
    };
    if call.failsafe {
        return vec![shell];
    }
    let mut all = match command {
        Some(command) => vec![words(&["su", "-", user, "-c", command])],
        None if std::io::stdin().is_terminal() => {
            vec![words(&["login", "-f", user]), words(&["su", "-", user])]
        }
        None => vec![words(&["su", "-", user])],
    };
    if user == "root" {
        all.push(shell);
    }
    all
}

fn find(name: &str) -> Option<OwnedFd> {
    FOLDERS.iter().find_map(|folder| {
        let path = format!("{folder}/{name}");
        // As a user of the zone would start it, so its own links count.
        openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
    })
}

fn program(door: &Door, executable: OwnedFd, words: &[String]) -> Result<Program, String> {
    let strings = |list: Vec<String>| -> Result<Vec<CString>, String> {
        list.into_iter()
            .map(|text| CString::new(text).map_err(|error| error.to_string()))
            .collect()
    };
    let mut environment: Vec<String> = door
        .environment()
        .iter()
        .filter(|text| !text.starts_with("TERM="))
        .cloned()
        .collect();
    let kind = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    environment.push(format!("TERM={kind}"));
    environment.push("HOME=/root".to_owned());
    Ok(Program {
        executable: Executable::Open(executable),
        arguments: strings(words.to_vec())?,
        environment: strings(environment)?,
    })
}

/// Moves bytes both ways until the zone's side of the terminal is closed.
fn pump(controller: &OwnedFd, child: &Child, escape: &mut Escape) {
    let mut piece = [0; 4096];
    let mut size = terminal::size();
    let mut typing = true;
    loop {
        let mut watched = vec![
            PollFd::new(controller, PollFlags::IN),
            PollFd::new(&child.pidfd, PollFlags::IN),
        ];
        if typing {
            watched.push(PollFd::from_borrowed_fd(terminal::stdin(), PollFlags::IN));
        }
        if poll(&mut watched, Some(&LOOK_EVERY)).is_err() {
            continue;
        }
        let spoke = |i: usize| watched.get(i).is_some_and(|one| !one.revents().is_empty());
        let (from_zone, ended, from_user) = (spoke(0), spoke(1), spoke(2));
        if from_zone {
            match rustix::io::read(controller, &mut piece) {
                Ok(length) if length > 0 && terminal::show(&piece[..length]) => {}
                _ => return,
            }
        } else if ended {
            return;
        }
        if from_user {
            match rustix::io::read(terminal::stdin(), &mut piece) {
                Ok(0) | Err(_) => typing = false,
                Ok(length) => {
                    let typed = escape.typed(&piece[..length]);
                    let _ = rustix::io::write(controller, &typed.send);
                    if typed.leave {
                        return;
                    }
                }
            }
        }
        let now = terminal::size();
        if let Some(now) = now {
            if size.is_none_or(|size| (size.ws_row, size.ws_col) != (now.ws_row, now.ws_col)) {
                let _ = tcsetwinsize(controller, now);
            }
        }
        size = now;
    }
}

/// Waits for the command; a signal counts as a shell counts it.
fn status(child: &Child) -> u8 {
    loop {
        match waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => {
                let number = status
                    .exit_status()
                    .or_else(|| status.terminating_signal().map(|signal| 128 + signal));
                return number
                    .and_then(|n| u8::try_from(n).ok())
                    .unwrap_or(cli::status::ERROR);
            }
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(_) => return cli::status::ERROR,
        }
    }
}
