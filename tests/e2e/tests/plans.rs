//! Tests that `-n` changes nothing: no file, no control group, no mount, no process, no link, no
//! rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::lan::Space;
use e2e::run::run;
use e2e::{Host, cgroup, settled};

/// A record of everything that a command could change.
#[derive(Debug, PartialEq)]
struct Trace {
    /// The names, owners, modes, times of change and digests of files.
    tree: BTreeMap<PathBuf, String>,
    /// The control groups, each with its processes.
    groups: BTreeMap<String, Vec<i32>>,
    /// The processes of the host's zones, and programs that were started for its root.
    processes: Vec<i32>,
    /// Lines about mounts, links, addresses, routes and rules.
    kernel: Vec<String>,
}

/// Returns the output lines of a command; `None` if it is not installed.
fn lines(command: &str) -> Vec<String> {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let there = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    if !there.iter().any(|at| Path::new(at).join(program).exists()) {
        return Vec::new();
    }
    let ran = run(Command::new(program).args(words), b"");
    let line = |line: &str| format!("{command}: {line}");
    ran.out.lines().map(line).collect()
}

/// The digests of files, by inode, size and the time of the last change of the inode, which no
/// program can set.
type Digests = BTreeMap<(u64, u64, i64, i64), u64>;

/// Returns everything below a folder, without other file systems that are mounted there.
fn tree(root: &Path, digests: &mut Digests) -> BTreeMap<PathBuf, String> {
    let device = fs::symlink_metadata(root).unwrap().dev();
    let (mut all, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(path) = folders.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let mut text = format!(
            "{:o} {}:{} {}.{:09}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        if kind.is_dir() && meta.dev() == device {
            let entries = fs::read_dir(&path).unwrap();
            folders.extend(entries.map(|entry| entry.unwrap().path()));
        } else if kind.is_symlink() {
            text.push_str(&format!(" -> {}", fs::read_link(&path).unwrap().display()));
        } else if kind.is_file() {
            let key = (meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
            let digest = digests
                .entry(key)
                .or_insert_with(|| sum(&fs::read(&path).unwrap()));
            text.push_str(&format!(" {} {digest:x}", meta.size()));
        } else if kind.is_socket() {
            text.push_str(&format!(" socket {}", meta.ino()));
        }
        all.insert(path.strip_prefix(root).unwrap().to_owned(), text);
    }
    all
}

/// Returns the FNV-1a sum of a text, which is enough to notice a difference.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn trace(host: &Host, digests: &mut Digests) -> Trace {
    let root = host.root().display().to_string();
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    // Mounts of other tests do not count.
    let mounts = mounts.lines().filter(|line| line.contains(&root));
    let mut kernel: Vec<String> = mounts.map(str::to_owned).collect();
    for command in [
        "ip -o link show",
        "ip -o addr show",
        "ip rule show",
        "ip route show table all",
        "ip -6 rule show",
        "nft list ruleset",
    ] {
        kernel.extend(lines(command));
    }
    let groups = cgroup::below(host.cgroup()).into_iter();
    Trace {
        tree: tree(host.root(), digests),
        groups: groups
            .map(|group| {
                let inside = cgroup::processes(std::slice::from_ref(&group));
                (group.display().to_string(), inside)
            })
            .collect(),
        processes: host.processes(),
        kernel,
    }
}

/// Returns the lines that only the second trace has, and the lines that only the first one has.
fn differences(before: &Trace, after: &Trace) -> Vec<String> {
    let mut changed: Vec<String> = Vec::new();
    let names: BTreeSet<_> = before.tree.keys().chain(after.tree.keys()).collect();
    for name in names {
        let (old, new) = (before.tree.get(name), after.tree.get(name));
        if old != new {
            changed.push(format!("/{}: {old:?}, then {new:?}", name.display()));
        }
    }
    if before.groups != after.groups {
        let (old, new) = (&before.groups, &after.groups);
        changed.push(format!("control groups {old:?}, then {new:?}"));
    }
    if before.processes != after.processes {
        let (old, new) = (&before.processes, &after.processes);
        changed.push(format!("processes {old:?}, then {new:?}"));
    }
    let old: BTreeSet<_> = before.kernel.iter().collect();
    let new: BTreeSet<_> = after.kernel.iter().collect();
    changed.extend(old.symmetric_difference(&new).map(|line| (*line).clone()));
    changed
}

/// The arguments after `zoneadm -z ZONE`, for a zone with a snapshot and a boot environment `be`.
/// Each command line is tried in every state, also in states that refuse it.
const LINES: [&str; 39] = [
    "install -n",
    "clone -n master",
    "clone -n -s old master",
    "uninstall -n",
    "uninstall -F -n",
    "move -n /zones/moved",
    "detach -n",
    "detach -F -n",
    "attach -n MANIFEST",
    "export -n ARCHIVE.new",
    "import -n ARCHIVE",
    "backup -n -r /nowhere/repository",
    "backups -n --keep last=1",
    "restore -n",
    "ready -n",
    "boot -n",
    "boot -n -- -s",
    "boot -n -- -Z be",
    "reboot -n",
    "shutdown -n",
    "shutdown -n -r",
    "suspend -n",
    "savecore -n",
    "halt -n",
    "mount -n",
    "unmount -n",
    "snapshot -n new",
    "rollback -n old",
    "destroy-snapshot -n old",
    "merge -n",
    "quota -n 100M",
    "push -n /etc/hostname /srv",
    "files restore -n old /etc/passwd",
    "pull -n /etc/hostname PULLED",
    "apply -n",
    "mark -n incomplete",
    "migrate -n nowhere.invalid",
    "check",
    "network",
];

