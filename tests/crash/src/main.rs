//! Kills the zone programs at every system call that changes state, one kill in each run of an
//! operation, and checks the remains. See `tests/crash/README.md`.
//!
//! | file | holds |
//! |---|---|
//! | `bench` | the hosts that an operation is tried on |
//! | `calls` | which calls a recorded run made |
//! | `strike` | an operation under strace |
//! | `wrapper`, `programs` | strace at programs that others start |
//! | `operations` | what is cut off, and how it goes on |
//! | `face`, `layers` | all that a host has on disk and in the kernel |
//! | `enumerate` | a kill for each call of an operation |
//! | `report` | the table at the end |

mod bench;
mod calls;
mod enumerate;
mod face;
mod layers;
mod operations;
mod programs;
mod report;
mod strike;
mod wrapper;

use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use e2e::Random;
use lexopt::prelude::*;

use crate::enumerate::{Extent, Tally};

const USAGE: &str = "\
usage: crash [--seed N] [--seconds N [--sample N]] [--only NAME]... [--who NAME]
             [--site CALL:N] [--part N/M] [--list] [--table FILE]
  --seconds N     tries what the seed draws for so long; all there is without it
  --sample N      with --seconds, the number of kills that are drawn for each operation (6)
  --seed N        the draw of an earlier run
  --only NAME     operations whose name begins with this
  --who NAME      killing this process alone
  --site CALL:N   this kill alone; `list` prints all and tries none, `@` tries those of threads
                  that come later to their N-th CALL, which are told by a path
  --part N/M      every M-th operation, from the N-th on
  --list          the operations
  --table FILE    writes the table there, too";

/// Set in the environment of the process that has its own folder of programs.
const PLACED: &str = "ZONES_CRASH_PROGRAMS";

struct Options {
    seed: Option<u64>,
    seconds: Option<u64>,
    sample: usize,
    only: Vec<String>,
    who: Option<String>,
    site: Option<String>,
    part: (usize, usize),
    list: bool,
    table: Option<PathBuf>,
}

fn options() -> Result<Options, lexopt::Error> {
    let mut found = Options {
        seed: None,
        seconds: None,
        sample: enumerate::SAMPLE,
        only: Vec::new(),
        who: None,
        site: None,
        part: (1, 1),
        list: false,
        table: None,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => found.seed = Some(parser.value()?.parse()?),
            Long("seconds") => found.seconds = Some(parser.value()?.parse()?),
            Long("sample") => found.sample = parser.value()?.parse::<NonZeroUsize>()?.get(),
            Long("only") => found.only.push(parser.value()?.string()?),
            Long("who") => found.who = Some(parser.value()?.string()?),
            Long("site") => found.site = Some(parser.value()?.string()?),
            Long("part") => {
                let text = parser.value()?.string()?;
                let (n, m) = text.split_once('/').ok_or("expected N/M")?;
                found.part = (
                    n.parse().map_err(|_| "expected N/M")?,
                    m.parse().map_err(|_| "expected N/M")?,
                );
            }
            Long("list") => found.list = true,
            Long("table") => found.table = Some(parser.value()?.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(found)
}

fn main() -> ExitCode {
    // The first argument of a program that was found in PATH is only its name.
    let own = std::env::current_exe().unwrap_or_default();
    if own.file_name().is_some_and(|name| name != "crash") {
        eprintln!("{}", wrapper::become_program(&own));
        return ExitCode::FAILURE;
    }
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("crash: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.list {
        operations::all()
            .iter()
            .for_each(|one| println!("{}", one.name));
        return ExitCode::SUCCESS;
    }
    match std::env::var_os(PLACED) {
        None => place(),
        Some(folder) => {
            let done = enumerate_all(&options);
            let _ = std::fs::remove_dir_all(folder);
            done
        }
    }
}

/// Starts this program again with its own folder of programs.
fn place() -> ExitCode {
    let Some(bin) = std::env::var_os("ZONES_BIN").map(PathBuf::from) else {
        eprintln!("crash: ZONES_BIN names no folder of programs: start it by tests/crash/run");
        return ExitCode::from(2);
    };
    // Hard links need the file system of the programs, which may differ from that of /tmp.
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().unwrap_or(Path::new("/tmp"));
    let folder = beside.join(format!("crash-programs-{}", std::process::id()));
    match programs::make(&folder, &bin) {
        Ok(front) => {
            let error = Command::new(own)
                .args(std::env::args_os().skip(1))
                .env("ZONES_BIN", front)
                .env(PLACED, &folder)
                .exec();
            eprintln!("crash: {error}");
        }
        Err(error) => eprintln!("crash: {}: {error}", folder.display()),
    }
    let _ = std::fs::remove_dir_all(folder);
    ExitCode::FAILURE
}

fn enumerate_all(options: &Options) -> ExitCode {
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| u64::from(time.subsec_nanos()) + time.as_secs())
    });
    let mut random = Random::new(seed);
    let until = options
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    if until.is_some() {
        println!("seed {seed}");
    }
    let (n, m) = options.part;
    let mut chosen: Vec<_> = operations::all()
        .into_iter()
        .enumerate()
        .filter(|(at, one)| {
            at % m + 1 == n
                && (options.only.is_empty()
                    || options
                        .only
                        .iter()
                        .any(|name| one.name.starts_with(name.as_str())))
        })
        .map(|(_, one)| one)
        .collect();
    if until.is_some() {
        // A random order, so that short runs reach every operation over time.
        for at in (1..chosen.len()).rev() {
            chosen.swap(at, random.index(at + 1));
        }
    }
    let mut tallies: Vec<Tally> = Vec::new();
    for operation in &chosen {
        for &who in operation.who {
            if options.who.as_ref().is_some_and(|name| who.name() != name) {
                continue;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let extent = Extent {
                until,
                sample: options.sample,
                site: options.site.as_deref(),
            };
            tallies.extend(enumerate::enumerate(operation, who, &extent, &mut random));
        }
    }
    let table = report::table(&tallies);
    print!("{table}");
    if let Some(path) = &options.table {
        if let Err(error) = std::fs::write(path, &table) {
            eprintln!("crash: {}: {error}", path.display());
        }
    }
    println!("{}", report::all(&tallies));
    let failures = report::failures(&tallies);
    if failures.is_empty() && !tallies.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
