//! The commands of sensitivity labels: chk_encodings(8), atohexlabel(8), hextoalabel(8), plabel(1)
//! and getlabel(1).
//!
//! The program is the command by whose name it is called. Under another name, its first argument is
//! the command.
//!
//! | file | holds |
//! |---|---|
//! | [`command`] | the command line, and a command's end |
//! | [`chk_encodings`], [`atohexlabel`], [`hextoalabel`], [`plabel`], [`getlabel`] | a command each |
//! | [`each`] | one line of output for each operand or line of input |
//! | [`names`] | labels as text, in the form that the options ask for |

#[macro_use(eprint, eprintln, println)]
extern crate cli;

mod atohexlabel;
mod chk_encodings;
mod command;
mod each;
mod getlabel;
mod hextoalabel;
mod names;
mod plabel;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use command::Command;

const COMMANDS: [Command; 5] = [
    chk_encodings::COMMAND,
    atohexlabel::COMMAND,
    hextoalabel::COMMAND,
    plabel::COMMAND,
    getlabel::COMMAND,
];

const USAGE: &str = "\
usage: zonelabel command [argument]...

Runs a command of sensitivity labels. A link to this program with the name of a
command is the command.

    chk_encodings  checks a file with names of labels
    atohexlabel    turns labels into hexadecimal
    hextoalabel    turns labels in hexadecimal into text
    plabel         prints the labels of processes
    getlabel       prints the labels of files

'zonelabel command --help' tells more.

Exit status: that of the command, 2 usage.

Example: zonelabel plabel 4711
";

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.is_empty() {
        words.push("zonelabel".into());
    }
    let called = words.remove(0);
    let named = Path::new(&called).file_name().and_then(find);
    match named {
        Some(command) => command.start(words),
        None => start(words),
    }
}

/// Runs the command that the first argument names.
fn start(mut words: Vec<OsString>) -> ExitCode {
    if let Some(status) = cli::output::version("zonelabel") {
        return status;
    }
    if words.is_empty() {
        eprint!("zonelabel: no command was given\n{USAGE}");
        return ExitCode::from(cli::status::USAGE);
    }
    let first = words.remove(0);
    if let Some(command) = find(&first) {
        return command.start(words);
    }
    let first = first.to_string_lossy();
    if matches!(&*first, "--help" | "-h" | "-?") {
        return cli::output::help("zonelabel", USAGE);
    }
    let names = COMMANDS.iter().map(|command| command.name);
    let why = cli::command::unknown(&first, names);
    eprint!("zonelabel: {why}\n{USAGE}");
    ExitCode::from(cli::status::USAGE)
}

fn find(name: &std::ffi::OsStr) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name == command.name)
}
