//! An alternate root with control groups of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::{Ran, run};
use crate::{clean, wait_for};

/// Prefix of the folder and of the control group of every host.
const PREFIX: &str = "zones-e2e-";

/// `f_type` of overlayfs, which cannot hold the writable top of another overlay.
const OVERLAYFS: i64 = 0x794c_7630;

/// A host in a folder. When it is dropped, its zones are halted and uninstalled,
/// and the test fails if the programs have left anything behind.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    cgroup: String,
    programs: PathBuf,
}

/// A line of `zoneadm list -p`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The numeric id of an active zone.
    pub id: Option<u32>,
    /// The name.
    pub name: String,
    /// The state.
    pub state: String,
    /// The zonepath.
    pub zonepath: String,
    /// The uuid; empty before install.
    pub uuid: String,
}

/// Says that this test cannot run here, in the form that ./check counts.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    println!("skipped: {}: {reason}", thread.name().unwrap_or("a test"));
}

impl Host {
    /// A host without zones; `None`, said on standard output, where none can be.
    ///
    /// # Panics
    /// When the programs are not built or the folder cannot be made.
    #[must_use]
    pub fn new() -> Option<Self> {
        static FIRST: Once = Once::new();
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if !rustix::process::geteuid().is_root() {
            skip("not root");
            return None;
        }
        let programs = programs();
        assert!(
            programs.join("zoneadm").exists(),
            "no zoneadm in {}: run tools/build, or set ZONES_BIN",
            programs.display()
        );
        let folder = folder();
        FIRST.call_once(|| clear_stale(&folder, &programs));
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        let host = Self {
            root: folder.join(&name),
            cgroup: name,
            programs,
        };
        fs::create_dir(&host.root).expect("a new folder for the host");
        Some(host)
    }

    /// A host with an installed sparse zone `master`.
    #[must_use]
    pub fn with_master() -> Option<Self> {
        let host = Self::new()?;
        host.install("master");
        Some(host)
    }

    /// A host with a running sparse zone `web`.
    #[must_use]
    pub fn with_running_web() -> Option<Self> {
        let host = Self::new()?;
        host.install("web");
        host.boot("web");
        Some(host)
    }

    /// The alternate root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Name of the control group that all groups of this host's zones are below.
    #[must_use]
    pub fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// Where a path of the host's zones really lies.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// The writable top of a zone's root.
    #[must_use]
    pub fn top(&self, zone: &str) -> PathBuf {
        self.path("zones").join(zone).join("root")
    }

    /// Writes a file into the writable top of a halted zone, as automation on the
    /// host does.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn put(&self, zone: &str, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.top(zone).join(path);
        // A clone's top holds only what the clone wrote.
        fs::create_dir_all(path.parent().expect("a file in the root"))
            .expect("a folder in the root");
        fs::write(&path, text).expect("a file in the root");
        path
    }

    /// One of our programs, told to use this host.
    #[must_use]
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("ZONES_ROOT", &self.root)
            .env("ZONES_CGROUP", &self.cgroup);
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

    /// Runs `zlogin words` with something to read.
    #[must_use]
    pub fn zlogin_with(&self, words: &[&str], input: &[u8]) -> Ran {
        run(&mut self.command("zlogin", words), input)
    }

    /// Runs a shell script in a zone as its root; it must succeed. Returns what
    /// it printed, without the last line end.
    #[track_caller]
    pub fn sh(&self, zone: &str, script: &str) -> String {
        self.zlogin(&[zone, script]).ok().text().to_owned()
    }

    /// Configures a zone from the default template, with more zonecfg commands.
    ///
    /// # Panics
    /// When that fails; so do all of these.
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

    /// All zones but the global one.
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

    /// What is listed of one zone.
    ///
    /// # Panics
    /// When it is lost.
    #[track_caller]
    #[must_use]
    pub fn row(&self, zone: &str) -> Row {
        let rows = self.rows();
        let row = rows.iter().find(|row| row.name == zone);
        row.unwrap_or_else(|| panic!("zone {zone} is lost; there are {rows:?}"))
            .clone()
    }

    /// The state of a zone.
    #[track_caller]
    #[must_use]
    pub fn state(&self, zone: &str) -> String {
        self.row(zone).state
    }

    /// Waits for a state that comes by itself.
    pub fn wait_for_state(&self, zone: &str, state: &str) {
        wait_for(&format!("state {state} of zone {zone}"), || {
            (self.state(zone) == state).then_some(())
        });
    }

    /// The groups of one zone, the deepest first.
    #[must_use]
    pub fn groups_of(&self, zone: &str) -> Vec<PathBuf> {
        let mut groups = crate::cgroup::below(&self.cgroup);
        groups.retain(|path| {
            path.components()
                .any(|part| part.as_os_str() == std::ffi::OsStr::new(zone))
        });
        groups
    }

    /// The zoneadmd of a zone, if one lives.
    #[must_use]
    pub fn zoneadmd(&self, zone: &str) -> Option<i32> {
        let daemons = crate::cgroup::below(&self.cgroup)
            .into_iter()
            .filter(|path| path.ends_with(".zoneadmd"))
            .collect::<Vec<_>>();
        crate::cgroup::processes(&daemons).into_iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words
                .first()
                .is_some_and(|name| name.ends_with(b"zoneadmd"))
                && words.contains(&zone.as_bytes())
        })
    }

    /// The host's number of the first process of a zone.
    ///
    /// # Panics
    /// When the zone has none.
    #[must_use]
    pub fn init_of(&self, zone: &str) -> i32 {
        let groups = self.groups_of(zone);
        let is_init = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            inner.is_some_and(|pids| pids.split_whitespace().last() == Some("1"))
        };
        let pids = crate::cgroup::processes(&groups);
        let init = pids.into_iter().find(is_init);
        init.unwrap_or_else(|| panic!("zone {zone} has no first process"))
    }

    /// Kills a process and waits until it is gone.
    pub fn kill(&self, pid: i32) {
        let number = Pid::from_raw(pid).expect("a process number");
        kill_process(number, Signal::KILL).expect("a process to kill");
        wait_for(&format!("end of process {pid}"), || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A zombie waits for whoever is its parent.
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
            eprintln!("kept: {}", self.root.display());
            return;
        }
        let problems = clean::clean_up(self);
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

/// The folder of the workspace, also when the checkout was moved after the build.
fn workspace() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let folder = manifest.join("../..");
    folder.canonicalize().unwrap_or(folder)
}

fn programs() -> PathBuf {
    std::env::var_os("ZONES_BIN").map_or_else(|| workspace().join("target/release"), PathBuf::from)
}

/// A folder on a file system that can hold the writable tops of zones.
fn folder() -> PathBuf {
    let target = workspace().join("target");
    let _ = fs::create_dir_all(&target);
    let can_hold = |path: &PathBuf| {
        #[allow(clippy::unnecessary_cast, reason = "not i64 everywhere")]
        rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type as i64 != OVERLAYFS)
    };
    [
        target.clone(),
        "/var/tmp".into(),
        "/tmp".into(),
        "/dev/shm".into(),
    ]
    .into_iter()
    .find(can_hold)
    .unwrap_or(target)
}

/// Takes away hosts of test programs that were killed.
fn clear_stale(folder: &Path, programs: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        let Some(pid) = owner else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let stale = Host {
                root: entry.path(),
                cgroup: name,
                programs: programs.to_owned(),
            };
            for problem in clean::clean_up(&stale) {
                eprintln!("stale {}: {problem}", stale.cgroup);
            }
            std::mem::forget(stale);
        }
    }
}
