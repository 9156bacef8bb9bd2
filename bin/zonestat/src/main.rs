//! zonestat(8): shows the use of resources by zones.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the command line with its two faces |
//! | [`run`] | taking samples at their times |
//! | [`solaris`] | reports as Solaris 11 has them |
//! | [`dashboard`] | the dashboard of 2009 |
//! | [`json`] | the same as JSON |
//! | [`tui`] | the full screen |
//! | [`metrics`], [`serve`] | for Prometheus: the text, and the service |
//! | [`zones`] | which zones are shown |
//! | [`number`], [`time`] | numbers and times as they are shown |

#[macro_use(eprint, eprintln)]
extern crate cli;

mod args;
mod dashboard;
#[cfg(test)]
mod example;
mod json;
mod metrics;
mod number;
mod run;
mod serve;
mod solaris;
mod time;
mod tui;
mod zones;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Call;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zonestat") {
        return status;
    }
    cli::output::only_prints();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let call = match args::parse(&words) {
        Ok(call) => call,
        Err(wrong) => {
            eprintln!("zonestat: Error: {wrong}");
            eprint!("{}", args::USAGE);
            return ExitCode::from(cli::status::USAGE);
        }
    };
    let root = match &call {
        Call::Help => None,
        Call::Reports(options) => options.common.root.as_deref(),
        Call::Dashboard(options) => options.common.root.as_deref(),
        Call::Tui(options) => options.common.root.as_deref(),
        Call::OpenMetrics(common) | Call::Serve(common, _) => common.root.as_deref(),
    };
    if !matches!(call, Call::Help) {
        if let Some(status) = cli::refuse_relative_root("zonestat: Error", root) {
            return ExitCode::from(status);
        }
    }
    let done = match &call {
        Call::Help => return cli::output::help("zonestat", args::HELP),
        Call::Reports(options) => run::reports(options),
        Call::Dashboard(options) => run::dashboard(options),
        Call::Tui(options) => tui::run(options),
        Call::OpenMetrics(common) => run::openmetrics(common),
        Call::Serve(common, address) => serve::serve(common, address),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("zonestat: Error: {text}");
            ExitCode::from(cli::status::ERROR)
        }
    }
}
