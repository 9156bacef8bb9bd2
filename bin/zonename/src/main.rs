//! zonename(1): prints the name of the current zone.

#[macro_use(eprint, eprintln, println)]
extern crate cli;

use std::process::ExitCode;

use lexopt::prelude::*;

const USAGE: &str = "\
usage: zonename

Prints the name of the current zone, or 'global' on the host.

Exit status: 0 the name was printed, 1 the output could not be written, 2 usage.

example: zonename
";

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zonename") {
        return status;
    }
    match lexopt::Parser::from_env().next() {
        Ok(None) => {
            cli::output::only_prints();
            let zone = cli::current_zone();
            println!(
                "{}",
                zone.map_or_else(|| cli::GLOBAL.to_owned(), |zone| zone.name)
            );
            cli::output::end("zonename", cli::status::OK)
        }
        Ok(Some(Short('?' | 'h') | Long("help"))) => cli::output::help("zonename", USAGE),
        other => {
            if let Ok(Some(argument)) = other {
                eprintln!("zonename: {}", argument.unexpected());
            }
            eprint!("{USAGE}");
            ExitCode::from(cli::status::USAGE)
        }
    }
}
