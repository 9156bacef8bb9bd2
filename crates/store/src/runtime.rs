//! Reads and writes the state of active zones: `/run/zones/<zone>.state`.
//!
//! zoneadmd writes the file when the virtual platform exists, and removes the file when the
//! platform is gone. The file alone does not prove that the zone is active: a zone is active if its
//! first process is alive.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::controls::Controls;
use model::immutable::Immutable;
use model::{State, ZoneName};
use serde::{Deserialize, Serialize};

use crate::atomic::{self, Durability};
use crate::format::{self, Stored};
use crate::lock::{self, Wait};
use crate::{Error, Root};

/// The state of an active zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The numeric id of the zone.
    pub id: u32,
    /// The state of the zone: `ready`, `running`, `shutting_down` or `down`.
    pub state: State,
    /// The zone's first process, with its pid on the host.
    pub init: Process,
    /// The zone's zoneadmd. zoneadmd may have died while the zone still runs.
    pub daemon: Process,
    /// The zone's cgroups: first the v2 group, then one group per v1 hierarchy in use.
    pub cgroups: Vec<PathBuf>,
    /// First host id of the zone's range of user and group ids.
    pub first_id: u32,
    /// The signal that asks init to end the zone in order.
    pub shutdown_signal: i32,
    /// The capabilities that processes of the zone may have, one bit each.
    pub capabilities: u64,
    /// The seccomp program of every process of the zone. The program is empty if the zone's
    /// privileges turn the filter off.
    pub seccomp: Vec<u64>,
    /// True if processes that enter the zone must see another kernel version.
    #[serde(default)]
    pub kernel: bool,
    /// The environment of processes that enter the zone.
    pub environment: Vec<String>,
    /// The resource controls that were applied last.
    #[serde(default)]
    pub controls: Controls,
    /// The auxiliary state that `list -s` shows, such as `panicked`.
    #[serde(default)]
    pub auxiliary: String,
    /// The process that still restores the memory of a guest that already runs.
    #[serde(default)]
    pub pager: Option<Process>,
    /// The profile with which an immutable zone was booted; `None` for other zones.
    #[serde(default)]
    pub immutable: Option<Immutable>,
}

/// The value of [`Runtime::auxiliary`] while zoneadmd restores the memory and devices of a guest.
/// The guest does not run yet, and its suspend image is still complete.
pub const RESUMING: &str = "resuming";

/// A mount that zoneadmd made in the zone's mount namespace. The mount number distinguishes this
/// mount from a mount that the zone made at the same path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The mount point in the zone, as the configuration names it.
    pub at: PathBuf,
    /// The mount number in /proc/PID/mountinfo. The kernel may reuse a mount number after the mount
    /// is gone.
    pub id: u64,
    /// The unique mount number of kernel 6.8 and later, which the kernel never reuses.
    pub unique: Option<u64>,
}

/// A process, identified by its pid and start time, so that a later process with the same pid is
/// not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id in the host's pid namespace.
    pub pid: i32,
    /// Start time in clock ticks since host boot (field 22 of /proc/PID/stat).
    pub started: u64,
}

/// Flags of the kernel for a task (include/linux/sched.h): the task is in do_exit(), or the task
/// has executed no program since its fork.
const PF_EXITING: u64 = 0x4;
const PF_FORKNOEXEC: u64 = 0x40;

/// The fields of /proc/PID/stat of a live process.
struct Stat {
    flags: u64,
    started: u64,
}

