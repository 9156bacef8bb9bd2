//! The command line of a command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;

/// A command.
#[derive(Debug)]
pub struct Command {
    /// The name of the command.
    pub name: &'static str,
    /// The text of `--help`. Its first line is the usage.
    pub help: &'static str,
    /// The options that are only a letter.
    pub letters: &'static str,
    /// The option that is a letter with an argument.
    pub with_argument: Option<char>,
    /// Runs the command. Returns its exit status.
    pub run: fn(&Args) -> u8,
}

/// The arguments of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// `-R`.
    pub root: Option<PathBuf>,
    /// The letters of the options without an argument, in their order.
    letters: String,
    /// The argument of [`Command::with_argument`].
    pub argument: Option<OsString>,
    /// The words that are no options.
    pub operands: Vec<OsString>,
}

impl Args {
    /// Returns true if the option is among the arguments.
    pub fn has(&self, letter: char) -> bool {
        self.letters.contains(letter)
    }

    /// Returns the last of two options that exclude each other.
    pub fn last_of(&self, one: char, other: char) -> Option<char> {
        let given = self.letters.chars().rev();
        given
            .into_iter()
            .find(|letter| [one, other].contains(letter))
    }
}

impl Command {
    /// Parses the command line, runs the command, and returns the exit status of the program.
    pub fn start(&self, words: Vec<OsString>) -> ExitCode {
        cli::output::only_prints();
        if words.first().is_some_and(|word| word == "--version") {
            println!("{} {}", self.name, env!("CARGO_PKG_VERSION"));
            return cli::output::end(self.name, cli::status::OK);
        }
        let args = match self.parse(words) {
            Ok(Some(args)) => args,
            Ok(None) => return cli::output::help(self.name, self.help),
            Err(text) => {
                let usage = self.help.lines().next().unwrap_or_default();
                let name = self.name;
                eprintln!("{name}: {text}\n{usage}\n       {name} --help tells more");
                return ExitCode::from(cli::status::USAGE);
            }
        };
        if let Some(status) = cli::refuse_relative_root(self.name, args.root.as_deref()) {
            return ExitCode::from(status);
        }
        cli::output::end(self.name, (self.run)(&args))
    }

    /// Returns the arguments; `None` if the user asks for help.
    pub fn parse(&self, words: Vec<OsString>) -> Result<Option<Args>, String> {
        let mut args = Args::default();
        let mut words = lexopt::Parser::from_args(words);
        while let Some(word) = words.next().map_err(|error| error.to_string())? {
            match word {
                Short('R') => {
                    let value = words.value().map_err(|error| error.to_string())?;
                    args.root = Some(value.into());
                }
                Short('?' | 'h') | Long("help") => return Ok(None),
                Short(letter) if self.letters.contains(letter) => args.letters.push(letter),
                Short(letter) if self.with_argument == Some(letter) => {
                    let value = words.value().map_err(|error| error.to_string())?;
                    args.argument = Some(value);
                }
                Value(operand) => args.operands.push(operand),
                other => return Err(other.unexpected().to_string()),
            }
        }
        Ok(Some(args))
    }

    /// Prints an error as one line. Returns the exit status.
    pub fn fail(&self, error: &dyn std::error::Error) -> u8 {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        self.complain(&text)
    }

    /// Prints a complaint as one line. Returns the exit status.
    pub fn complain(&self, text: &str) -> u8 {
        eprintln!("{}: {text}", self.name);
        cli::status::ERROR
    }
}
