//! zps(1): lists processes and their zones.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the command line |
//! | [`zones`] | which zones are active, and whose processes are whose |
//! | [`process`] | a process as /proc describes it |
//! | [`field`] | the columns |
//! | [`table`] | rows as text |

#[macro_use(eprint, eprintln, print)]
extern crate cli;

mod args;
mod field;
mod process;
mod table;
mod zones;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;

use args::{Args, Input};
use field::Row;
use process::Host;
use zones::Zones;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zps") {
        return status;
    }
    cli::output::only_prints();
    let args = match args::parse(std::env::args_os().skip(1)) {
        Ok(Input::List(args)) => args,
        Ok(Input::Help) => return cli::output::help("zps", args::HELP),
        Err(text) => {
            eprintln!("zps: {text}");
            eprint!("{}", args::USAGE);
            return ExitCode::from(cli::status::USAGE);
        }
    };
    if let Some(status) = cli::refuse_relative_root("zps", args.root.as_deref()) {
        return ExitCode::from(status);
    }
    let status = match run(&args) {
        // As in every ps, an empty list is a failure, so that scripts can test for it.
        Ok(0) => cli::status::ERROR,
        Ok(_) => cli::status::OK,
        Err(text) => {
            eprintln!("zps: {text}");
            cli::status::ERROR
        }
    };
    cli::output::end("zps", status)
}

/// Prints the processes. Returns their number.
fn run(args: &Args) -> Result<usize, String> {
    let zones = match cli::current_zone() {
        Some(zone) => Zones::inside(zone),
        None => {
            let root = cli::root(args.root.as_deref()).map_err(|error| error.to_string())?;
            Zones::of_host(root)?
        }
    };
    for warning in &zones.warnings {
        eprintln!("zps: {warning}");
    }
    let wanted = zones.choose(&args.zones)?;
    let users = users();
    let host = Host::read();
    let processes = process::all(&args.pids);
    let rows: Vec<Row<'_>> = processes
        .iter()
        .map(|process| Row {
            zone: zones.of(process),
            process,
            host: &host,
            users: &users,
        })
        .filter(|row| wanted.as_ref().is_none_or(|ids| ids.contains(&row.zone.id)))
        .collect();
    let text = if args.json {
        let list: Vec<field::Json> = rows.iter().map(Row::json).collect();
        serde_json::to_string_pretty(&list).map_err(|error| error.to_string())? + "\n"
    } else {
        let width = if args.wide { None } else { terminal_width() };
        table::render(&args.columns(zones.is_labeled()), &rows, width)
    };
    print!("{text}");
    Ok(rows.len())
}

/// Returns the width of the output's terminal in columns, if the output is a terminal.
fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Returns the names of user ids, from the password file alone: other sources of names need
/// plug-ins of the C library. An id without a name is shown as a number.
fn users() -> BTreeMap<u32, String> {
    let text = process::read_bounded("/etc/passwd").unwrap_or_default();
    let mut users = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
            users.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    users
}