/// Reads the state of a process. Returns `None` if the process does not exist or has begun to end.
/// A killed process closes its files some time before it becomes a zombie, and an observer of the
/// closed files must not find the process alive.
fn stat(pid: i32) -> Option<Stat> {
    let stat = sys::file::read_small(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    let stat = String::from_utf8(stat).ok()?;
    // The command name may contain any character, even ')'. The other fields follow the last ')'.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // Fields 9 and 22 of proc_pid_stat(5).
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let started = fields.nth(12)?.parse().ok()?;
    (flags & PF_EXITING == 0).then_some(Stat { flags, started })
}

impl Process {
    /// Finds a process by its pid. Returns `None` if the process does not exist or has begun to
    /// end.
    #[must_use]
    pub fn find(pid: i32) -> Option<Self> {
        let started = stat(pid)?.started;
        Some(Self { pid, started })
    }

    /// Returns true if exactly this process still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    /// Returns true if exactly this process still runs and has executed no program since its fork.
    /// A first process that has executed no program has not become init yet.
    #[must_use]
    pub fn is_copy(self) -> bool {
        stat(self.pid)
            .is_some_and(|stat| stat.started == self.started && stat.flags & PF_FORKNOEXEC != 0)
    }
}

/// Maximum size of a state file in bytes. The largest part, a seccomp program, has a few KiB.
const MAX_SIZE: u64 = 1 << 20;

/// Reads the state of an active zone. Returns `None` if the file is missing or the zone's first
/// process is dead.
///
/// # Errors
/// Fails with [`Error::Damaged`] if the file cannot be parsed.
pub fn load(root: &Root, zone: &ZoneName) -> Result<Option<Runtime>, Error> {
    Ok(load_any(root, zone)?.filter(|runtime| runtime.init.is_alive()))
}

/// Reads the state like [`load`], but also if the zone's first process has ended and its remains
/// must still be cleaned up.
///
/// # Errors
/// Fails like [`load`].
pub fn load_any(root: &Root, zone: &ZoneName) -> Result<Option<Runtime>, Error> {
    let path = root.runtime(zone);
    match bounded(&path, MAX_SIZE)? {
        None => Ok(None),
        Some(text) => understand(path, &text).map(Some),
    }
}

/// Returns the content of a file, or `None` if the file does not exist.
fn bounded(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Error> {
    let read = fs::metadata(path).and_then(|meta| {
        if meta.len() > most {
            return Err(std::io::Error::other("too large for a zone's state"));
        }
        fs::read(path)
    });
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// The format of these files that this program writes. A file without a format number has format 1.
const FORMAT: u64 = 1;

fn understand<T: serde::de::DeserializeOwned>(path: PathBuf, text: &[u8]) -> Result<T, Error> {
    format::check_json(&path, text, FORMAT)?;
    serde_json::from_slice(text).map_err(|error| Error::Damaged {
        path,
        line: error.line(),
        reason: Box::new(error.into()),
    })
}

/// Stores the runtime state of an active zone.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn save(root: &Root, zone: &ZoneName, runtime: &Runtime) -> Result<(), Error> {
    let path = root.runtime(zone);
    let stored = Stored {
        format: FORMAT,
        content: runtime,
    };
    let text = serde_json::to_vec(&stored)
        .map_err(|error| Error::file("write", &path)(std::io::Error::other(error)))?;
    atomic::replace(&path, &text, 0o644, Durability::Volatile)
}

/// Removes the files of an active zone: its state, running configuration and sockets, and the
/// temporary files of killed writers.
///
/// # Errors
/// Fails with [`Error::File`]. If a file cannot be removed, all other files are removed
/// nevertheless.
pub fn forget(root: &Root, zone: &ZoneName) -> Result<(), Error> {
    let mut result = remove_files_of(&root.proc_files(zone));
    sys::crash::point();
    for path in [
        root.socket(zone),
        root.kernel_socket(zone),
        root.machine(zone, "monitor"),
        root.machine(zone, "console"),
        root.machine(zone, "agent"),
        root.frozen(zone),
        root.running(zone),
        root.mounts(zone),
        // A zoneadmd that was killed while it saved or restored memory leaves this file.
        root.progress(zone),
        root.runtime(zone),
    ] {
        // A zoneadmd that was killed during a write leaves a temporary file.
        atomic::remove_aside(&path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                result = Err(Error::file("remove", &path)(error));
            }
            _ => {}
        }
        sys::crash::point();
    }
    result
}

/// Removes a folder and the plain files in it. A missing folder is no error.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn remove_files_of(folder: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(Error::file("read", folder))?,
    };
    for entry in entries {
        let path = entry.map_err(Error::file("read", folder))?.path();
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    fs::remove_dir(folder).map_err(Error::file("remove", folder))
}

/// Maximum size of the file with the list of mounts, in bytes.
const MAX_MOUNTS: u64 = 4 << 20;

/// Reads the mounts that the configuration of an active zone requested: file systems and device
/// nodes. The mounts are not in the state file, because only zoneadmd writes the state file, and
/// other programs change the mounts.
///
/// # Errors
/// Fails with [`Error::Damaged`] if the file cannot be parsed.
pub fn load_mounts(root: &Root, zone: &ZoneName) -> Result<Vec<Mounted>, Error> {
    let path = root.mounts(zone);
    match bounded(&path, MAX_MOUNTS)? {
        None => Ok(Vec::new()),
        Some(text) => understand(path, &text),
    }
}

/// Stores the mounts that the configuration of an active zone requested. In format 1 the file is a
/// JSON list. A file of another format must be an object that states its format.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn save_mounts(root: &Root, zone: &ZoneName, mounts: &[Mounted]) -> Result<(), Error> {
    let path = root.mounts(zone);
    let text = serde_json::to_vec(mounts)
        .map_err(|error| Error::file("write", &path)(std::io::Error::other(error)))?;
    atomic::replace(&path, &text, 0o600, Durability::Volatile)
}

