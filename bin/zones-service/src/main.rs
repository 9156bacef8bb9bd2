//! zones-service(8): what happens to zones when the host boots and shuts down.

mod args;
mod progress;
mod run;
mod show;

use std::process::ExitCode;

use args::{Parsed, USAGE};

fn main() -> ExitCode {
    // No default action for SIGPIPE, as our commands have: whoever reads what this
    // prints may end before it when the host shuts down, and zones must still be ended.
    let words = std::env::args_os().skip(1);
    ExitCode::from(match args::parse(words) {
        Ok(Parsed::Help) => {
            progress::say(USAGE.trim_end());
            cli::status::OK
        }
        Ok(Parsed::Call(call)) => {
            let _ = rustix::process::chdir("/");
            run::run(&call)
        }
        Err(error) => {
            progress::complain(&format!("zones-service: {error}"));
            progress::complain(USAGE.trim_end());
            cli::status::USAGE
        }
    })
}
