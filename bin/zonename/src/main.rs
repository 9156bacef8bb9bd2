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
            println!("{}", cli::current_zone().as_deref().unwrap_or(cli::GLOBAL));
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
