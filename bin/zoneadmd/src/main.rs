//! zoneadmd(8): one small process per active zone. zoneadm starts it; see
//! `zone::daemon` for what it does.

mod surroundings;

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;
use model::ZoneName;
use zone::daemon;

const USAGE: &str = "\
usage: zoneadmd [-R root] -z zonename [--adopt]

Serves one active zone. zoneadm starts it, with the boot plan on descriptor 3
and a pipe for its report on descriptor 4; it is not meant to be run by hand.
  --adopt   take over a running zone whose zoneadmd died
";

struct Call {
    root: Option<PathBuf>,
    zone: ZoneName,
    adopt: bool,
}

fn main() -> ExitCode {
    match parse() {
        Ok(Some(call)) => run(&call),
        Ok(None) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("zoneadmd: {error}");
            eprint!("{USAGE}");
            ExitCode::from(cli::status::USAGE)
        }
    }
}

fn parse() -> Result<Option<Call>, lexopt::Error> {
    let (mut root, mut zone, mut adopt) = (None, None, false);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Short('R') => root = Some(PathBuf::from(arguments.value()?)),
            Short('z') => zone = Some(arguments.value()?.parse()?),
            Long("adopt") => adopt = true,
            Short('?') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    let zone = zone.ok_or("no zone is named")?;
    Ok(Some(Call { root, zone, adopt }))
}

fn run(call: &Call) -> ExitCode {
    let served = cli::host(call.root.as_deref()).and_then(|host| {
        let take = |number| {
            sys::inherited::take(number)
                .map_err(|error| format!("descriptor {number} is not what zoneadm passes: {error}"))
        };
        let passed = daemon::Passed {
            plan: take(daemon::PLAN_FD)?,
            report: take(daemon::REPORT_FD)?,
            lock: take(daemon::LOCK_FD)?,
        };
        let _ = rustix::process::chdir("/");
        surroundings::make_ordinary();
        if call.adopt {
            daemon::adopt(&host, &call.zone, passed)
        } else {
            daemon::boot(&host, &call.zone, passed)
        }
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever waits has heard it over the pipe; standard error is /dev/null
        // unless somebody looks.
        Err(error) => {
            eprintln!("zone '{}': {error}", call.zone);
            ExitCode::from(cli::status::ERROR)
        }
    }
}
