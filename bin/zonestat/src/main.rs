//! zonestat(8): what zones use.
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
    sys::process::restore_sigpipe();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let call = match args::parse(&words) {
        Ok(call) => call,
        Err(wrong) => {
            eprintln!("zonestat: Error: {wrong}");
            eprint!("{}", args::USAGE);
            return ExitCode::from(cli::status::USAGE);
        }
    };
    let done = match &call {
        Call::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
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
