//! zoneadm(8): administers zones.

mod act;
mod apply;
mod attach;
mod call;
mod delegated;
mod environments;
mod inside;
mod links;
mod list;
mod listing;
mod many;
mod memory;
mod migrate;
mod rctl;
mod report;
mod snapshots;
mod space;
mod subcommands;
mod transfer;
mod usage;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use call::{Call, Problem};

fn main() -> ExitCode {
    // As everybody expects of a command in a pipe; Rust ignores the signal.
    sys::process::restore_sigpipe();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|path| Path::new(path).file_name());
    if name.is_some_and(|name| name == "beadm") {
        // The name under which a zone has it.
        words[0] = "beadm".into();
    } else if !words.is_empty() {
        words.remove(0);
    }
    ExitCode::from(match call::parse(words) {
        Ok(call) => {
            // What runs long must not hold the caller's folder. No path that is given
            // to zoneadm is a relative one; / can always be entered.
            let _ = std::env::set_current_dir("/");
            run(&call)
        }
        Err(Problem::Help(topic)) => usage::print(topic.as_deref()),
        Err(Problem::Usage(text)) => usage::complain(&text, None),
    })
}

fn run(call: &Call) -> u8 {
    match call.verb.as_str() {
        "help" => usage::print(call.rest.first().map(String::as_str)),
        "list" => list::run(call),
        "beadm" => environments::run(call),
        "export" | "import" => transfer::run(call),
        "migrate" => migrate::run(call),
        "receive" => migrate::receive(call),
        "links" => links::run(call),
        "rctl" => rctl::run(call),
        "snapshots" => snapshots::run(call),
        "storage" => space::run(call),
        verb if usage::find(verb).is_some() => act::run(call),
        verb => usage::complain(&format!("{verb}: unknown subcommand"), None),
    }
}
