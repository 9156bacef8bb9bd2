//! zonecfg(8): configures zones.
//!
//! This program only parses its arguments and connects the language
//! (`syntax`) with the store and the terminal; a file for each:
//! [`args`], [`backing`], [`console`], and a file for each way commands come in.

#[macro_use(eprint, eprintln, println)]
extern crate cli;

mod args;
mod backing;
mod batch;
mod console;
mod delegated;
mod host;
mod interactive;
mod keyboard;
mod live;
mod many;
mod session;

use std::path::Path;
use std::process::ExitCode;

use args::{Args, Input};
use backing::Stored;
use console::Terminal;
use delegated::{Caller, Guarded};
use live::Kept;
use store::Root;
use syntax::{Backing as _, Finish, Mode, Session};

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zonecfg") {
        return status;
    }
    let args = match args::parse(std::env::args_os()) {
        Ok(Input::Help(text)) => {
            return cli::output::help("zonecfg", &text);
        }
        Ok(Input::NoSuchSubject(subject)) => {
            eprintln!("Unknown help subject {subject}.  Type 'zonecfg help commands'.");
            return ExitCode::FAILURE;
        }
        Ok(Input::Session(args)) => args,
        Ok(Input::Digest { root, zone }) => return digest(root.as_deref(), zone),
        Ok(Input::Deletion { root, pattern }) => return delete(root.as_deref(), &pattern),
        Err(text) => {
            eprint!("{text}");
            return ExitCode::from(cli::status::USAGE);
        }
    };
    let root = match cli::root(args.root.as_deref()) {
        Ok(root) => root,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(error.status());
        }
    };
    let failed = run(&args, root).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        true
    });
    cli::output::end("zonecfg", u8::from(failed))
}

/// Prints the digest of a stored configuration. Returns the exit status.
fn digest(root: Option<&Path>, zone: args::Zone) -> ExitCode {
    let found = cli::root(root).map_err(|error| (error.status(), error.to_string()));
    let found = found.and_then(|root| {
        let stored = Stored::new(root);
        digest_of(stored, zone).map_err(|error| (cli::status::ERROR, format!("{error:#}")))
    });
    let status = match found {
        Ok(digest) => {
            println!("{digest}");
            cli::status::OK
        }
        Err((status, text)) => {
            eprintln!("{text}");
            status
        }
    };
    cli::output::end("zonecfg", status)
}

fn digest_of(mut stored: Stored, zone: args::Zone) -> anyhow::Result<String> {
    let zone = match zone {
        args::Zone::Name(name) => name,
        args::Zone::Uuid(uuid) => stored.zone_with(uuid)?,
    };
    let config = stored.load(&zone)?;
    let config = config.ok_or_else(|| anyhow::anyhow!("{zone}: No such zone configured"))?;
    Ok(backing::digest(&config))
}

/// Deletes the zones of a pattern. Returns the exit status.
fn delete(root: Option<&Path>, pattern: &str) -> ExitCode {
    let deleted = cli::root(root).map_err(|error| (error.status(), error.to_string()));
    let deleted = deleted.and_then(|root| {
        let failed = |error: anyhow::Error| (cli::status::ERROR, format!("{error:#}"));
        match cli::is_root() {
            true => many::delete(&root, pattern).map_err(failed),
            false => Err(failed(anyhow::anyhow!(
                "zonecfg: only a privileged user may delete zones."
            ))),
        }
    });
    let status = match deleted {
        Ok(failed) => {
            for error in &failed {
                eprintln!("{error}");
            }
            match failed.is_empty() {
                true => cli::status::OK,
                false => cli::status::ERROR,
            }
        }
        Err((status, text)) => {
            eprintln!("{text}");
            status
        }
    };
    cli::output::end("zonecfg", status)
}

/// Runs one session. Returns true if the session failed.
fn run(args: &Args, root: Root) -> anyhow::Result<bool> {
    let alternate = root.dir() != Path::new("/");
    let stored = Stored::new(root).expecting(args.expected.clone());
    let (mode, file) = match &args.commands {
        args::Commands::Interactive => (Mode::Interactive, None),
        args::Commands::Words(_) => (Mode::Words, None),
        // `-f -` at a terminal is an interactive session whose errors name the line. `-f -` at a
        // pipe is a command file.
        args::Commands::File(file) if file == "-" && cli::prompt::can_ask() && !args.atomic => {
            (Mode::Interactive, Some(file.clone()))
        }
        args::Commands::File(file) => (Mode::File, Some(file.clone())),
    };
    let zone = match &args.zone {
        args::Zone::Name(name) => name.clone(),
        args::Zone::Uuid(uuid) => stored.zone_with(*uuid)?,
    };
    let read_only = zone.is_template() || stored.is_read_only();
    if args.live && !cli::is_root() {
        anyhow::bail!("zonecfg: zone '{zone}': only a privileged user may change a running zone.");
    }
    if read_only && !cli::is_root() && !zone.is_template() {
        if let Some(status) = delegated::ask(&zone, args) {
            return Ok(status != cli::status::OK);
        }
    }
    if read_only && mode != Mode::Words {
        let why = match zone.is_template() {
            true => "zones beginning with SUNW or SYS are templates",
            false => "you do not have write access to this zone's configuration file",
        };
        eprintln!("WARNING: {why};\ngoing into read-only mode.");
    }
    let terminal = Terminal::new(mode, file.as_deref());
    let guarded = Guarded::new(stored, Caller::of_environment());
    let stored = match args.live {
        false => Kept::Stored(guarded),
        true => {
            let host = cli::host(args.root.as_deref())?;
            // The error is reported at once, because no command could work on a zone that does not
            // run.
            live::running(&host, &zone)?;
            Kept::Running(guarded, Box::new(host))
        }
    };
    let mut session = Session::new(zone, mode, stored, terminal)
        .read_only(read_only)
        .atomic(args.atomic)
        .alternate_root(alternate);
    let finish = match &args.commands {
        args::Commands::Interactive => interactive::run(&mut session)?,
        args::Commands::Words(text) => batch::run(&mut session, text),
        args::Commands::File(file) if file == "-" => batch::stdin(&mut session)?,
        args::Commands::File(file) => batch::file(&mut session, file)?,
    };
    Ok(finish != Finish::Ok)
}
