//! Finds the process that holds a lock, for the error message of a command that cannot get the
//! lock.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::ZoneName;
use rustix::fs::{major, minor};

/// The most reads of /proc/locks in the search for one lock.
const MAX_READS_OF_LOCKS: usize = 8;

/// Options of the zone programs that take an argument.
const WITH_WORD: [&[u8]; 3] = [b"-z", b"-u", b"-R"];

/// A zone whose lock another process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    zone: ZoneName,
    /// The command and the process, if they are known: `zoneadm boot (process 1234)`.
    by: Option<String>,
}

impl Busy {
    /// Finds the holder of the lock file at `path`. [`Busy`] names no process if the holder is not
    /// a zone program, or if the holder passed the lock on and ended.
    pub(super) fn of(zone: &ZoneName, path: &Path) -> Self {
        Self {
            zone: zone.clone(),
            by: holder(path).and_then(command),
        }
    }
}

/// Makes the error for a lock whose holder is unknown.
impl From<ZoneName> for Busy {
    fn from(zone: ZoneName) -> Self {
        Self { zone, by: None }
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = &self.zone;
        // Scripts search for this text, which is that of Solaris.
        write!(
            f,
            "zone '{zone}': another zoneadm may have an operation in progress"
        )?;
        match &self.by {
            Some(by) => write!(f, ": the zone is locked by {by}."),
            None => f.write_str("."),
        }
    }
}

/// Returns the process that has locked a file with flock(2), from /proc/locks.
fn holder(path: &Path) -> Option<u32> {
    let stat = fs::metadata(path).ok()?;
    let (major, minor) = (major(stat.dev()), minor(stat.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", stat.ino());
    (0..MAX_READS_OF_LOCKS).find_map(|_| holder_in(&read_locks().ok()?, &file))
}

/// Returns the content of /proc/locks. The kernel finds the place of a read by the count of the
/// locks before it, so it leaves a lock out if an earlier lock goes between two reads. This
/// function therefore reads whole pages (about 60 locks), and its caller reads again if it misses
/// a lock.
fn read_locks() -> io::Result<String> {
    const PAGE: usize = 4096;
    let mut file = File::open("/proc/locks")?;
    let mut locks = Vec::new();
    loop {
        let end = locks.len();
        locks.resize(end + PAGE, 0);
        let count = file.read(&mut locks[end..])?;
        locks.truncate(end + count);
        if count == 0 {
            return Ok(String::from_utf8_lossy(&locks).into_owned());
        }
    }
}

fn holder_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        // In a line of a waiting process, the second word is "->".
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, "FLOCK", _, "WRITE", process, name, ..] if name == file => process.parse().ok(),
            _ => None,
        }
    })
}

/// Describes a process of a zone program as `program subcommand (process id)`.
fn command(process: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    Some(format!("{} (process {process})", shown(&line)?))
}

/// Returns the program and its subcommand. Further words of the command line are left out, because
/// they may be secret.
fn shown(line: &[u8]) -> Option<String> {
    let mut words = line.split(|byte| *byte == 0);
    let program = Path::new(OsStr::from_bytes(words.next()?)).file_name()?;
    let program = program.to_str().filter(|name| is_word(name.as_bytes()))?;
    if !program.starts_with("zone") {
        return None;
    }
    while let Some(word) = words.next() {
        if WITH_WORD.contains(&word) {
            words.next();
        } else if is_word(word) {
            return Some(format!("{program} {}", String::from_utf8_lossy(word)));
        } else if !word.starts_with(b"-") {
            break;
        }
    }
    Some(program.to_owned())
}

fn is_word(text: &[u8]) -> bool {
    let is_legal = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    text.len() <= 32
        && text.first().is_some_and(u8::is_ascii_lowercase)
        && text.iter().all(is_legal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn commands_are_named_without_their_other_words() {
        for (line, wanted) in [
            (
                "/usr/sbin/zoneadm\0-z\0web\0boot\0--\0-s\0",
                Some("zoneadm boot"),
            ),
            ("zonecfg\0-z\0web\0set hostid=1\0", Some("zonecfg")),
            ("zones-service\0start\0", Some("zones-service start")),
            ("zoneadmd\0", Some("zoneadmd")),
            ("/bin/sh\0-c\0secret\0", None),
            ("zone\u{1b}[2J\0", None),
            ("", None),
        ] {
            assert_eq!(shown(line.as_bytes()).as_deref(), wanted, "{line:?}");
        }
    }

    #[test]
    fn the_holder_is_found_and_a_waiting_process_is_not() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:1a:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 22 00:1a:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 33 00:1a:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 44 00:1a:78 0 EOF\n";
        assert_eq!(holder_in(locks, "00:1a:77"), Some(22));
        assert_eq!(holder_in(locks, "00:1a:79"), None);
    }

    #[test]
    fn this_process_is_found_by_its_lock() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("lock");
        let _held = crate::lock::exclusive(&path).unwrap();
        assert_eq!(holder(&path), Some(std::process::id()));
        let busy = Busy::of(&"web".parse().unwrap(), &path);
        // The program of the test is not a zone program, so it is not named.
        assert_eq!(
            busy.to_string(),
            "zone 'web': another zoneadm may have an operation in progress."
        );
    }

    #[test]
    fn the_holder_is_found_while_other_locks_come_and_go() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("lock");
        let end = AtomicBool::new(false);
        let missed = std::thread::scope(|scope| {
            for other in 0..4 {
                let other = dir.path().join(other.to_string());
                let end = &end;
                scope.spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        drop(crate::lock::exclusive(&other).unwrap());
                    }
                });
            }
            let _held = crate::lock::exclusive(&path).unwrap();
            let missed = (0..1000).filter(|_| holder(&path).is_none()).count();
            end.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0, "of 1000 searches");
    }
}
