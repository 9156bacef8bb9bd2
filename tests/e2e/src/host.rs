//! An alternate root with its own control groups.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{self, Place};
use crate::run::{Ran, between_starts, run};
use crate::{clean, pool, wait_for};

/// The zone from which other zones are cloned.
const MASTER: &str = "master";

/// An alternate root in a folder, which stands for a host. When it is dropped, its zones are halted
/// and uninstalled, and the test fails if the programs have left anything.
#[derive(Debug)]
pub struct Host {
    place: Place,
    /// True if the host returns to the pool with its zone `master`.
    pooled: bool,
}

/// A line of `zoneadm list -p`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The numeric id of an active zone.
    pub id: Option<u32>,
    /// The name of the zone.
    pub name: String,
    /// The state of the zone.
    pub state: String,
    /// The zonepath of the zone.
    pub zonepath: String,
    /// The uuid of the zone; empty before install.
    pub uuid: String,
}

/// Prints that this test cannot run here, in the format that ./check counts.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    println!("skipped: {}: {reason}", thread.name().unwrap_or("a test"));
}

/// Returns true if a test belongs to the long runs only and this is none: then it prints `why`, and
/// the test must return.
#[must_use]
pub fn left_to_long_runs(why: &str) -> bool {
    if !crate::is_long() {
        skip(&format!("{why} (ZONES_TEST_LONG=1 runs it)"));
    }
    !crate::is_long()
}