/// Returns the next numeric zone id. The ids rise with every ready and boot of a zone, until the
/// host boots.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn next_id(root: &Root) -> Result<u32, Error> {
    let path = root.run().join("last_id");
    let lock_path = root.run().join("last_id.lock");
    let _held = lock::take(&lock_path, Wait::Yes).map_err(Error::file("lock", &lock_path))?;
    let last = fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0u32);
    // Id 0 belongs to the global zone.
    let id = last
        .checked_add(1)
        .filter(|id| *id <= i32::MAX as u32)
        .unwrap_or(1);
    atomic::replace(
        &path,
        format!("{id}\n").as_bytes(),
        0o644,
        Durability::Volatile,
    )?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(init: Process) -> Runtime {
        Runtime {
            id: 1000,
            state: State::Running,
            init,
            daemon: init,
            cgroups: vec![PathBuf::from("/sys/fs/cgroup/zones/web")],
            first_id: 0x2000_0000,
            shutdown_signal: 30,
            capabilities: 1,
            seccomp: vec![6],
            kernel: false,
            environment: vec!["container=zone".into()],
            controls: Controls::default(),
            auxiliary: String::new(),
            pager: None,
            immutable: None,
        }
    }

    #[test]
    fn a_zone_is_active_only_with_a_live_first_process() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let zone: ZoneName = "web".parse().unwrap();
        assert_eq!(load(&root, &zone).unwrap(), None);
        fs::create_dir_all(root.run()).unwrap();
        let me = Process::find(i32::try_from(std::process::id()).unwrap()).unwrap();
        save(&root, &zone, &sample(me)).unwrap();
        assert_eq!(load(&root, &zone).unwrap(), Some(sample(me)));
        let earlier = Process {
            started: me.started.wrapping_sub(1),
            ..me
        };
        save(&root, &zone, &sample(earlier)).unwrap();
        assert_eq!(load(&root, &zone).unwrap(), None);
        assert!(load_any(&root, &zone).unwrap().is_some());
        // Killed writers left these temporary files.
        for name in [".web.state.new", ".web.xml.new", ".web.mounts.new"] {
            fs::write(root.run().join(name), "half").unwrap();
        }
        // A zoneadmd that was killed while it restored memory left this file.
        fs::write(root.progress(&zone), "1 2").unwrap();
        forget(&root, &zone).unwrap();
        forget(&root, &zone).unwrap();
        assert_eq!(load_any(&root, &zone).unwrap(), None);
        assert_eq!(fs::read_dir(root.run()).unwrap().count(), 0);
    }

    #[test]
    fn a_process_that_has_closed_its_files_counts_as_dead() {
        use std::io::Read;
        use std::process::{Command, Stdio};
        for _ in 0..50 {
            let mut child = Command::new("cat")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let process = Process::find(i32::try_from(child.id()).unwrap()).unwrap();
            assert!(process.is_alive());
            child.kill().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            stdout.read_to_end(&mut Vec::new()).unwrap();
            assert!(!process.is_alive());
            child.wait().unwrap();
            assert!(!process.is_alive());
        }
    }

    #[test]
    fn a_forked_copy_is_recognised_until_it_executes_a_program() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio};
        let mut shell = Command::new("sh")
            .args([
                "-c",
                "exec 3<&0; (read x <&3; exec cat <&3) & echo $!; wait",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let copy = Process::find(line.trim().parse().unwrap()).unwrap();
        assert!(copy.is_copy());
        let parent = Process::find(i32::try_from(shell.id()).unwrap()).unwrap();
        assert!(parent.is_alive() && !parent.is_copy());
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        while copy.is_copy() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(copy.is_alive());
        drop(stdin);
        shell.wait().unwrap();
        assert!(!copy.is_alive() && !copy.is_copy());
    }

    #[test]
    fn ids_rise_past_999() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert_eq!(next_id(&root).unwrap(), 1);
        fs::write(root.run().join("last_id"), "999\n").unwrap();
        assert_eq!(next_id(&root).unwrap(), 1000);
        fs::write(root.run().join("last_id"), format!("{}\n", i32::MAX)).unwrap();
        assert_eq!(next_id(&root).unwrap(), 1);
    }

    #[test]
    fn a_record_says_its_format_and_older_ones_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let zone: ZoneName = "web".parse().unwrap();
        fs::create_dir_all(root.run()).unwrap();
        // The programs of commit df5d183 wrote this file.
        fs::write(root.runtime(&zone), include_str!("../fixtures/web.state")).unwrap();
        let old = load_any(&root, &zone).unwrap().unwrap();
        assert_eq!((old.state, old.first_id), (State::Running, 0x2001_0000));
        fs::write(root.mounts(&zone), include_str!("../fixtures/web.mounts")).unwrap();
        assert!(!load_mounts(&root, &zone).unwrap().is_empty());
        save(&root, &zone, &old).unwrap();
        assert!(
            fs::read_to_string(root.runtime(&zone))
                .unwrap()
                .starts_with("{\"format\":1,")
        );
        assert_eq!(load_any(&root, &zone).unwrap(), Some(old));
        for path in [root.runtime(&zone), root.mounts(&zone)] {
            fs::write(&path, "{\"format\":2,\"all\":\"else\"}").unwrap();
        }
        for error in [
            load_any(&root, &zone).unwrap_err(),
            load_mounts(&root, &zone).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                text.contains("has format 2") && text.contains("use newer"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_not_a_dead_zone() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let zone: ZoneName = "web".parse().unwrap();
        fs::create_dir_all(root.run()).unwrap();
        fs::write(root.runtime(&zone), "{}").unwrap();
        assert!(load(&root, &zone).is_err());
        assert!(Path::new(&root.runtime(&zone)).exists());
    }
}
