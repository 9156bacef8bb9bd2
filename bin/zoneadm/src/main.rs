//! zoneadm(8): administers zones.

#[macro_use(print, println, eprint, eprintln)]
extern crate cli;

mod act;
mod again;
mod amount;
mod apply;
mod assemble;
mod attach;
mod backup;
mod call;
mod check;
mod choose;
mod copy;
mod delegated;
mod diff;
mod environments;
mod files;
mod inside;
mod lines;
mod links;
mod list;
mod listing;
mod logs;
mod many;
mod migrate;
mod monitor;
mod network;
mod options;
mod outcome;
mod rctl;
mod report;
mod snapshots;
mod sources;
mod space;
mod subcommands;
mod transfer;
mod usage;
mod whole_host;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use call::{Call, Problem};

/// The subcommands whose purpose is their output, so they have no progress.
const PRINTS: [&str; 15] = [
    "backups",
    "beadm",
    "check",
    "diff",
    "files",
    "help",
    "links",
    "list",
    "logs",
    "monitor",
    "network",
    "rctl",
    "receive",
    "snapshots",
    "storage",
];

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|path| Path::new(path).file_name());
    let mut program = "zoneadm";
    if name.is_some_and(|name| name == "beadm") {
        program = "beadm";
        // The name under which a zone has it.
        words[0] = "beadm".into();
    } else if !words.is_empty() {
        words.remove(0);
    }
    if let Some(status) = cli::output::version(program) {
        return status;
    }
    let status = match call::parse(words) {
        Ok(mut call) => {
            if let Ok(folder) = std::env::current_dir() {
                sources::resolve(&call.verb, &mut call.rest, &folder);
            }
            // A long-running command must not keep the caller's folder busy. All relative paths of
            // the command line are already resolved. Changing to / always succeeds.
            let _ = std::env::set_current_dir("/");
            run(&call)
        }
        Err(Problem::Help(topic)) => usage::print(topic.as_deref()),
        Err(Problem::Nothing) => usage::nothing(),
        Err(Problem::Usage(text)) => usage::complain(&text, None),
    };
    cli::output::end(program, status)
}

/// Returns true if standard output carries data. For the other subcommands, `-` is standard input.
fn is_data(call: &Call) -> bool {
    matches!(call.verb.as_str(), "export" | "pull") && call.rest.iter().any(|word| word == "-")
}

fn run(call: &Call) -> u8 {
    if call.verb != "help" {
        if let Some(status) = cli::refuse_relative_root("zoneadm", call.root.as_deref()) {
            return status;
        }
    }
    if call.json_progress {
        let verb = call.verb.as_str();
        if PRINTS.contains(&verb) {
            return usage::complain(&format!("--progress does not go with {verb}"), None);
        }
        let zone = match call.zones.as_slice() {
            [zone] if zone.parse::<model::ZoneName>().is_ok() => Some(zone.as_str()),
            _ => None,
        };
        cli::progress::as_json(verb, zone, is_data(call));
    }
    if matches!(
        call.verb.as_str(),
        "diff" | "list" | "links" | "monitor" | "rctl" | "snapshots" | "storage"
    ) {
        cli::output::only_prints();
    }
    match call.verb.as_str() {
        "help" => usage::print(call.rest.first().map(String::as_str)),
        "list" => list::run(call),
        "check" => check::run(call),
        "network" => network::run(call),
        "beadm" => environments::run(call),
        "export" | "import" => transfer::run(call),
        "backup" | "backups" | "restore" => backup::run(call),
        "monitor" => monitor::run(call),
        "migrate" => migrate::run(call),
        "receive" => migrate::receive(call),
        "push" | "pull" => copy::run(call),
        "diff" => diff::run(call),
        "files" => files::run(call),
        "links" => links::run(call),
        "logs" => logs::run(call),
        "rctl" => rctl::run(call),
        "snapshots" => snapshots::run(call),
        "storage" => space::run(call),
        zone::boot::AGAIN => again::run(call),
        zone::assemble::ASSEMBLE => assemble::run(call),
        verb if usage::find(verb).is_some() => act::run(call),
        verb => usage::unknown(verb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dash_that_is_an_output_has_data() {
        let has = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let call = call::parse(words);
            call.is_ok_and(|call| is_data(&call))
        };
        assert!(has("-z web export -") && has("-z web export -n -"));
        assert!(has("-z web pull /etc/passwd -"));
        for line in [
            "-z web export /srv/web",
            "-z web attach -a -",
            "-z web attach -n -",
            "-z web import -",
            "-z web push - /tmp",
            "-z web install -a -",
        ] {
            assert!(!has(line), "{line}");
        }
    }
}
