//! Copies for a user who is not root.
//!
//! The files of the host are read and written by this process and its child, with the rights of the
//! user. zoneauthd runs a zoneadm as root that reads or writes only a tar stream: no path of the
//! host reaches it.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};

use authority::Program;
use cli::delegate::{self, Input};
use model::ZoneName;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use zone::copy::{Direction, HostSide, fork_host_side, wait};

use super::{Parsed, complain};
use crate::call::Call;

pub fn copy(call: &Call, zone: &ZoneName, parsed: &Parsed) -> u8 {
    let request = &parsed.request;
    if request.direction == Direction::Pull && parsed.keeps_owners {
        eprintln!("zoneadm: pull -a: only root can give files of the host to other users");
        return cli::status::ERROR;
    }
    let by_stream = request.host_side == HostSide::Stream || parsed.dry_run;
    let child = match by_stream {
        true => None,
        false => match side(zone, parsed) {
            Ok(child) => Some(child),
            Err(text) => {
                eprintln!("zoneadm: {text}");
                return cli::status::ERROR;
            }
        },
    };
    let input = match request.direction {
        Direction::Push if !parsed.dry_run => Input::Standard,
        _ => Input::Nothing,
    };
    let outcome = delegate::run(Program::Zoneadm, &words(call, zone, parsed), input);
    let verb = &call.verb;
    let classic = format!("zone '{zone}': only a privileged user may {verb} files.");
    let status = delegate::refused(Program::Zoneadm, &outcome, &classic);
    let Some(child) = child else { return status };
    // Closes the pipe, so that the child finds its end.
    if let Ok(null) = null() {
        let _ = match request.direction {
            Direction::Push => dup2_stdin(null),
            Direction::Pull => dup2_stdout(null),
        };
    }
    // After a refusal, the child only reports that its stream has no end, which is no news.
    status.max(wait(&child).unwrap_or(cli::status::ERROR))
}

/// Starts the process with the files of the user, and connects it with standard input or output.
fn side(zone: &ZoneName, parsed: &Parsed) -> Result<sys::process::Child, String> {
    let fail = |error: std::io::Error| format!("could not make a pipe: {error}");
    let flags = rustix::pipe::PipeFlags::CLOEXEC;
    let (reading, writing) = rustix::pipe::pipe_with(flags).map_err(|errno| fail(errno.into()))?;
    let (theirs, ours) = match parsed.request.direction {
        Direction::Push => (writing, reading),
        Direction::Pull => (reading, writing),
    };
    let tell = |place, text: &str| complain(zone, place, text);
    let child = fork_host_side(&parsed.request, theirs, &tell);
    let child = child.map_err(|error| host::flatten(&error))?;
    let connected = match parsed.request.direction {
        Direction::Push => dup2_stdin(ours.as_fd()),
        Direction::Pull => dup2_stdout(ours.as_fd()),
    };
    connected.map_err(|errno| fail(errno.into()))?;
    Ok(child)
}

fn null() -> rustix::io::Result<OwnedFd> {
    openat(
        CWD,
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Returns the command for zoneauthd, which has no path of the host.
fn words(call: &Call, zone: &ZoneName, parsed: &Parsed) -> Vec<OsString> {
    let request = &parsed.request;
    let mut words: Vec<OsString> = Vec::new();
    if let Some(root) = &call.root {
        words.extend(["-R".into(), root.into()]);
    }
    words.extend(["-z".into(), zone.as_str().into(), call.verb.clone().into()]);
    let flags = [
        (parsed.dry_run, "-n"),
        (parsed.keeps_owners, "-a"),
        (request.rules.set_id, "-S"),
        (
            request.may_rename && request.direction == Direction::Push,
            "-r",
        ),
    ];
    words.extend(
        flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, flag)| flag.into()),
    );
    if let Some(owner) = &parsed.owner {
        words.extend(["-o".into(), owner.into()]);
    }
    match request.direction {
        Direction::Push => words.extend(["-".into(), request.to.clone().into()]),
        Direction::Pull => {
            words.extend(request.sources.iter().map(OsString::from));
            words.push("-".into());
        }
    }
    words
}
