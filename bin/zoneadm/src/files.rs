//! `zoneadm files`: looks into a snapshot, and takes files back.

mod cat;
mod ls;
mod parse;
mod restore;

use host::Host;
use model::ZoneName;

use self::parse::{Parsed, Task, parse};
use crate::call::Call;
use crate::{act, usage};

pub fn run(call: &Call) -> u8 {
    let parsed = match parse(&call.rest) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return usage::print(Some("files")),
        Err(text) => return usage::complain(&text, Some("files")),
    };
    let call = &match parsed.task {
        Task::Cat => cat::for_terminal(call),
        _ => call.clone(),
    };
    let (host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    let [zone] = zones.as_slice() else {
        return usage::complain("files needs exactly one zone", Some("files"));
    };
    if parsed.task != Task::Restore {
        cli::output::only_prints();
    }
    let host = Host {
        plan_only: parsed.dry_run,
        ..host
    };
    act(&host, zone, &parsed)
}

fn act(host: &Host, zone: &ZoneName, parsed: &Parsed) -> u8 {
    match parsed.task {
        Task::Ls => ls::run(host, zone, parsed),
        Task::Cat => cat::run(host, zone, parsed),
        Task::Restore => restore::run(host, zone, parsed),
    }
}
