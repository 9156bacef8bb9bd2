//! Runs a login, a shell or a command inside a zone.

use std::ffi::CString;
use std::io::IsTerminal;

use host::Host;
use host::flatten;
use model::ZoneName;
use platform::enter::{EntryError, RunningZone};
use platform::trusted::Sight;
use rustix::fs::{CWD, Mode, OFlags, openat};
use sys::process::{Executable, Program};

use crate::call::{self, Call};
use crate::{machine, plain, session, user};

/// The folders in a zone that are searched for login, su and a shell.
const FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Exit status of a command that could not be run.
pub const NOT_RUN: u8 = 127;

pub fn run(host: &Host, call: &Call) -> Result<u8, String> {
    let name: Result<ZoneName, _> = call.zone.parse();
    let zone = name.map_err(|_| format!("zone '{}' unknown", call.zone))?;
    if call.trusted.is_none()
        && let Some(status) = machine::run(host, &zone, call)?
    {
        return Ok(status);
    }
    let opened = match call.trusted {
        None => RunningZone::open(host, &zone),
        Some(sight) => RunningZone::open_trusted(host, &zone, sight)
            .inspect(|_| note_trusted(host, &zone, call, sight)),
    };
    let zone = opened.map_err(|error| match error {
        EntryError::Other(error) => flatten(&error),
        other => other.to_string(),
    })?;
    let (command, terminal) = match &call.mode {
        call::Mode::Command { words, terminal } => (Some(words.join(" ")), *terminal),
        _ => (None, std::io::stdin().is_terminal()),
    };
    if terminal {
        session::run(&zone, call, command.as_deref())
    } else {
        plain::run(&zone, call, command.as_deref())
    }
}

/// Writes a trusted login into the log of the zone on the host.
fn note_trusted(host: &Host, zone: &ZoneName, call: &Call, sight: Sight) {
    let option = match sight {
        Sight::Hidden => "-T",
        Sight::Shown => "-U",
    };
    let deed = match &call.mode {
        call::Mode::Command { words, .. } => format!("command: {}", words.join(" ")),
        _ => "session".to_owned(),
    };
    control::log::note(host, zone, &format!("zlogin {option}, {deed}"));
}

/// Replaces the process in the zone by the login, su or shell that the caller asked for.
pub fn become_command(zone: &RunningZone, call: &Call, command: Option<&str>) -> u8 {
    let attempts: Vec<Vec<String>> = attempts(call, command);
    let mut problem = "the zone has no shell".to_owned();
    let has_su = || find("su").is_some();
    if call.user != "root" && !call.failsafe && !has_su() {
        problem = become_user(zone, call, command);
    }
    for words in attempts {
        let Some(executable) = words.first().and_then(|name| find(name)) else {
            continue;
        };
        match program(zone, executable, &words) {
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

/// Becomes a user of a zone that has no su, and then executes that user's shell. Returns the reason
/// if either fails.
fn become_user(zone: &RunningZone, call: &Call, command: Option<&str>) -> String {
    let user = match user::find(&call.user) {
        Ok(user) => user,
        Err(why) => return why,
    };
    let shell = match command {
        Some(command) => vec![user.shell.clone(), "-c".to_owned(), command.to_owned()],
        // A leading dash in its name tells a shell that it is a login shell.
        None => vec![format!("-{}", user.shell)],
    };
    let mut program = match program(zone, user.shell.clone(), &shell) {
        Ok(program) => program,
        Err(why) => return why,
    };
    let own = user.environment();
    program.environment.retain(|setting| {
        let name = |text: &CString| {
            text.to_bytes()
                .split(|byte| *byte == b'=')
                .next()
                .map(<[u8]>::to_vec)
        };
        own.iter().all(|other| name(other) != name(setting))
    });
    program.environment.extend(own);
    match user.become_it() {
        Ok(()) => program.exec().to_string(),
        Err(errno) => format!("could not become user {}: {errno}", call.user),
    }
}

/// Returns the programs to try, in order of preference: a zone from an image may lack login or su.
fn attempts(call: &Call, command: Option<&str>) -> Vec<Vec<String>> {
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let user = call.user.as_str();
    let shell = match command {
        Some(command) => words(&["sh", "-c", command]),
        None => words(&["sh"]),
    };
    // A trusted login may lack /etc, which login and su need.
    let lacks_etc = call.trusted == Some(Sight::Hidden) && user == "root";
    if call.failsafe || lacks_etc {
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

/// Returns the path of a program, found as a user of the zone would find it: links of the zone are
/// followed. The program is executed by its path, so it may be a script or a program for an
/// emulated processor.
fn find(name: &str) -> Option<String> {
    FOLDERS.iter().find_map(|folder| {
        let path = format!("{folder}/{name}");
        let there = openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        there.is_ok().then_some(path)
    })
}

fn program(zone: &RunningZone, executable: String, words: &[String]) -> Result<Program, String> {
    let strings = |list: Vec<String>| -> Result<Vec<CString>, String> {
        list.into_iter()
            .map(|text| CString::new(text).map_err(|error| error.to_string()))
            .collect()
    };
    let mut environment: Vec<String> = zone
        .environment()
        .iter()
        .filter(|text| !text.starts_with("TERM="))
        .cloned()
        .collect();
    let kind = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    environment.push(format!("TERM={kind}"));
    environment.push("HOME=/root".to_owned());
    Ok(Program {
        executable: Executable::Path(CString::new(executable).map_err(|error| error.to_string())?),
        arguments: strings(words.to_vec())?,
        environment: strings(environment)?,
    })
}
