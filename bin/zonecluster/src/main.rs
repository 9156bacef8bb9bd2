//! zonecluster(8): puts zones under Pacemaker, which boots them on another host when theirs fails.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the command line |
//! | `call` | the programs of Pacemaker and of zones that are called |
//! | `add` | `add`, `update` and `remove` |
//! | `guest` | the conditions for a guest node |
//! | `status` | `status`: Pacemaker's view beside this host's |
//! | `place` | `move`, `evacuate` and `return` |

#[macro_use(eprint, eprintln, print, println)]
extern crate cli;

mod add;
mod args;
mod call;
mod guest;
mod place;
mod shared;
mod status;

use std::process::ExitCode;

use args::{Command, USAGE};

const NAME: &str = "zonecluster";

fn main() -> ExitCode {
    if let Some(status) = cli::output::version(NAME) {
        return status;
    }
    let command = match args::parse(lexopt::Parser::from_env()) {
        Ok(Some(command)) => command,
        Ok(None) => return cli::output::help(NAME, USAGE),
        Err(error) => {
            eprintln!("{NAME}: {error:#}");
            eprint!("{USAGE}");
            return ExitCode::from(cli::status::USAGE);
        }
    };
    let done = match &command {
        Command::Add {
            failover,
            storage,
            dry,
        } => add::add(failover, storage.as_deref(), *dry),
        Command::Update { zone } => add::update(zone),
        Command::Remove { zone } => add::remove(zone),
        Command::Status => status::print(),
        Command::Move { zone, host } => place::move_zone(zone, host.as_deref()),
        Command::Evacuate { host } => place::evacuate(host),
        Command::Return { host } => place::bring_back(host),
    };
    match done {
        Ok(()) => cli::output::end(NAME, cli::status::OK),
        Err(error) => {
            eprintln!("{NAME}: {error:#}");
            cli::output::end(NAME, cli::status::ERROR)
        }
    }
}
