//! zoneauthd(8): runs zoneadm, zlogin and zonecfg for users who are not root, as far as
//! the `admin` resources of zones say.
//!
//! The kernel reports the user id of the client's socket. The crate `authority` decides about the
//! requests. zoneauthd creates the pipes and the terminal that connect the user with the program.
//! No descriptor, path or variable of the user reaches a root process, and only parsed words of the
//! user do.

#[macro_use(eprint, eprintln)]
extern crate cli;

mod decide;
mod doors;
mod listen;
mod log;
mod program;
mod serve;
mod streams;
mod users;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;

const USAGE: &str = "\
usage: zoneauthd [-R root]

Runs zoneadm, zlogin and zonecfg for users who are not root, as far as admin
resources of zones allow it. Listens on /run/zones/auth.sock, or on the socket that systemd
passes. Every request is logged in /var/log/zones/authority.log and to syslog.

examples: zonecfg -z web1 'add admin; set user=joe; set auths=login,manage; end'
          zoneauthd &
";

/// The first argument of a zoneauthd process that is about to execute the program of a request.
pub const BECOME: &str = "--become";

enum Call {
    Help,
    Serve { root: Option<PathBuf> },
}

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zoneauthd") {
        return status;
    }
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == BECOME) {
        return program::become_it(words);
    }
    match parse() {
        Ok(Call::Help) => cli::output::help("zoneauthd", USAGE),
        Ok(Call::Serve { root }) => match cli::refuse_relative_root("zoneauthd", root.as_deref()) {
            Some(status) => ExitCode::from(status),
            None => run(root.as_deref()),
        },
        Err(error) => {
            eprintln!("zoneauthd: {error}");
            eprint!("{USAGE}");
            ExitCode::from(cli::status::USAGE)
        }
    }
}

fn parse() -> Result<Call, lexopt::Error> {
    let mut root = None;
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Short('R') => root = Some(PathBuf::from(arguments.value()?)),
            Short('?' | 'h') | Long("help") => return Ok(Call::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Call::Serve { root })
}

fn run(root: Option<&Path>) -> ExitCode {
    let serve = || {
        if cli::current_zone().is_some() {
            return Err("must be in the global zone.".to_owned());
        }
        if !cli::is_root() {
            return Err("must be run as root, to act for other users.".to_owned());
        }
        let host = cli::host(root).map_err(|error| error.to_string())?;
        let _ = rustix::process::chdir("/");
        let listener = listen::listener(&host.root)?;
        serve::serve(&host, &listener)
    };
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("zoneauthd: {text}");
            ExitCode::from(cli::status::ERROR)
        }
    }
}
