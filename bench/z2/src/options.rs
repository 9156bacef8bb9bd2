//! Parses the command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

pub const USAGE: &str = "\
usage: z2 --scratch DIR --programs DIR --out DIR [--host TEXT] [--quick] [N...]
  --scratch DIR    an empty folder on the file system to measure; what is made in it stays
  --programs DIR   where zoneadm, zonecfg, zoneadmd, zlogin and zinit are
  --out DIR        where z2.json, z2.tables and the plots are written
  --host TEXT      a line about this machine
  --quick          small figures, to try the program
  N...             sizes of the fleets (default: 10 20 40 100 500 1000)";

#[derive(Debug)]
pub struct Options {
    scratch: PathBuf,
    programs: PathBuf,
    pub out: PathBuf,
    pub host: String,
    quick: bool,
    pub counts: Vec<usize>,
}

/// Parses the command line; returns `None` for `--help`.
pub fn parse() -> Result<Option<Options>> {
    let (mut scratch, mut programs, mut out) = (None, None, None);
    let (mut host, mut quick, mut counts) = (String::new(), false, Vec::new());
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Long("scratch") => scratch = Some(PathBuf::from(args.value()?)),
            Long("programs") => programs = Some(PathBuf::from(args.value()?)),
            Long("out") => out = Some(PathBuf::from(args.value()?)),
            Long("host") => host = args.value()?.string()?,
            Long("quick") => quick = true,
            Long("help") | Short('h') => return Ok(None),
            Value(number) => counts.push(number.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    if counts.is_empty() {
        counts = match quick {
            true => vec![10, 50],
            // 20 and 40: the numbers of the slowest other tools.
            false => vec![10, 20, 40, 100, 500, 1000],
        };
    }
    if counts.contains(&0) {
        bail!("a fleet has at least one zone");
    }
    Ok(Some(Options {
        scratch: scratch
            .context("--scratch is missing")?
            .canonicalize()
            .context("--scratch")?,
        programs: programs.context("--programs is missing")?,
        out: out.context("--out is missing")?,
        host,
        quick,
        counts,
    }))
}

impl Options {
    /// Returns the options for the parts of the other benchmark.
    pub fn common(&self) -> lifecycle::options::Options {
        lifecycle::options::Options {
            scratch: self.scratch.clone(),
            programs: self.programs.clone(),
            rounds: 0,
            row: 0,
            tools: vec!["zones".to_owned()],
        }
    }

    /// Returns the time for which idle zones are watched.
    pub fn window(&self) -> Duration {
        Duration::from_secs(if self.quick { 2 } else { 10 })
    }

    /// Returns the number of zones that run the big program.
    pub fn sharing(&self, wanted: usize) -> usize {
        if self.quick { wanted.min(10) } else { wanted }
    }

    /// Returns the number of containers for a tool that can handle `most`.
    pub fn bearable(&self, most: usize) -> usize {
        if self.quick { most.min(10) } else { most }
    }

    /// Returns the size of the file that is copied up, in MiB.
    pub fn file_mib(&self) -> u64 {
        if self.quick { 64 } else { 1024 }
    }
}
