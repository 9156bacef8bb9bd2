//! tncfg(8): configures the labels of the network: templates of hosts outside, and multilevel ports
//! of zones with labels.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the command line |
//! | [`command`] | the commands of the shell |
//! | [`session`] | the changes, and their checks |
//! | [`show`] | templates and ports as text |

#[macro_use(print, eprint, eprintln)]
extern crate cli;

mod args;
mod command;
mod session;
mod show;

use std::fs::File;
use std::io::{BufRead as _, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use args::{Args, Input, Request};
use command::{Command, split};
use session::{Flow, Session};

/// The largest size of a file of commands, in bytes.
const MAX_COMMANDS_BYTES: u64 = 4 << 20;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("tncfg") {
        return status;
    }
    let args = match args::parse(std::env::args_os().skip(1)) {
        Ok(Request::Run(args)) => args,
        Ok(Request::Help) => return cli::output::help("tncfg", &args::help()),
        Err(error) => {
            eprintln!("tncfg: {error}");
            eprint!("{}", args::USAGE);
            return ExitCode::from(cli::status::USAGE);
        }
    };
    if let Some(zone) = cli::current_zone() {
        eprintln!(
            "tncfg: must be in the global zone, and this is zone '{}'.",
            zone.name
        );
        return ExitCode::from(cli::status::ERROR);
    }
    let root = match cli::root(args.root.as_deref()) {
        Ok(root) => root,
        Err(error) => {
            eprintln!("tncfg: {error}");
            return ExitCode::from(error.status());
        }
    };
    let status = match Session::open(root).and_then(|session| run(&args, session)) {
        Ok(()) => cli::status::OK,
        Err(error) => {
            complain(&error);
            cli::status::ERROR
        }
    };
    cli::output::end("tncfg", status)
}

fn complain(error: &anyhow::Error) {
    for line in format!("{error:#}").lines() {
        eprintln!("tncfg: {line}");
    }
}

fn run(args: &Args, mut session: Session) -> anyhow::Result<()> {
    if let Some(target) = &args.target {
        session.run(&Command::Select(target.clone()))?;
    }
    match &args.input {
        Input::Shell if cli::prompt::can_ask() => shell(&mut session)?,
        Input::Shell => all(&mut session, &read(Path::new("-"))?)?,
        Input::File(path) => all(&mut session, &read(path)?)?,
        Input::Words(text) => {
            for part in split(text) {
                if step(&mut session, part)? {
                    break;
                }
            }
        }
    }
    let remarks = session.commit(false)?;
    eprint!("{remarks}");
    Ok(())
}

/// Reads the commands of a file.
fn read(path: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut text = String::new();
    let limit = MAX_COMMANDS_BYTES + 1;
    match path.to_str() {
        Some("-") => std::io::stdin()
            .lock()
            .take(limit)
            .read_to_string(&mut text),
        _ => File::open(path)
            .with_context(cannot)?
            .take(limit)
            .read_to_string(&mut text),
    }
    .with_context(cannot)?;
    if text.len() as u64 > MAX_COMMANDS_BYTES {
        bail!("{}: larger than {MAX_COMMANDS_BYTES} bytes", cannot());
    }
    Ok(text)
}

/// Carries out the lines of a file, up to the first error.
fn all(session: &mut Session, text: &str) -> anyhow::Result<()> {
    for (number, line) in text.lines().enumerate() {
        for part in split(line) {
            if step(session, part).with_context(|| format!("line {}", number + 1))? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reads commands from the terminal. An error does not end the shell.
fn shell(session: &mut Session) -> anyhow::Result<()> {
    loop {
        let name = session.selected().map(|name| format!(":{name}"));
        print!("tncfg{}> ", name.unwrap_or_default());
        let mut line = String::new();
        let length = std::io::stdin().lock().read_line(&mut line);
        if length.context("cannot read the terminal")? == 0 {
            return Ok(());
        }
        for part in split(&line) {
            match step(session, part) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    complain(&error);
                    break;
                }
            }
        }
    }
}

/// Carries out a command. Returns true if it ends the program.
fn step(session: &mut Session, text: &str) -> anyhow::Result<bool> {
    match session.run(&Command::read(text)?)? {
        Flow::Exit => Ok(true),
        Flow::On(said) => {
            print!("{said}");
            Ok(false)
        }
    }
}
