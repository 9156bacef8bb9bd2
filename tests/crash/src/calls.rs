//! Lists the system calls of a recorded run that change state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The calls that strace records. Calls that only set owners, modes and times are left out: a kill
/// at the next call of this list shows their effect.
pub const CHANGING: &[&str] = &[
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "unlink",
    "unlinkat",
    "rmdir",
    "open",
    "openat",
    "openat2",
    "creat",
    "write",
    "pwrite64",
    "writev",
    "copy_file_range",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "syncfs",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "mount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsconfig",
    "fsmount",
    "mount_setattr",
    "pivot_root",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "unshare",
    "kill",
    "tgkill",
    "pidfd_send_signal",
    "ioctl",
    "sendto",
    "sendmsg",
];

/// The calls that show which program a process executes.
pub const ORIGINS: &[&str] = &["execve", "execveat", "clone", "clone3", "fork", "vfork"];

/// A system call of one traced process: the `n`-th with its name, as strace counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The name of the call.
    pub call: String,
    /// The number of the call among those with this name, from 1.
    pub n: u32,
    /// The path in the call's arguments, if `n` counts only the calls with this path. This is
    /// needed if another thread or process makes the `n`-th call with this name earlier.
    pub path: Option<String>,
    /// The call's arguments in the recorded run, for reports.
    pub text: String,
}

impl Site {
    /// Returns the words for `--site` that select this call.
    #[must_use]
    pub fn key(&self) -> String {
        let path = self.path.as_deref().map(|path| format!("@{path}"));
        format!("{}:{}{}", self.call, self.n, path.unwrap_or_default())
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key(), self.text)
    }
}

/// Parses the output of `strace -f -y -o`. The result has each call and number once, in the order
/// of the run: strace counts per thread, and the first thread that reaches the number is killed.
/// The calls of later threads are identified by their path, if it is the same in each run. `root`
/// is removed from paths.
#[must_use]
pub fn sites(record: &str, root: &str) -> Vec<Site> {
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut at_paths: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
    let mut known = BTreeMap::new();
    let mut found = Vec::new();
    let mut programs = Programs::default();
    for line in record.lines() {
        let Some((pid, rest)) = split(line) else {
            continue;
        };
        programs.hear(pid, rest);
        let Some((call, arguments)) = rest.split_once('(') else {
            continue;
        };
        if rest.starts_with('<') || !CHANGING.contains(&call) {
            continue;
        }
        let count = counts.entry((pid, call)).or_default();
        *count += 1;
        let path = path_of(arguments);
        let at_path = path.map(|path| {
            let at_path = at_paths.entry((pid, call, path)).or_default();
            *at_path += 1;
            (path, *at_path)
        });
        if !changes(call, arguments) || programs.is_machine(pid) {
            continue;
        }
        let (n, path) = match (known.insert((call, *count, ""), ()), at_path) {
            (None, _) => (*count, None),
            (Some(()), Some((path, n)))
                if is_lasting(path) && known.insert((call, n, path), ()).is_none() =>
            {
                (n, Some(path.replace(root, ROOT)))
            }
            _ => continue,
        };
        found.push(Site {
            call: call.to_owned(),
            n,
            path,
            text: shortened(arguments),
        });
    }
    found
}

/// Replaces the ZONES_ROOT in the paths of sites.
pub const ROOT: &str = "@ROOT";

/// Returns the first path among the arguments of a call.
fn path_of(arguments: &str) -> Option<&str> {
    let of_descriptor = arguments
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split_once('>').map(|(path, _)| path))
        .find(|path| path.len() > 1 && path.starts_with('/'));
    let of_string = arguments
        .split('"')
        .nth(1)
        .filter(|path| path.starts_with('/'));
    of_descriptor.or(of_string)
}

/// Returns true for a path that the next run has, too: a path without ids, times and process ids.
fn is_lasting(path: &str) -> bool {
    let of_process = path.starts_with("/proc/") || path.starts_with("/memfd:");
    !of_process
        && path.split('/').all(|part| {
            part.split(|one: char| !one.is_ascii_hexdigit())
                .all(|run| run.len() < 8)
        })
}

/// Returns true if the process that was killed first was a QEMU: the memory of its guest is lost.
#[must_use]
pub fn killed_machine(record: &str) -> bool {
    let mut programs = Programs::default();
    for (pid, rest) in record.lines().filter_map(split) {
        if rest.starts_with("+++ killed by SIGKILL") {
            return programs.is_machine(pid);
        }
        programs.hear(pid, rest);
    }
    false
}

