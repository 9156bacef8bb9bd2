//! clzonecluster(8), also called clzc: zone clusters.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the command line |
//! | `fault` | the exit statuses |
//! | `fence` | fence requests of zones |
//! | `spawn` | runs a program with a time limit |
//! | `hosts` | runs commands on hosts, by ssh |
//! | `local` | the part of this host: its file of a zone cluster, and its zone |
//! | `world` | the answers of all hosts, and the newest configuration |
//! | `configure` | `configure` and `delete` |
//! | `change` | `set` and `move` |
//! | `revision` | `show-rev` |
//! | `verbs` | the other verbs |

#[macro_use(eprint, eprintln, print, println)]
extern crate cli;

mod args;
mod change;
mod configure;
mod fault;
mod fence;
mod hosts;
mod local;
mod revision;
mod spawn;
mod verbs;
mod world;

use std::process::ExitCode;

use args::{Command, USAGE};

const NAME: &str = "clzonecluster";

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
            return ExitCode::from(fault::INVALID);
        }
    };
    if !cli::is_root() {
        eprintln!("{NAME}: only root can use zone clusters");
        return cli::output::end(NAME, fault::ACCESS);
    }
    let done = match command {
        Command::Local(action, name, rest) => local::act(&action, &name, &rest)
            .map(|status| u8::try_from(status).unwrap_or(fault::FAILED))
            .map_err(fault::Fault::from),
        Command::Fence(name, words) => Ok(fence::serve(&name, &words)),
        Command::Cluster(request) => verbs::act(&hosts::Ssh::new(), &request),
    };
    match done {
        Ok(status) => cli::output::end(NAME, status),
        Err(fault) => {
            eprintln!("{NAME}: {}", fault.text);
            cli::output::end(NAME, fault.status)
        }
    }
}
