//! Reads `/etc/patch/pdo.conf`: `num_proc=N`, as on Solaris 10, the number of patches that can be
//! undone, and the health command.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use store::Root;

use crate::health;

/// Default number of patches of a zone that can be undone.
const DEFAULT_KEPT_PATCHES: usize = 3;

/// Timeout for the package manager of a zone if the file sets none.
const TIME_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Maximum size of the file, in bytes.
const MAX_CONF_BYTES: u64 = 64 << 10;

/// The settings of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf {
    /// Number of zones that are patched at a time.
    pub num_proc: Option<usize>,
    /// Number of snapshots of former patches that a zone keeps.
    pub keep: usize,
    /// The health command of zones that have no health command of their own.
    pub health: Option<String>,
    /// Timeout of the health command.
    pub health_within: Duration,
    /// Timeout for the package manager of a zone; `None` means no limit.
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

/// Returns the path of the configuration file.
#[must_use]
pub fn path(root: &Root) -> PathBuf {
    root.dir().join("etc/patch/pdo.conf")
}

/// The reason why the configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is larger than a file of settings may be.
    #[error("{}: too large", .0.display())]
    TooLarge(PathBuf),
    /// A line of the file is invalid.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line; the first is 1.
        line: usize,
        /// The problem with the line.
        problem: Problem,
    },
}

/// The problem with a line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The line has no equals sign.
    #[error("expected NAME=VALUE")]
    NoValue,
    /// The value is not one of the allowed words.
    #[error("expected a number")]
    NoNumber,
    /// The number of zones at a time is 0, so no zone would ever be patched.
    #[error("num_proc must be at least 1")]
    NoProcesses,
}

/// Reads the configuration file. Without a file, all settings have their defaults.
///
/// # Errors
/// Fails with [`Error::Line`] if a line is invalid.
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
        // A health command may contain characters that begin a comment in other settings.
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
            // Unknown settings are ignored, because the file of a Solaris host may have more of
            // them.
            _ => {}
        }
    }
    Ok(conf)
}

/// Reads a time limit such as `90s` or `10m`. The value 0 means no limit.
#[must_use]
pub fn time_limit(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Returns the number of zones to patch at a time: the requested number, or else the number of
/// CPUs. The result is at most 1.5 times the number of CPUs, and at most the number of zones.
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
