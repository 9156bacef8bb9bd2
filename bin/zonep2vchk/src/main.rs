//! zonep2vchk(8): reports parts of a system that will not work in a zone.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the command line |
//! | [`system`] | the files of the system that is looked at |
//! | [`services`], [`network`], [`storage`], [`kernel`] | the basic checks |
//! | [`binaries`] | the checks of programs |
//! | [`report`] | findings as text |
//! | [`template`] | zonecfg commands for a zone like the system |
//! | [`containers`] | the same for a container of another tool |
//!
//! It reads files and changes nothing.

#[macro_use(print, println, eprint, eprintln)]
extern crate cli;

mod args;
mod binaries;
mod containers;
mod kernel;
mod network;
mod report;
mod services;
mod storage;
mod system;
mod template;

use std::process::ExitCode;

use args::{Args, Form, Input};
use report::{Check, Report};
use system::System;

/// The exit status when something was found.
const ISSUES: u8 = 3;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zonep2vchk") {
        return status;
    }
    cli::output::only_prints();
    let args = match args::parse(std::env::args_os().skip(1)) {
        Ok(Input::Run(args)) => args,
        Ok(Input::Help) => return cli::output::help("zonep2vchk", args::HELP),
        Ok(Input::Version) => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            return cli::output::end("zonep2vchk", cli::status::OK);
        }
        Err(text) => {
            eprintln!("zonep2vchk: {text}");
            eprint!("{}", args::USAGE);
            return ExitCode::from(cli::status::USAGE);
        }
    };
    if let Some(zone) = cli::current_zone() {
        eprintln!("zonep2vchk: must be in the global zone, and this is zone '{zone}'.");
        return ExitCode::from(cli::status::ERROR);
    }
    let status = match run(&args) {
        Ok(0) => cli::status::OK,
        Ok(_) => ISSUES,
        Err(text) => {
            eprintln!("zonep2vchk: {text}");
            cli::status::ERROR
        }
    };
    cli::output::end("zonep2vchk", status)
}

/// Prints the report. Returns the number of issues.
fn run(args: &Args) -> Result<usize, String> {
    if let Some(path) = &args.container {
        print!("{}", container(path)?);
        return Ok(0);
    }
    let system = System::open(&args.root)?;
    if args.template {
        print!("{}", template::commands(&system, args.target));
        return Ok(0);
    }
    let mut checks = Vec::new();
    if args.basic {
        checks.push(basic(&system, args));
    }
    if !args.paths.is_empty() {
        checks.push(binaries::check(&system, &args.paths)?);
    }
    let report = Report::new(&system, args.target, checks);
    match args.form {
        Form::Text => print!("{}", report.text()),
        Form::Parseable => print!("{}", report.parseable()),
        Form::Json => println!("{}", report.json()?),
    }
    Ok(report.issues())
}

/// The zone like a container that this file describes.
fn container(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read as _;
    let fail = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(fail)?;
    let mut text = Vec::new();
    file.take(containers::MAX_CONFIG_BYTES)
        .read_to_end(&mut text)
        .map_err(fail)?;
    let text = String::from_utf8_lossy(&text);
    containers::commands(&text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Everything that files tell without a look at programs.
fn basic(system: &System, args: &Args) -> Check {
    let mut sections = services::check(system, args.target);
    sections.extend(kernel::check(system));
    sections.extend(storage::check(system));
    sections.extend(network::check(system, args.target));
    sections.retain(|section| !section.findings.is_empty());
    Check {
        name: "basic",
        sections,
    }
}
