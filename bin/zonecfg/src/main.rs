//! zonecfg(8): configures zones.
//!
//! This program only parses its arguments and connects the language
//! (`syntax`) with the store and the terminal; a file for each:
//! [`args`], [`backing`], [`console`], and a file for each way commands come in.

mod args;
mod backing;
mod batch;
mod console;
mod delegated;
mod host;
mod interactive;
mod live;

use std::path::Path;
use std::process::ExitCode;

use args::{Args, Input};
use backing::Stored;
use console::Terminal;
use delegated::{Caller, Guarded};
use live::Kept;
use store::Root;
use syntax::{Finish, Mode, Session};

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(Input::Help(text)) => {
            Terminal::new(Mode::Words, None).write(&text);
            return ExitCode::SUCCESS;
        }
        Ok(Input::NoSuchSubject(subject)) => {
            eprintln!("Unknown help subject {subject}.  Type 'zonecfg help commands'.");
            return ExitCode::FAILURE;
        }
        Ok(Input::Session(args)) => args,
        Err(text) => {
            eprint!("{text}");
            return ExitCode::from(cli::status::USAGE);
        }
    };
    let root = match cli::root(args.root.as_deref()) {
        Ok(root) => root,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(cli::status::USAGE);
        }
    };
    let failed = run(args, root).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        true
    });
    ExitCode::from(u8::from(failed))
}

/// Runs one session; true when it failed.
fn run(args: Args, root: Root) -> anyhow::Result<bool> {
    let alternate = root.dir() != Path::new("/");
    let stored = Stored::new(root);
    let read_only = stored.is_read_only();
    let (mode, file) = match &args.commands {
        args::Commands::Interactive => (Mode::Interactive, None),
        args::Commands::Words(_) => (Mode::Words, None),
        // "-f -" is a session like any other, only that errors name the line.
        args::Commands::File(file) if file == "-" => (Mode::Interactive, Some(file.clone())),
        args::Commands::File(file) => (Mode::File, Some(file.clone())),
    };
    let zone = match args.zone {
        args::Zone::Name(name) => name,
        args::Zone::Uuid(uuid) => stored.zone_with(uuid)?,
    };
    if args.live && !cli::is_root() {
        anyhow::bail!("zonecfg: zone '{zone}': only a privileged user may change a running zone.");
    }
    if read_only && !cli::is_root() {
        if let Some(status) = delegated::ask(&zone, &args.commands) {
            return Ok(status != cli::status::OK);
        }
    }
    if read_only && mode != Mode::Words {
        eprintln!(
            "WARNING: you do not have write access to this zone's configuration file;\n\
             going into read-only mode."
        );
    }
    let terminal = Terminal::new(mode, file.as_deref());
    let guarded = Guarded::new(stored, Caller::of_environment());
    let stored = match args.live {
        false => Kept::Stored(guarded),
        true => {
            let host = cli::host(args.root.as_deref()).map_err(anyhow::Error::msg)?;
            // Said at once: nothing that is typed could be done.
            live::running(&host, &zone)?;
            Kept::Running(guarded, Box::new(host))
        }
    };
    let mut session = Session::new(zone, mode, stored, terminal)
        .read_only(read_only)
        .alternate_root(alternate);
    let finish = match &args.commands {
        args::Commands::Interactive => interactive::run(&mut session)?,
        args::Commands::Words(text) => batch::run(&mut session, text),
        args::Commands::File(file) if file == "-" => batch::stdin(&mut session)?,
        args::Commands::File(file) => batch::file(&mut session, file)?,
    };
    Ok(finish != Finish::Ok || session.console().has_failed())
}
