//! Reads a process from /proc.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Ticks per second of the times in /proc; the same on every supported processor.
const TICKS_PER_SECOND: u64 = 100;

/// Maximum size of a file in /proc that is read, in bytes: a command line can be long.
const MAX_SIZE: u64 = 4 << 20;

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The process id in this pid namespace.
    pub pid: i32,
    /// The process id of the parent; 0 if the parent is outside of this pid namespace.
    pub ppid: i32,
    /// The process id in the process's own pid namespace.
    pub own_pid: i32,
    /// The process group.
    pub pgid: i32,
    /// The session.
    pub sid: i32,
    /// The device number of the process's terminal; 0 without a terminal.
    pub tty: u32,
    /// The kernel's letter for the state.
    pub state: char,
    /// The real and the effective user id.
    pub uids: [u32; 2],
    /// The effective group id.
    pub gid: u32,
    /// The used processor time, in seconds.
    pub cpu_seconds: u64,
    /// The start of the process after the host's boot, in seconds.
    pub started: u64,
    /// The kernel's priority.
    pub priority: i64,
    /// The nice value.
    pub nice: i64,
    /// The number of threads.
    pub threads: u64,
    /// Resident memory, in KiB.
    pub rss: u64,
    /// Virtual memory, in KiB.
    pub vsz: u64,
    /// The name of the program; may hold any character.
    pub comm: String,
    /// The command line with blanks between the words; may hold any character.
    pub args: String,
    /// The cgroup in the version 2 hierarchy.
    pub cgroup: String,
}

/// The host whose memory and uptime the percentages refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// The time since the host's boot, in seconds.
    pub uptime: u64,
    /// The size of the memory, in KiB.
    pub memory: u64,
}

impl Host {
    /// Reads /proc; missing values are 0.
    pub fn read() -> Self {
        let uptime = read_bounded("/proc/uptime").unwrap_or_default();
        let memory = read_bounded("/proc/meminfo").unwrap_or_default();
        Self {
            uptime: uptime
                .split('.')
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            memory: number(&memory, "MemTotal:"),
        }
    }
}

/// Returns the processes that this process can see, or those of them that are in `pids`, sorted by
/// id. A process that ends meanwhile is left out.
pub fn all(pids: &[i32]) -> Vec<Process> {
    let mut numbers: Vec<i32> = if pids.is_empty() {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    } else {
        pids.to_vec()
    };
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().filter_map(one).collect()
}

fn one(pid: i32) -> Option<Process> {
    let folder = format!("/proc/{pid}");
    let read = |name: &str| read_bounded(format!("{folder}/{name}"));
    let status = read("status")?;
    // /proc also has a folder for each thread, which it does not list: a thread is not a process.
    if number(&status, "Tgid:") != u64::try_from(pid).ok()? {
        return None;
    }
    let mut process = parse_stat(&read("stat")?)?;
    add_status(&mut process, &status);
    process.args = command_line(&read("cmdline").unwrap_or_default(), &process.comm);
    process.cgroup = store::groups::unified(&read("cgroup").unwrap_or_default()).to_owned();
    Some(process)
}

/// Parses /proc/PID/stat; see proc_pid_stat(5).
fn parse_stat(text: &str) -> Option<Process> {
    let (pid, rest) = text.split_once(" (")?;
    // The name may hold any character, also ')': the fields start after the last one.
    let (comm, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Fields are counted from 1, and the first two are parsed already.
    let field = |number: usize| fields.get(number - 3).copied();
    let count = |number: usize| field(number)?.parse::<u64>().ok();
    let signed = |number: usize| field(number)?.parse::<i64>().ok();
    let id = |number: usize| field(number)?.parse::<i32>().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        comm: comm.to_owned(),
        state: field(3)?.chars().next()?,
        ppid: id(4)?,
        pgid: id(5)?,
        sid: id(6)?,
        // Device numbers with their highest bit set do not exist.
        tty: u32::try_from(signed(7)?).unwrap_or_default(),
        cpu_seconds: (count(14)? + count(15)?) / TICKS_PER_SECOND,
        priority: signed(18)?,
        nice: signed(19)?,
        threads: count(20)?,
        started: count(22)? / TICKS_PER_SECOND,
        ..Process::default()
    })
}

fn add_status(process: &mut Process, status: &str) {
    let ids = |key: &str| -> Vec<u32> {
        let words = line(status, key).split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    if let [real, effective, ..] = ids("Uid:")[..] {
        process.uids = [real, effective];
    }
    if let [_, effective, ..] = ids("Gid:")[..] {
        process.gid = effective;
    }
    let innermost = line(status, "NSpid:").split_ascii_whitespace().last();
    process.own_pid = innermost
        .and_then(|pid| pid.parse().ok())
        .unwrap_or(process.pid);
    process.rss = number(status, "VmRSS:");
    process.vsz = number(status, "VmSize:");
}

/// Returns the command line as one line; for a process without a command line, its name as ps shows
/// it.
fn command_line(words: &str, comm: &str) -> String {
    let words = words.trim_end_matches('\0');
    if words.is_empty() {
        format!("[{comm}]")
    } else {
        words.replace('\0', " ")
    }
}

/// Returns the rest of the line that begins with a key.
fn line<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default()
}

/// Returns the number that follows a key; 0 if the key is missing.
fn number(text: &str, key: &str) -> u64 {
    line(text, key)
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or_default()
}

/// Returns the start of a file as text, at most [`MAX_SIZE`] bytes.
pub fn read_bounded(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_process_is_found_with_its_figures() {
        let me = i32::try_from(std::process::id()).unwrap();
        let found = all(&[me, me]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, me);
        assert_eq!(found[0].own_pid, me);
        assert!(found[0].args.contains("zps"), "{found:?}");
        assert!(found[0].rss > 0 && found[0].threads > 0);
        assert!(all(&[]).iter().any(|process| process.pid == me));
    }

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 1 42 43 34817 44 4194560 1 2 3 4 100 250 0 0 20 -5 3 0 12345 999 7";
        let process = parse_stat(&format!("42 (a) b (c) {rest}")).unwrap();
        assert_eq!(process.comm, "a) b (c");
        assert_eq!((process.pid, process.ppid, process.sid), (42, 1, 43));
        assert_eq!((process.tty, process.state), (34817, 'S'));
        assert_eq!((process.cpu_seconds, process.started), (3, 123));
        assert_eq!((process.nice, process.threads), (-5, 3));
        for bad in ["", "42", "42 (a", "42 (a)", "x (a) S 1"] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn status_files_are_parsed() {
        let mut process = Process::default();
        let status = "Name:\tx\nUid:\t5\t6\t7\t8\nGid:\t1\t2\t3\t4\nNSpid:\t900\t12\nVmSize:\t  70 kB\nVmRSS:\t  7 kB\n";
        add_status(&mut process, status);
        assert_eq!((process.uids, process.gid), ([5, 6], 2));
        assert_eq!((process.own_pid, process.rss, process.vsz), (12, 7, 70));
        assert_eq!(command_line("sh\0-c\0x y\0", "sh"), "sh -c x y");
        assert_eq!(command_line("", "kthreadd"), "[kthreadd]");
    }
}
