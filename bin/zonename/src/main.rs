//! zonename(1): prints the name of the zone it runs in.

use std::process::ExitCode;

use lexopt::prelude::*;

const USAGE: &str = "\
usage: zonename

Prints the name of the zone it runs in; 'global' on the host.

example: zonename
";

fn main() -> ExitCode {
    match lexopt::Parser::from_env().next() {
        Ok(None) => {
            let zone = cli::current_zone();
            println!(
                "{}",
                zone.map_or_else(|| cli::GLOBAL.to_owned(), |zone| zone.name)
            );
            ExitCode::SUCCESS
        }
        Ok(Some(Short('?' | 'h') | Long("help"))) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        other => {
            if let Ok(Some(argument)) = other {
                eprintln!("zonename: {}", argument.unexpected());
            }
            eprint!("{USAGE}");
            ExitCode::from(cli::status::USAGE)
        }
    }
}
