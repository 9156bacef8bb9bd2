//! The command line of the benchmark.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

/// The text of `--help`.
pub const USAGE: &str = "\
usage: lifecycle --scratch DIR --programs DIR [options]
  --scratch DIR    an empty folder on the file system to measure; what is made in it stays
  --programs DIR   where zoneadm, zonecfg, zoneadmd and zinit are
  --rounds N       how often one zone is cloned, booted, halted and removed (default 30)
  --row N          how many zones are cloned, then booted, then halted (default 100)
  --tools A,B,...  of zones, lxc, crun, floor (default: all)";

/// The measurements to make, and their place.
#[derive(Debug)]
pub struct Options {
    /// An empty folder on the file system to measure.
    pub scratch: PathBuf,
    /// The folder of our programs.
    pub programs: PathBuf,
    /// The number of rounds in which one zone goes through its life.
    pub rounds: usize,
    /// The number of zones that do so together.
    pub row: usize,
    /// By the names of the command line.
    pub tools: Vec<String>,
}

/// Reads the command line; `None` when help was asked for.
///
/// # Errors
/// Fails if the command line is wrong.
pub fn parse() -> Result<Option<Options>> {
    let mut scratch = None;
    let mut programs = None;
    let mut rounds = 30;
    let mut row = 100;
    let mut tools = "zones,lxc,crun,floor".to_owned();
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Long("scratch") => scratch = Some(PathBuf::from(args.value()?)),
            Long("programs") => programs = Some(PathBuf::from(args.value()?)),
            Long("rounds") => rounds = args.value()?.parse()?,
            Long("row") => row = args.value()?.parse()?,
            Long("tools") => tools = args.value()?.string()?,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    let scratch = scratch.context("--scratch is missing")?;
    if !scratch.is_absolute() {
        bail!("--scratch must be an absolute path");
    }
    Ok(Some(Options {
        scratch: scratch.canonicalize().context("--scratch")?,
        programs: programs.context("--programs is missing")?,
        rounds,
        row,
        tools: tools.split(',').map(str::to_owned).collect(),
    }))
}