/// Splits a line into the process id and the call.
fn split(line: &str) -> Option<(&str, &str)> {
    let (pid, rest) = line.split_once(char::is_whitespace)?;
    Some((pid, rest.trim_start()))
}

/// The processes that execute QEMU, with their threads.
#[derive(Default)]
struct Programs<'a>(BTreeSet<&'a str>);

impl<'a> Programs<'a> {
    fn hear(&mut self, pid: &'a str, rest: &'a str) {
        let call = rest.trim_start_matches("<... ");
        let call = call.split(['(', ' ']).next().unwrap_or_default();
        if !ORIGINS.contains(&call) {
            return;
        }
        let result = rest.rsplit_once(" = ").map(|(_, result)| result);
        let result = result.and_then(|result| result.split_whitespace().next());
        if call.starts_with("exec") {
            if rest.contains("qemu-system-") {
                self.0.insert(pid);
            }
        } else if let Some(child) = result.filter(|_| self.is_machine(pid)) {
            self.0.insert(child);
        }
    }

    fn is_machine(&self, pid: &str) -> bool {
        self.0.contains(pid)
    }
}

/// Returns true if a call of [`CHANGING`] changes state outside of the process that makes it.
fn changes(call: &str, arguments: &str) -> bool {
    match call {
        "open" | "openat" | "openat2" => arguments.contains("O_CREAT"),
        "write" | "pwrite64" | "writev" => is_told(arguments),
        "ioctl" => ["BTRFS_IOC", "FICLONE", "FS_IOC_SET", "UFFDIO_"]
            .iter()
            .any(|name| arguments.contains(name)),
        // Messages to the kernel's network configuration, to a zoneadmd, to QEMU and to the agent
        // in a guest.
        "sendto" | "sendmsg" => {
            const ORDERS: &[&str] = &[
                "RTM_NEW",
                "RTM_DEL",
                "RTM_SET",
                "NFT_MSG_NEW",
                "NFT_MSG_DEL",
            ];
            let is_kernel = arguments.contains("nlmsg_type=");
            match is_kernel {
                true => ORDERS.iter().any(|name| arguments.contains(name)),
                false => arguments.contains("<socket:"),
            }
        }
        "clone" => !arguments.contains("CLONE_THREAD"),
        "clone3" => !arguments.contains("CLONE_THREAD"),
        "kill" | "tgkill" => true,
        _ => true,
    }
}

/// Returns true if the call writes to a file (also of a cgroup) or to another process. Returns
/// false for the streams that the test reads, and for terminals.
fn is_told(arguments: &str) -> bool {
    let Some((number, rest)) = arguments.split_once('<') else {
        return false;
    };
    let is_stream = ["0", "1", "2"].contains(&number);
    let is_file = rest.starts_with('/') && !rest.starts_with("/dev/");
    !is_stream && (is_file || rest.starts_with("socket:") || rest.starts_with("pipe:"))
}

fn shortened(arguments: &str) -> String {
    let text: String = arguments.chars().take(160).collect();
    text.trim_end().to_owned()
}

/// Returns the call and the folder of its path, without ids and numbers: sites of one shape are the
/// iterations of a loop.
#[must_use]
pub fn shape(site: &Site) -> String {
    let place = site.text.split_once('<').map_or("", |(_, rest)| rest);
    let place = place.split_once('>').map_or(place, |(place, _)| place);
    // All calls that create files in one tree are one loop.
    let place = place.split_once("/root/").map_or(place, |(top, _)| top);
    // A call that writes is identified by the name of the file, too.
    let place = match site.call.as_str() {
        "write" | "pwrite64" | "writev" | "fsync" | "fdatasync" => {
            place.rsplit_once('/').map_or(place, |(folder, _)| folder)
        }
        _ => place,
    };
    let plain = place.chars().filter(|one| !one.is_ascii_hexdigit());
    format!("{} {}", site.call, plain.collect::<String>())
}

