//! `/etc/patch/pdo.conf`: `num_proc=N`, as on Solaris 10, the number of patches that can be undone,
//! and the health command.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use store::Root;

use crate::health;

/// Default number of patches of a zone that can be undone.
const DEFAULT_KEPT_PATCHES: usize = 3;

/// Time that the package manager of a zone may take when the file does not say.
const TIME_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Maximum size of the file, in bytes.
const MAX_CONF_BYTES: u64 = 64 << 10;

/// The settings of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf {
    /// Zones at a time.
    pub num_proc: Option<usize>,
    /// Snapshots of former patches that a zone keeps.
    pub keep: usize,
    /// The health command of zones that have none of their own.
    pub health: Option<String>,
    /// Timeout of the health command.
    pub health_within: Duration,
    /// Time that the package manager of a zone may take; without one there is no limit.
    pub time_limit: Option<Duration>,
}

impl Default for Conf {
    fn default() -> Self {
        Self {
            num_proc: None,
            keep: DEFAULT_KEPT_PATCHES,
            health: None,
            health_within: health::DEFAULT_HEALTH_TIMEOUT,
            time_limit: Some(TIME_LIMIT),
        }
    }
}

/// Returns the path of the file.
#[must_use]
pub fn path(root: &Root) -> PathBuf {
    root.dir().join("etc/patch/pdo.conf")
}

/// The reason why the file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is larger than a file of settings is.
    #[error("{}: too large", .0.display())]
    TooLarge(PathBuf),
    /// A line cannot be understood.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: Problem,
    },
}

/// The problem in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It has no sign of equality.
    #[error("expected NAME=VALUE")]
    NoValue,
    /// The value is another word.
    #[error("expected a number")]
    NoNumber,
    /// No zone at a time is none at all.
    #[error("num_proc must be at least 1")]
    NoProcesses,
}

/// Reads the file; none is fine.
///
/// # Errors
/// [`Error::Line`] names the line that cannot be understood.
pub fn load(root: &Root) -> Result<Conf, Error> {
    let path = path(root);
    let fail = |source| Error::Read {
        path: path.clone(),
        source,
    };
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Conf::default()),
        Err(error) => return Err(fail(error)),
        Ok(meta) if meta.len() > MAX_CONF_BYTES => {
            return Err(Error::TooLarge(path));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(&path).map_err(fail)?;
    parse(&text).map_err(|(line, problem)| Error::Line {
        path,
        line,
        problem,
    })
}

fn parse(text: &str) -> Result<Conf, (usize, Problem)> {
    let mut conf = Conf::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with('#') {
            continue;
        }
        // A command may have signs in it that are comments elsewhere.
        if let Some(("health", command)) = line
            .split_once('=')
            .map(|(name, command)| (name.trim(), command.trim()))
        {
            conf.health = (!command.is_empty()).then(|| command.to_owned());
            continue;
        }
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or((number, Problem::NoValue))?;
        let value = value
            .trim()
            .parse::<usize>()
            .map_err(|_| (number, Problem::NoNumber))?;
        match name.trim() {
            "num_proc" if value == 0 => return Err((number, Problem::NoProcesses)),
            "num_proc" => conf.num_proc = Some(value),
            "keep" => conf.keep = value,
            "health_timeout" => conf.health_within = Duration::from_secs(value as u64),
            "time_limit" => conf.time_limit = time_limit(value as u64),
            // Files of Solaris hosts may say more.
            _ => {}
        }
    }
    Ok(conf)
}

/// A time limit as people write it: none is written 0.
#[must_use]
pub fn time_limit(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Returns the number of zones that are patched at a time: the requested number, by default the
/// number of CPUs, and at most one and a half times as many and the number of zones.
#[must_use]
pub fn effective(asked: Option<usize>, cpus: usize, zones: usize) -> usize {
    let cpus = cpus.max(1);
    asked.unwrap_or(cpus).min(cpus + cpus / 2).min(zones).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_solaris_is_understood() {
        let conf = parse("# parallel patching\n\nnum_proc = 4 # zones\nkeep=1\nother=2\n");
        assert_eq!(conf.unwrap().num_proc, Some(4));
        assert_eq!(parse("").unwrap(), Conf::default());
        assert_eq!(parse("").unwrap().time_limit, Some(TIME_LIMIT));
        assert_eq!(parse("time_limit=0\n").unwrap().time_limit, None);
        let limit = parse("time_limit = 90\n").unwrap().time_limit;
        assert_eq!(limit, Some(Duration::from_secs(90)));
        let conf = parse("health = test a = a # b\nhealth_timeout=5\n").unwrap();
        assert_eq!(conf.health.as_deref(), Some("test a = a # b"));
        assert_eq!(conf.health_within, Duration::from_secs(5));
        assert_eq!(parse("a=1\nnum_proc"), Err((2, Problem::NoValue)));
        assert_eq!(parse("num_proc=x"), Err((1, Problem::NoNumber)));
        assert_eq!(parse("num_proc=0"), Err((1, Problem::NoProcesses)));
    }

    #[test]
    fn parallel_jobs_are_limited_by_the_cpus() {
        assert_eq!(effective(None, 4, 16), 4);
        assert_eq!(effective(Some(100), 4, 16), 6);
        assert_eq!(effective(Some(100), 4, 5), 5);
        assert_eq!(effective(Some(1), 4, 16), 1);
        assert_eq!(effective(None, 1, 0), 1);
        assert_eq!(effective(Some(9), 3, 16), 4);
    }
}
