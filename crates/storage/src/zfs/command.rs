//! Runs zfs(8), and returns its output.

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The possible paths of zfs(8); `PATH` is not used.
const PLACES: &[&str] = &["/usr/sbin/zfs", "/sbin/zfs", "/usr/local/sbin/zfs"];

/// Time to wait until an unused file system is no longer busy: the mount namespace of a halted zone
/// ends a moment after the halt.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a file system's name, in bytes. It is less than the limit of ZFS, to leave
/// space for the names of snapshots and children.
const MAX_DATASET_NAME_BYTES: usize = 160;

/// The name of a ZFS file system, after a check that it is no option and no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileSystem(String);

impl FileSystem {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b);
        let part = |part: &str| {
            part.bytes().all(legal)
                && part
                    .bytes()
                    .next()
                    .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        (text.len() <= MAX_DATASET_NAME_BYTES && text.split('/').all(part))
            .then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn child(&self, name: &str) -> Option<Self> {
        Self::parse(&format!("{self}/{name}"))
    }

    pub(crate) fn pool(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Returns true if this file system is `other`, or is below `other`.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        self.0
            .strip_prefix(&other.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Runs zfs(8) with these arguments and returns its output.
pub(crate) fn zfs<S: AsRef<OsStr>>(words: &[S]) -> Result<String> {
    let began = Instant::now();
    loop {
        match once(words, Stdio::null(), Stdio::piped()) {
            Err(Error::Zfs { why, .. }) if is_busy(&why) && began.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
}

/// Runs zfs(8) once, with `from` as its standard input.
pub(crate) fn zfs_reads(words: &[&str], from: BorrowedFd<'_>) -> Result<()> {
    once(words, copy_of(from)?, Stdio::null()).map(drop)
}

/// Runs zfs(8) once, with `to` as its standard output.
pub(crate) fn zfs_writes(words: &[&str], to: BorrowedFd<'_>) -> Result<()> {
    once(words, Stdio::null(), copy_of(to)?).map(drop)
}

fn copy_of(fd: BorrowedFd<'_>) -> Result<Stdio> {
    let copy = fd.try_clone_to_owned();
    copy.map(Stdio::from)
        .map_err(|e| Error::io("dup", "a stream", e))
}

fn is_busy(why: &str) -> bool {
    why.contains("is busy") || why.contains("Device or resource busy")
}

fn once<S: AsRef<OsStr>>(words: &[S], stdin: Stdio, stdout: Stdio) -> Result<String> {
    let fail = |why: String| Error::Zfs {
        command: words.iter().fold("zfs".to_owned(), |line, word| {
            format!("{line} {}", word.as_ref().to_string_lossy())
        }),
        why,
    };
    let program = PLACES
        .iter()
        .find(|place| Path::new(place).exists())
        .ok_or_else(|| fail(format!("{} is not there", PLACES[0])))?;
    let output = Command::new(program)
        .args(words)
        .env_clear()
        .env("LC_ALL", "C")
        // zfs(8) runs mount(8) and its own helpers, so it needs a `PATH`.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(stdin)
        .stdout(stdout)
        // The process is root already. But setting an id makes Rust start the program with fork(2),
        // because the faster method fails with EINVAL in a process that has unshared its time
        // namespace.
        .uid(0)
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| fail(e.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let why = said.collect::<Vec<_>>().join("; ");
    Err(fail(if why.is_empty() {
        output.status.to_string()
    } else {
        why
    }))
}

/// Splits the lines that `zfs -H` prints into fields.
pub(crate) fn table(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split('\t').collect())
}

/// Returns the first two numbers of the kernel module's version.
pub(crate) fn version() -> Option<(u32, u32)> {
    parse_version(&std::fs::read_to_string("/sys/module/zfs/version").ok()?)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(['.', '-']);
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_option_and_no_snapshot() {
        for good in ["tank", "tank/zones/web-1", "tank/_x", "a.b/c:d"] {
            assert_eq!(FileSystem::parse(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(161);
        for bad in [
            "", "-r", "/tank", "tank/", "tank//a", "tank/-r", "tank@a", "tank/a b", "tank/..",
            "tank\n", &long,
        ] {
            assert_eq!(FileSystem::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn below_is_by_whole_components() {
        let fs = |text| FileSystem::parse(text).unwrap();
        assert!(fs("tank/web/root").is_in(&fs("tank/web")));
        assert!(fs("tank/web").is_in(&fs("tank/web")));
        assert!(!fs("tank/web1").is_in(&fs("tank/web")));
        assert_eq!(fs("tank/web").pool(), "tank");
    }

    #[test]
    fn reads_versions_of_releases_and_packages() {
        assert_eq!(parse_version("2.1.11-1+deb12u1\n"), Some((2, 1)));
        assert_eq!(parse_version("2.3.2-2~bpo12+2"), Some((2, 3)));
        assert_eq!(parse_version("2.2-rc4"), Some((2, 2)));
        assert_eq!(parse_version("no"), None);
    }

    #[test]
    fn fields_are_between_tabs() {
        let rows: Vec<_> = table("a\t-\tb c\nd\t\te\n").collect();
        assert_eq!(rows, [vec!["a", "-", "b c"], vec!["d", "", "e"]]);
    }
}