/// The command lines about boot environments.
const BEADM: [&str; 7] = [
    "beadm create -n new",
    "beadm create -n -a -e be new",
    "beadm activate -n be",
    "beadm activate --now -n be",
    "beadm rename -n be new",
    "beadm destroy -n be",
    "beadm destroy -F -n be",
];

/// The results of the command lines in all states.
#[derive(Debug, Default)]
struct Tried {
    /// Command lines that were accepted in at least one state.
    accepted: BTreeSet<&'static str>,
    /// The traces that command lines have left.
    left: Vec<String>,
    digests: Digests,
}

impl Tried {
    /// Runs every command line for a zone in its present state.
    fn try_all(&mut self, host: &Host, zone: &str, state: &str) {
        let mut before = settled(|| trace(host, &mut self.digests));
        for line in LINES.into_iter().chain(BEADM) {
            let given = line
                .replace(
                    "MANIFEST",
                    &host.path("/manifest.xml").display().to_string(),
                )
                .replace("PULLED", &host.path("/pulled").display().to_string())
                .replace("ARCHIVE", &host.path("/archive").display().to_string());
            let words: Vec<&str> = given.split(' ').collect();
            let ran = match line {
                "check" | "network" => host.zoneadm(&words),
                _ => host.on(zone, &words),
            };
            let after = trace(host, &mut self.digests);
            for change in differences(&before, &after) {
                println!("{state}: {line}: {change}");
                self.left.push(format!("{state}: {line}: {change}"));
            }
            if ran.code() == Some(0) {
                self.accepted.insert(line);
            }
            before = after;
        }
    }

    /// Panics if a command line left a trace, or if one was refused in every state, unless another
    /// test covers it.
    #[track_caller]
    fn assert_none_left(&self, refused: &[&str]) {
        assert!(self.left.is_empty(), "traces:\n{}", self.left.join("\n"));
        let all = LINES.into_iter().chain(BEADM);
        let never: Vec<&str> = all.filter(|line| !self.accepted.contains(line)).collect();
        assert_eq!(never, refused);
    }
}

/// Makes a zone with a snapshot and a boot environment, and the archive and manifest of another
/// zone.
fn prepare(host: &Host) {
    host.on("web", &["snapshot", "old"]).quiet();
    let _ = host.on("web", &["beadm", "create", "be"]).ok();
    host.on("master", &["snapshot", "old"]).quiet();
    let archive = host.path("/archive").display().to_string();
    let _ = host.on("web", &["export", &archive]).ok();
    let _ = host.on("other", &["clone", "--create", "master"]).ok();
    host.on("other", &["detach"]).quiet();
    fs::copy(
        host.path("/zones/other/SUNWdetached.xml"),
        host.path("/manifest.xml"),
    )
    .unwrap();
}

#[test]
fn every_subcommand_that_takes_n_is_tried_here() {
    let Some(host) = Host::new() else { return };
    let help = host.zoneadm(&["help"]).ok().out;
    let listed = help.lines().skip_while(|line| *line != "subcommands:");
    let listed = listed.skip(1).take_while(|line| line.starts_with('\t'));
    let mut without = Vec::new();
    for line in listed.map(str::trim) {
        let name = line.split(' ').next().unwrap_or_default();
        // With these, -n has another meaning.
        let has_other = ["list", "logs"].contains(&name);
        let takes_n = line.split([' ', '[', ']']).any(|word| word == "-n");
        match takes_n && !has_other {
            true => assert!(
                LINES
                    .iter()
                    .chain(&BEADM)
                    .any(|one| one.split(' ').next() == Some(name)),
                "no line tries {name}"
            ),
            false => without.push(name),
        }
    }
    assert_eq!(
        without,
        [
            "help",
            "list",
            "monitor",
            "check",
            "network",
            "verify",
            "snapshots",
            "diff",
            "storage",
            "links",
            "logs",
            "rctl"
        ],
        "these only look"
    );
}

#[test]
fn plans_of_a_zone_leave_no_trace() {
    // Other tests change links and rules of the machine at the same time.
    match Space::new() {
        Ok(network) => network.within(try_all_states),
        // The command prints that it needs root.
        Err(_) => try_all_states(),
    }
}

fn try_all_states() {
    let Some(host) = Host::with_web() else { return };
    prepare(&host);
    let mut tried = Tried::default();
    tried.try_all(&host, "other", "detached");
    host.configure("new", "");
    tried.try_all(&host, "new", "configured");
    tried.try_all(&host, "web", "installed");
    // This is the state after a boot of the host.
    fs::remove_dir_all(host.path("/run/zones")).unwrap();
    tried.try_all(&host, "web", "installed, nothing in /run");
    host.on("web", &["ready"]).quiet();
    tried.try_all(&host, "web", "ready");
    host.on("web", &["boot"]).quiet();
    tried.try_all(&host, "web", "running");
    host.kill(host.zoneadmd("web").expect("a zoneadmd"));
    tried.try_all(&host, "web", "running without zoneadmd");
    host.kill(host.init_of("web"));
    tried.try_all(&host, "web", "dead, not cleared away");
    host.on("web", &["mount"]).quiet();
    tried.try_all(&host, "web", "mounted");
    host.on("web", &["unmount"]).quiet();
    host.on("web", &["mark", "incomplete"]).quiet();
    tried.try_all(&host, "web", "incomplete");
    host.on("other", &["attach"]).quiet();
    // These command lines need a root of another host, a kernel zone, a repository of backups, or a
    // host that answers.
    tried.assert_none_left(&[
        "detach -F -n",
        "backups -n --keep last=1",
        "restore -n",
        "suspend -n",
        "savecore -n",
        "migrate -n nowhere.invalid",
    ]);
}