/// Returns at most `most` sites of each shape, spread over the run.
#[must_use]
pub fn thinned(sites: &[Site], most: usize) -> Vec<Site> {
    let mut shapes: BTreeMap<String, Vec<&Site>> = BTreeMap::new();
    for site in sites {
        shapes.entry(shape(site)).or_default().push(site);
    }
    let kept = |site: &Site| {
        let alike = &shapes[&shape(site)];
        let at = alike
            .iter()
            .position(|one| *one == site)
            .unwrap_or_default();
        let length = alike.len();
        // The first and the last site, and some between them.
        length <= most || at + 1 == length || (at * (most - 1)) % (length - 1) < most - 1
    };
    sites.iter().filter(|site| kept(site)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "\
10    openat(AT_FDCWD</>, \"/etc/x\", O_RDONLY|O_CLOEXEC) = 3</etc/x>
10    openat(AT_FDCWD</>, \"/r/y\", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) = 3</r/y>
10    write(3</r/y>, \"text\", 4) = 4
10    write(1<pipe:[77]>, \"text\", 4) = 4
11    write(3</r/z>, \"text\", 4 <unfinished ...>
10    write(3</r/y>, \"more\", 4) = 4
11    <... write resumed>) = 4
10    renameat(5</r>, \"y\", 5</r>, \"x\") = 0
10    write(5<pipe:[78]>, \"x\", 1) = 1
10    sendto(6<socket:[9]>, \"{}\", 2, 0, NULL, 0) = 2
10    sendto(7<socket:[8]>, [{nlmsg_len=40, nlmsg_type=RTM_GETLINK}], 40, 0, NULL, 0) = 40
10    sendto(7<socket:[8]>, [{nlmsg_len=40, nlmsg_type=RTM_DELLINK}], 40, 0, NULL, 0) = 40
10    --- SIGCHLD {si_signo=SIGCHLD} ---
10    +++ exited with 0 +++
";

    #[test]
    fn calls_are_counted_as_strace_does_and_only_changes_are_sites() {
        let keys: Vec<String> = sites(RECORD, "/root").iter().map(Site::key).collect();
        let expected = [
            "openat:2",
            "write:1",
            "write:1@/r/z",
            "write:3",
            "renameat:1",
            "write:4",
            "sendto:1",
            "sendto:3",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn calls_of_a_machine_are_told_from_those_of_its_zoneadmd() {
        let record = "\
10    clone3({flags=CLONE_VM}) = 11
11    execve(\"/usr/bin/qemu-system-x86_64\", [\"qemu\"], 0x1) = 0
11    clone3({flags=CLONE_THREAD} <unfinished ...>
10    write(3</r/y>, \"text\", 4) = 4
11    <... clone3 resumed>, 88) = 12
12    write(3</r/y>, \"text\", 4) = 4
12    write(3</r/y>, \"text\", 4) = 4
";
        let names: Vec<String> = sites(record, "/root")
            .iter()
            .map(|site| format!("{}:{}", site.call, site.n))
            .collect();
        assert_eq!(names, ["clone3:1", "write:1"]);
        let end = |pid| format!("{record}{pid} +++ killed by SIGKILL +++\n");
        assert!(killed_machine(&end(12)));
        assert!(!killed_machine(&end(10)));
    }

    #[test]
    fn a_thread_that_comes_later_is_told_by_its_path() {
        let record = "\
10    renameat(5</root/a>, \"x\", 5</root/a>, \"y\") = 0
11    renameat(6</root/b>, \"x\", 6</root/b>, \"y\") = 0
11    renameat(6</root/0123456789abcdef>, \"x\", 6</root/b>, \"y\") = 0
12    renameat(6</root/b>, \"x\", 6</root/b>, \"y\") = 0
12    renameat(6</root/0123456789abcdef>, \"x\", 6</root/b>, \"y\") = 0
12    mkdir(\"/root/c\", 0777) = 0
13    mkdir(\"/root/c\", 0777) = 0
";
        let keys: Vec<String> = sites(record, "/root").iter().map(Site::key).collect();
        let expected = [
            "renameat:1",
            "renameat:1@@ROOT/b",
            "renameat:2",
            "mkdir:1",
            "mkdir:1@@ROOT/c",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn loops_are_thinned_and_keep_their_ends() {
        let sites: Vec<Site> = (1..=100)
            .map(|n| Site {
                call: "mkdirat".to_owned(),
                n,
                path: None,
                text: format!("{n}</r/{n:x}>, \"name{n}\", 0755) = 0"),
            })
            .collect();
        let few = thinned(&sites, 5);
        assert!((3..=8).contains(&few.len()), "{}", few.len());
        assert_eq!((few[0].n, few[few.len() - 1].n), (1, 100));
        assert_eq!(thinned(&sites[..4], 5).len(), 4);
    }
}
