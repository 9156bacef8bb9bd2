//! zlogin(1): enters a zone.

#[macro_use(eprint, eprintln, println)]
extern crate cli;

mod buffer;
mod call;
mod child;
mod console;
mod escape;
mod inside;
mod keyboard;
mod machine;
mod plain;
mod session;
mod sink;
mod terminal;
mod user;

use std::ffi::OsString;
use std::process::ExitCode;

use authority::Program;
use cli::delegate::{self, Input};
use control::audit;

use call::{Call, Mode, Problem};

const USAGE: &str = "\
usage: zlogin [-nQ] [-E | -e c] [-l user] [-S] [-T | -U] zonename
              [command [argument ...]]
       zlogin [-inQ] [-E | -e c] [-l user] [-S] [-T | -U] [--cwd folder] [--env name=value]... zonename
              command [argument ...]
       zlogin -C [-d] [-E | -e c] zonename

Opens a session in a running zone, or runs a command there and returns its exit
status.
  -C       connects to the zone's console, also while the zone is halted
  -d       with -C: leaves when the zone halts
  -E       disables the escape character
  -e c     sets the escape character, by default ~. At the start of a line, ~. leaves
  -i       gives the command a terminal
  -l user  logs in as this user, by default root
  -n       makes the standard input empty
  -Q       prints no messages of zlogin itself
  --cwd F  runs the command in this folder of the zone, an absolute path
  --env A=B
           sets a variable for the command; can be repeated
  -S       starts a plain shell without login, for a zone whose login does not work
  -T       enters an immutable zone by the trusted path: the session may write to
           all files, and does not see the folders that the zone can write to
  -U       as -T, and sees these folders: their programs and files are not trusted

examples: zlogin web1
          zlogin web1 'uptime; exit 3'
          tar c site | zlogin -l www web1 tar x -C /srv
          zlogin -l build --cwd /srv/app --env CI=1 web1 make test
          zlogin -C web1
";

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zlogin") {
        return status;
    }
    let status = match call::parse(std::env::args_os().skip(1)) {
        Ok(call) => run(&call),
        Err(Problem::Help) => return cli::output::help("zlogin", USAGE),
        Err(Problem::Usage(text)) => {
            eprintln!("zlogin: {text}");
            eprint!("{USAGE}");
            cli::status::USAGE
        }
    };
    cli::output::end("zlogin", status)
}

fn run(call: &Call) -> u8 {
    if let Some(status) = delegated(call) {
        return status;
    }
    if let Some(status) = cli::refuse_relative_root("zlogin", None) {
        return status;
    }
    let entered = prepare(call).and_then(|host| {
        record(&host, call);
        enter(&host, call)
    });
    entered.unwrap_or_else(|text| {
        eprintln!("zlogin: {text}");
        cli::status::ERROR
    })
}

/// Writes a login to a zone that has a label to the audit record.
fn record(host: &host::Host, call: &Call) {
    let Ok(zone) = call.zone.parse() else {
        return;
    };
    if let Ok(label @ Some(_)) = store::labels::of_zone(&host.root, &zone) {
        audit::record(&host.root, audit::Event::Login, &zone, label, None);
    }
}

fn enter(host: &host::Host, call: &Call) -> Result<u8, String> {
    match &call.mode {
        Mode::Console { leave_on_halt } => console::attach(host, call, *leave_on_halt),
        _ => inside::run(host, call),
    }
}

fn prepare(call: &Call) -> Result<host::Host, String> {
    if let Some(zone) = cli::current_zone() {
        return Err(format!(
            "must be in the global zone to log in to a zone (this is '{zone}')."
        ));
    }
    if call.zone == cli::GLOBAL {
        return Err("zone 'global' is where you are; log in to another one.".to_owned());
    }
    cli::host(None).map_err(|error| error.to_string())
}

/// Returns the status of a zlogin that zoneauthd ran, or refused to run, for a user other than
/// root.
fn delegated(call: &Call) -> Option<u8> {
    if cli::is_root() || cli::current_zone().is_some() || call.zone == cli::GLOBAL {
        return None;
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let input = if call.no_input {
        Input::Nothing
    } else {
        Input::Standard
    };
    let outcome = delegate::run(Program::Zlogin, &words, input);
    let classic = format!("only a privileged user may log in to zone '{}'.", call.zone);
    Some(delegate::refused(Program::Zlogin, &outcome, &classic))
}
