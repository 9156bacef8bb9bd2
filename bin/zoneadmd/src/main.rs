//! zoneadmd(8): one small process per active zone. zoneadm starts it; see `daemon` for its work.

#[macro_use(eprint, eprintln)]
extern crate cli;

mod surroundings;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;
use model::ZoneName;

const USAGE: &str = "\
usage: zoneadmd [-R root] -z zonename [--adopt | --job | --arriving]
       zoneadmd --probe-kvm

Serves one active zone. zoneadm starts it, with the boot plan on descriptor 3
and a pipe for its report on descriptor 4; it is not meant to be run by hand.
  --adopt      take over a running zone whose zoneadmd died
  --job        run a program on a copy of the zone's root, with its output on
               descriptor 6, and end with it
  --arriving   boot a machine that migrates from another host while it runs there,
               with its files on descriptors 6 to 8
  --probe-kvm  find out whether the processor runs the kernel of a guest; may hang
";

enum What {
    Serve(Call),
    /// Try whether the processor runs the kernel of a guest.
    ProbeKvm,
    Help,
}

struct Call {
    root: Option<PathBuf>,
    zone: ZoneName,
    adopt: bool,
    job: bool,
    arriving: bool,
}

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zoneadmd") {
        return status;
    }
    match parse() {
        Ok(What::Serve(call)) => run(&call),
        Ok(What::ProbeKvm) => probe_kvm(),
        Ok(What::Help) => cli::output::help("zoneadmd", USAGE),
        Err(error) => {
            eprintln!("zoneadmd: {error}");
            eprint!("{USAGE}");
            ExitCode::from(cli::status::USAGE)
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn probe_kvm() -> ExitCode {
    match sys::kvm::runs_guests() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zoneadmd: /dev/kvm: {error}");
            ExitCode::from(cli::status::ERROR)
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn probe_kvm() -> ExitCode {
    ExitCode::from(cli::status::ERROR)
}

fn parse() -> Result<What, lexopt::Error> {
    let (mut root, mut zone, mut adopt, mut job) = (None, None, false, false);
    let mut arriving = false;
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Short('R') => root = Some(PathBuf::from(arguments.value()?)),
            Short('z') => zone = Some(arguments.value()?.parse()?),
            Long("adopt") => adopt = true,
            Long("job") => job = true,
            Long("arriving") => arriving = true,
            Long("probe-kvm") => return Ok(What::ProbeKvm),
            Short('?') | Long("help") => return Ok(What::Help),
            other => return Err(other.unexpected()),
        }
    }
    let zone = zone.ok_or("no zone is named")?;
    Ok(What::Serve(Call {
        root,
        zone,
        adopt,
        job,
        arriving,
    }))
}

fn run(call: &Call) -> ExitCode {
    match serve(call) {
        Ok(()) => ExitCode::SUCCESS,
        // The caller has got the error over the pipe; standard error is /dev/null unless it was
        // redirected.
        Err(error) => {
            eprintln!("zone '{}': {}", call.zone, host::flatten(&*error));
            ExitCode::from(cli::status::ERROR)
        }
    }
}

fn serve(call: &Call) -> Result<(), Box<dyn Error>> {
    let host = cli::host(call.root.as_deref())?;
    let take = |number| {
        sys::inherited::take(number).map_err(|error| {
            format!(
                "descriptor {number} was not passed by zoneadm, which starts this program: {error}"
            )
        })
    };
    let passed = daemon::Passed {
        plan: take(daemon::PLAN_FD)?,
        report: take(daemon::REPORT_FD)?,
        lock: take(daemon::LOCK_FD)?,
        doors: match call.arriving {
            true => {
                let [control, memory, disks] = daemon::DOOR_FDS;
                Some(daemon::Doors {
                    control: take(control)?,
                    memory: take(memory)?,
                    disks: take(disks)?,
                })
            }
            false => None,
        },
    };
    let log = call.job.then(|| take(daemon::LOG_FD)).transpose()?;
    let _ = rustix::process::chdir("/");
    let lower = surroundings::make_ordinary();
    if let Some(log) = log {
        return Ok(daemon::job(&host, &call.zone, passed, log)?);
    }
    if !call.adopt && !lower.is_empty() {
        let text = format!(
            "WARNING: limits are lower than usual, as zoneadm ran without CAP_SYS_RESOURCE under lower ones: {}",
            lower.join(", ")
        );
        control::log::note(&host, &call.zone, &text);
    }
    if call.adopt {
        daemon::adopt(&host, &call.zone, passed)?;
    } else {
        daemon::boot(&host, &call.zone, passed)?;
    }
    Ok(())
}