impl Host {
    /// Returns a host without zones. Returns `None`, and prints the reason, if zones are impossible
    /// here.
    #[must_use]
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("not root");
            return None;
        }
        pool::enter();
        Some(Self {
            place: Place::new(Self::clear),
            pooled: false,
        })
    }

    /// Returns a host with a freshly installed sparse zone `master`.
    #[must_use]
    pub fn with_own_master() -> Option<Self> {
        let host = Self::new()?;
        host.install(MASTER);
        Some(host)
    }

    /// Returns a host with an installed sparse zone `master`, from which tests make clones. Other
    /// tests use the same host later, so `master` must not change.
    #[must_use]
    pub fn with_master() -> Option<Self> {
        let mut host = Self::new()?;
        match pool::take() {
            Some(place) => {
                host.place.remove();
                host.place = place;
            }
            None => host.install(MASTER),
        }
        host.pooled = true;
        Some(host)
    }

    /// Returns a host with an installed zone `web`, a clone of `master`.
    #[must_use]
    pub fn with_web() -> Option<Self> {
        let host = Self::with_master()?;
        host.clone_from(MASTER, "web");
        Some(host)
    }

    /// Returns a host with a running zone `web`, a clone of `master`.
    #[must_use]
    pub fn with_running_web() -> Option<Self> {
        let host = Self::with_web()?;
        host.boot("web");
        Some(host)
    }

    /// Returns the alternate root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.place.root
    }

    /// Returns the name of the control group above all groups of this host's zones.
    #[must_use]
    pub fn cgroup(&self) -> &str {
        &self.place.cgroup
    }

    /// Returns the real path for a path in the alternate root.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root().join(absolute.trim_start_matches('/'))
    }

    /// Returns the writable top of a zone's root.
    #[must_use]
    pub fn top(&self, zone: &str) -> PathBuf {
        self.path("zones").join(zone).join("root")
    }

    /// Writes a file to the writable top of a halted zone, as automation on the host does.
    ///
    /// # Panics
    /// Panics if the path is absolute, which would name a file of this machine, or if the file
    /// cannot be written.
    pub fn put(&self, zone: &str, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        assert!(
            Path::new(path).is_relative(),
            "{path}: expected a path relative to the zone's root"
        );
        let path = self.top(zone).join(path);
        // A clone's top contains only files that the clone wrote, so the folder may be missing.
        fs::create_dir_all(path.parent().expect("a file in the root"))
            .expect("a folder in the root");
        between_starts(|| fs::write(&path, text)).expect("a file in the root");
        path
    }

    /// Does the same as [`Host::put`] for an executable file.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn put_program(&self, zone: &str, path: &str, content: impl AsRef<[u8]>) {
        let path = self.put(zone, path, content);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file in the root");
    }

    /// Returns a call of one of our programs for this host.
    #[must_use]
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(place::programs().join(program));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("ZONES_ROOT", self.root())
            .env("ZONES_CGROUP", self.cgroup());
        command
    }

    /// Runs zoneadm.
    #[must_use]
    pub fn zoneadm(&self, words: &[&str]) -> Ran {
        run(&mut self.command("zoneadm", words), b"")
    }

    /// Runs `zoneadm -z zone ...`.
    #[must_use]
    pub fn on(&self, zone: &str, words: &[&str]) -> Ran {
        self.zoneadm(&[&["-z", zone], words].concat())
    }

    /// Runs `zoneadm -z zone ...` with a fault at one of its steps.
    #[must_use]
    pub fn with_fault(&self, fault: &str, zone: &str, words: &[&str]) -> Ran {
        let mut command = self.command("zoneadm", &[&["-z", zone], words].concat());
        let mut ran = run(command.env("ZONES_FAULT", fault), b"");
        ran.line = format!("ZONES_FAULT={fault} {}", ran.line);
        ran
    }

    /// Runs zonecfg.
    #[must_use]
    pub fn zonecfg(&self, words: &[&str]) -> Ran {
        run(&mut self.command("zonecfg", words), b"")
    }

    /// Runs `zlogin words`.
    #[must_use]
    pub fn zlogin(&self, words: &[&str]) -> Ran {
        self.zlogin_with(words, b"")
    }

    /// Runs `zlogin words` with data on its standard input.
    #[must_use]
    pub fn zlogin_with(&self, words: &[&str], input: &[u8]) -> Ran {
        run(&mut self.command("zlogin", words), input)
    }

    /// Runs a shell script in a zone as its root, which must succeed. Returns its output without
    /// the last line feed.
    #[track_caller]
    pub fn sh(&self, zone: &str, script: &str) -> String {
        self.zlogin(&[zone, script]).ok().text().to_owned()
    }

    /// Configures a zone from the default template, with further zonecfg commands.
    ///
    /// # Panics
    /// Panics if the command fails, like all functions of this kind.
    #[track_caller]
    pub fn configure(&self, zone: &str, more: &str) {
        self.zonecfg(&["-z", zone, &format!("create; {more}")])
            .quiet();
    }

    /// Configures and installs a sparse zone.
    #[track_caller]
    pub fn install(&self, zone: &str) {
        self.configure(zone, "");
        self.on(zone, &["install"]).quiet();
    }

    /// Configures and clones zones.
    #[track_caller]
    pub fn clone_from(&self, origin: &str, zones: &str) {
        self.on(zones, &["clone", "--create", origin]).quiet();
    }

    /// Boots a zone.
    #[track_caller]
    pub fn boot(&self, zone: &str) {
        self.on(zone, &["boot"]).quiet();
    }

    /// Halts a zone.
    #[track_caller]
    pub fn halt(&self, zone: &str) {
        self.on(zone, &["halt"]).quiet();
    }

    /// Returns all zones except the global one.
    #[track_caller]
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.rows_of(&self.zoneadm(&["list", "-cpn"]).ok().out)
    }

    pub(crate) fn rows_of(&self, listed: &str) -> Vec<Row> {
        let row = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            assert!(fields.len() >= 7, "too few fields: {line}");
            Row {
                id: fields[0].parse().ok(),
                name: fields[1].to_owned(),
                state: fields[2].to_owned(),
                zonepath: fields[3].to_owned(),
                uuid: fields[4].to_owned(),
            }
        };
        listed.lines().map(row).collect()
    }

    /// Returns the row of `list` for one zone.
    ///
    /// # Panics
    /// Panics if the zone is not listed.
    #[track_caller]
    #[must_use]
    pub fn row(&self, zone: &str) -> Row {
        let rows = self.rows();
        let row = rows.iter().find(|row| row.name == zone);
        row.unwrap_or_else(|| panic!("zone {zone} is lost; there are {rows:?}"))
            .clone()
    }

    /// Returns the state of a zone.
    #[track_caller]
    #[must_use]
    pub fn state(&self, zone: &str) -> String {
        self.row(zone).state
    }

    /// Waits until a zone has a state, without a command.
    pub fn wait_for_state(&self, zone: &str, state: &str) {
        wait_for(&format!("state {state} of zone {zone}"), || {
            (self.state(zone) == state).then_some(())
        });
    }

    /// Returns the groups of one zone, the deepest first.
    #[must_use]
    pub fn groups_of(&self, zone: &str) -> Vec<PathBuf> {
        let mut groups = crate::cgroup::below(self.cgroup());
        groups.retain(|path| {
            path.components()
                .any(|part| part.as_os_str() == std::ffi::OsStr::new(zone))
        });
        groups
    }

    /// Returns the zoneadmd of a zone, if it has one.
    #[must_use]
    pub fn zoneadmd(&self, zone: &str) -> Option<i32> {
        let daemons = crate::cgroup::below(self.cgroup())
            .into_iter()
            .filter(|path| path.ends_with(".zoneadmd"))
            .collect::<Vec<_>>();
        crate::cgroup::processes(&daemons).into_iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words
                .first()
                .is_some_and(|name| name.ends_with(b"zoneadmd"))
                && !is_fork(*pid)
                && words.contains(&zone.as_bytes())
        })
    }

    /// Returns the pids, on the host, of the first processes in a zone's groups. More than one
    /// means that the zone runs twice.
    #[must_use]
    pub fn inits_of(&self, zone: &str) -> Vec<i32> {
        let is_init = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            inner.is_some_and(|pids| pids.split_whitespace().last() == Some("1"))
        };
        let mut pids = crate::cgroup::processes(&self.groups_of(zone));
        pids.retain(is_init);
        pids
    }

    /// Returns the pid, on the host, of the first process of a zone.
    ///
    /// # Panics
    /// Panics if the zone does not have exactly one.
    #[track_caller]
    #[must_use]
    pub fn init_of(&self, zone: &str) -> i32 {
        let inits = self.inits_of(zone);
        assert_eq!(inits.len(), 1, "first processes of zone {zone}: {inits:?}");
        inits[0]
    }

    /// Returns the processes of the host's zones, and programs that were started for this host.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        clean::processes(self)
    }

    /// Returns the mount points below the host's root, as this process sees them.
    #[must_use]
    pub fn mounts(&self) -> Vec<PathBuf> {
        clean::mounts_below(self.root())
    }

    /// Kills a process, unless it has already ended, and waits until it is gone.
    pub fn kill_if_there(&self, pid: i32) {
        if Path::new(&format!("/proc/{pid}")).exists() {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            Self::wait_for_end(pid);
        }
    }

    /// Kills a process and waits until it is gone.
    pub fn kill(&self, pid: i32) {
        let number = Pid::from_raw(pid).expect("a process number");
        kill_process(number, Signal::KILL).expect("a process to kill");
        Self::wait_for_end(pid);
    }

    fn wait_for_end(pid: i32) {
        wait_for(&format!("end of process {pid}"), || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A zombie waits until its parent reaps it.
            stat.rsplit(')')
                .next()
                .is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
                .then_some(())
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("ZONES_E2E_KEEP").is_some() {
            eprintln!("kept: {}", self.root().display());
            return;
        }
        let spared = (self.pooled && !std::thread::panicking()).then_some(MASTER);
        let mut problems = clean::clean_up(self, spared);
        let place = std::mem::take(&mut self.place);
        let unused = if spared.is_some() && problems.is_empty() {
            pool::leave(Some(place))
        } else {
            problems.extend(self.destroy(place));
            pool::leave(None)
        };
        for place in unused {
            problems.extend(self.destroy(place));
        }
        if problems.is_empty() {
            return;
        }
        let text = format!("left behind:\n  {}", problems.join("\n  "));
        // A second panic would end the whole test program.
        if std::thread::panicking() {
            eprintln!("{text}");
        } else {
            panic!("{text}");
        }
    }
}

impl Host {
    /// Removes all zones of a place except the last one, and then the place.
    fn destroy(&mut self, place: Place) -> Vec<String> {
        self.place = place;
        let problems = clean::clean_up(self, None);
        self.place.remove();
        self.place = Place::default();
        problems
    }

    /// Removes what a killed test program has left.
    pub(crate) fn clear(place: Place) {
        let mut host = Self {
            place: Place::default(),
            pooled: false,
        };
        let name = place.cgroup.clone();
        for problem in host.destroy(place) {
            eprintln!("stale {name}: {problem}");
        }
        std::mem::forget(host);
    }
}

/// Returns true if a process has executed no program since its fork: such a process works for its
/// zoneadmd. The flag is PF_FORKNOEXEC of the kernel.
fn is_fork(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit(')').next().unwrap_or_default();
    let flags = flags
        .split_whitespace()
        .nth(6)
        .and_then(|word| word.parse().ok());
    flags.unwrap_or(0_u64) & 0x40 != 0
}
