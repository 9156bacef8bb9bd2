//! The command line of tncfg.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::command::{Command, Target};

/// The synopsis.
pub const USAGE: &str = "\
usage: tncfg [-R root] [-t template | -z zone] [command [; command]...]
       tncfg [-R root] [-t template | -z zone] -f file
       tncfg --help
";

const ABOUT: &str = "
Labels of the network: the hosts outside that zones with labels may talk to, and the ports
of these zones that all labels may reach. Without commands it is a shell. Changes take
effect at 'commit' or at the end, all or none; running zones get new templates at once,
and new ports at their next boot.

Options:
    -t name     works on this template; begins it if it does not exist
    -z zone     works on the multilevel ports of this zone
    -f file     reads commands from the file; '-' is standard input
    -R root     works below this directory

Commands:
";

const EXAMPLES: &str = "
Properties of a template:
    host_type   unlabeled: the hosts have the label def_label (the default)
                multilevel: the hosts keep labels apart; zones from min_label to max_label
    def_label, min_label, max_label     a label: text or hexadecimal
    host        an address or a network; the longest prefix decides. May be repeated

Properties of a zone:
    mlp_private, mlp_shared     PORT/tcp, FIRST-LAST/udp. May be repeated

Exit status: 0 done, 1 an error (nothing was changed), 2 usage.

Examples:
    tncfg -t lan 'set def_label=PUBLIC; add host=192.0.2.0/24'
    tncfg -t lan remove host=192.0.2.0/24
    tncfg -z web add mlp_private=80/tcp
    tncfg list
    tncfg get host=192.0.2.7
    tncfg export > file; tncfg -f file
";

/// Returns the text of `--help`.
#[must_use]
pub fn help() -> String {
    format!("{USAGE}{ABOUT}{}{EXAMPLES}", Command::help())
}

/// The call of the program.
#[derive(Debug)]
pub struct Args {
    /// The alternate root.
    pub root: Option<PathBuf>,
    /// The template or zone that is selected first.
    pub target: Option<Target>,
    /// The origin of the commands.
    pub input: Input,
}

/// The origin of the commands.
#[derive(Debug)]
pub enum Input {
    /// Standard input, line by line.
    Shell,
    /// A file.
    File(PathBuf),
    /// The words of the command line.
    Words(String),
}

/// The request of the user.
#[derive(Debug)]
pub enum Request {
    /// Print the help.
    Help,
    /// Carry out commands.
    Run(Args),
}

/// Parses the command line.
///
/// # Errors
/// Fails with a text for the user.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Request, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut args = Args {
        root: None,
        target: None,
        input: Input::Shell,
    };
    let mut text: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h' | '?') | Long("help") => return Ok(Request::Help),
            Short('R') => args.root = Some(parser.value()?.into()),
            Short('f') => args.input = Input::File(parser.value()?.into()),
            Short(which @ ('t' | 'z')) => {
                if args.target.is_some() {
                    return Err("give one -t or -z".into());
                }
                let name = parser.value()?.string()?;
                args.target = Some(match which {
                    't' => Target::Template(name),
                    _ => Target::Zone(name),
                });
            }
            Value(word) => {
                text.push(word.string()?);
                // The options of commands, as in `create -t lan`, are theirs.
                for word in parser.raw_args()? {
                    text.push(word.string()?);
                }
            }
            other => return Err(other.unexpected()),
        }
    }
    match (text.is_empty(), &args.input) {
        (true, _) => {}
        (false, Input::File(_)) => return Err("-f and commands exclude each other".into()),
        (false, _) => args.input = Input::Words(text.join(" ")),
    }
    Ok(Request::Run(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Args, String> {
        match parse(line.split(' ').map(OsString::from)) {
            Ok(Request::Run(args)) => Ok(args),
            Ok(Request::Help) => Err("help".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_of_commands_are_no_options_of_the_program() {
        let args = run("-R /a create -t lan ; set def_label=CNF NTK").unwrap();
        assert!(args.target.is_none());
        assert!(matches!(args.input, Input::Words(text)
            if text == "create -t lan ; set def_label=CNF NTK"));
        let args = run("-z web add mlp_private=80/tcp").unwrap();
        assert_eq!(args.target, Some(Target::Zone("web".to_owned())));
        assert!(run("-t a -z b").unwrap_err().contains("one -t or -z"));
        assert!(run("-f a list").unwrap_err().contains("exclude"));
        assert_eq!(run("-h").unwrap_err(), "help");
    }
}
