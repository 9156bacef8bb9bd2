//! zones-service(8): starts and stops zones when the host boots and shuts down, and takes their
//! automatic snapshots.

#[macro_use(eprintln, println)]
extern crate cli;

mod args;
mod progress;
mod run;
mod show;
mod slide;

use std::process::ExitCode;

use args::{Parsed, USAGE};
use progress::complain;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zones-service") {
        return status;
    }
    let words = std::env::args_os().skip(1);
    match args::parse(words) {
        Ok(Parsed::Help) => cli::output::help("zones-service", USAGE),
        Ok(Parsed::Call(call)) => {
            let _ = rustix::process::chdir("/");
            if call.dry_run {
                cli::output::only_prints();
            }
            let status = run::run(&call);
            match call.dry_run {
                true => cli::output::end("zones-service", status),
                // Lines that the journal did not take are no failure of the service:
                // systemd would not stop a service that failed, and the zones with it.
                false => ExitCode::from(status),
            }
        }
        Err(error) => {
            complain(&format!("zones-service: {error}"));
            complain(USAGE.trim_end());
            ExitCode::from(cli::status::USAGE)
        }
    }
}
