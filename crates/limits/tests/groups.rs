//! Changes controls in real control groups, with a live process in them. These tests need root and
//! are skipped without it.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limits::{Base, Control, Controls, Dedicated, Error, First, IpcLimits, ZoneCgroups};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Timeout of every wait of this test.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A zone's groups with one process in them, and memory that the process has filled.
struct Zone {
    base: Base,
    cgroups: ZoneCgroups,
    child: Child,
    file: PathBuf,
}

impl Zone {
    /// Returns a zone that uses this many MiB of unreclaimable memory. Returns `None`, after a line
    /// `skipped:` for ./check, if this machine cannot have zones.
    fn new(name: &str, mebibytes: u32) -> Option<Self> {
        let skip = |why: &str| {
            println!("skipped: {name}: {why}");
            None
        };
        if !rustix::process::geteuid().is_root() {
            return skip("not root");
        }
        let file = PathBuf::from(format!("/dev/shm/limits-{name}-{}", std::process::id()));
        let place = format!("limits-test-{name}-{}", std::process::id());
        let base = match Base::find(Path::new(&place)) {
            Ok(base) => base,
            Err(error) => return skip(&error.to_string()),
        };
        let script = format!(
            "read -r go; dd if=/dev/zero of={0}.new bs=1048576 count={mebibytes} 2>/dev/null; \
             mv {0}.new {0}; exec sleep 1000",
            file.display()
        );
        let cgroups =
            ZoneCgroups::for_controls(&base, &"web".parse().unwrap(), &Controls::default());
        cgroups.create(0).unwrap();
        let mut child = Command::new("unshare")
            .args(["-i", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut groups = cgroups.paths();
        groups[0].push("zone");
        // The cpuset group does not exist before it is needed.
        for group in groups.iter().filter(|group| group.exists()) {
            fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let zone = Self {
            base,
            cgroups,
            child,
            file,
        };
        let end = Instant::now() + WAIT_TIMEOUT;
        while !zone.file.exists() {
            assert!(Instant::now() < end, "no {}", zone.file.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        let nowhere = Controls {
            max_lwps: Some(100),
            ..Controls::default()
        };
        if let Err(error @ Error::Unsupported { .. }) = zone.cgroups.set(&nowhere) {
            return skip(&error.to_string());
        }
        zone.cgroups
            .clone()
            .change(&zone.base, &nowhere, &Controls::default())
            .unwrap();
        Some(zone)
    }

    /// Returns a line of /proc/PID/status.
    fn status(&self, key: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().trim().to_owned()
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        let _ = self.child.kill();
        let _ = self.child.wait();
        let removed = self.cgroups.remove();
        limits::hierarchy::tidy(&self.base);
        if !std::thread::panicking() {
            removed.unwrap();
            assert!(!self.base.v2.exists());
        }
    }
}

#[test]
fn a_running_zone_gets_other_limits_and_none() {
    let Some(mut zone) = Zone::new("live", 1) else {
        return;
    };
    let base = zone.base.clone();
    let none = Controls::default();
    let before = zone.cgroups.effective();
    let mut old = none.clone();
    for new in [
        Controls {
            cpu_cap: Some(150),
            cpu_shares: Some(7),
            physical: Some(128 << 20),
            swap: Some(192 << 20),
            max_lwps: Some(20),
            ..none.clone()
        },
        Controls {
            cpu_cap: Some(1),
            physical: Some(256 << 20),
            swap: Some(256 << 20),
            max_processes: Some(30),
            ..none.clone()
        },
        Controls {
            swap: Some(64 << 20),
            ..none.clone()
        },
    ] {
        let changed = zone.cgroups.change(&base, &old, &new).unwrap();
        for applied in &changed.applied {
            assert!(applied.is_exact(), "{applied:?}");
        }
        old = new;
    }
    zone.cgroups.change(&base, &old, &none).unwrap();
    assert_eq!(zone.cgroups.effective(), before);
    let usage = zone.cgroups.read();
    assert!(usage.cpu_usec > 0);
    assert!(usage.lwps.is_some_and(|lwps| lwps >= 1), "{usage:?}");
    // dd has filled a file in memory.
    assert!(
        usage.memory.is_some_and(|memory| memory >= 1 << 20),
        "{usage:?}"
    );
}

#[test]
fn memory_in_use_stays_and_so_does_everything_else() {
    let Some(mut zone) = Zone::new("in-use", 32) else {
        return;
    };
    let base = zone.base.clone();
    let old = Controls {
        cpu_cap: Some(150),
        physical: Some(128 << 20),
        swap: Some(128 << 20),
        ..Controls::default()
    };
    zone.cgroups.set(&old).unwrap();
    let before = zone.cgroups.effective();
    let less = Controls {
        cpu_cap: Some(50),
        physical: Some(16 << 20),
        swap: Some(16 << 20),
        max_lwps: Some(10),
        ..Controls::default()
    };
    let error = zone.cgroups.change(&base, &old, &less).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert_eq!(zone.cgroups.effective(), before);
    assert_eq!(zone.cgroups.events().oom_kills, 0);
    assert!(zone.child.try_wait().unwrap().is_none(), "it was killed");
}

#[test]
fn a_running_zone_is_bound_to_cpus_and_let_go() {
    let Some(mut zone) = Zone::new("cpus", 1) else {
        return;
    };
    let everywhere = zone.status("Cpus_allowed_list:");
    if !everywhere.contains(['-', ',']) {
        println!("skipped: a_running_zone_is_bound_to_cpus_and_let_go: one CPU");
        return;
    }
    let base = zone.base.clone();
    let none = Controls::default();
    let one = Controls {
        dedicated_cpu: Some(Dedicated::Count(1, 1)),
        ..none.clone()
    };
    let changed = zone.cgroups.change(&base, &none, &one).unwrap();
    assert!(changed.applied[0].is_exact(), "{changed:?}");
    let bound = zone.status("Cpus_allowed_list:");
    assert!(bound.parse::<u32>().is_ok(), "{bound}");
    zone.cgroups.change(&base, &one, &none).unwrap();
    assert_eq!(zone.status("Cpus_allowed_list:"), everywhere);
    let too_many = Controls {
        dedicated_cpu: Some(Dedicated::Count(8000, 8000)),
        ..none.clone()
    };
    let error = zone.cgroups.change(&base, &none, &too_many).unwrap_err();
    assert!(matches!(error, Error::NoCpus { .. }), "{error}");
    assert_eq!(zone.status("Cpus_allowed_list:"), everywhere);
}

#[test]
fn limits_of_groups_and_processes_change_together_or_not_at_all() {
    let Some(mut zone) = Zone::new("together", 1) else {
        return;
    };
    let base = zone.base.clone();
    let pid = i32::try_from(zone.child.id()).unwrap();
    let pidfd = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    let first = First {
        pid,
        pidfd: pidfd.as_fd(),
        owner: 0,
    };
    let none = Controls::default();
    let new = Controls {
        cpu_cap: Some(70),
        ipc: IpcLimits {
            shm_memory: Some(1 << 20),
            shm_ids: Some(5),
            msg_ids: Some(6),
            sem_ids: Some(7),
        },
        ..none.clone()
    };
    let of_host = fs::read_to_string("/proc/sys/kernel/sem").unwrap();
    let changed = limits::change_zone(&mut zone.cgroups, &base, first, &none, &new).unwrap();
    assert_eq!(changed.applied.len(), 5, "{changed:?}");
    for applied in &changed.applied {
        assert!(applied.is_exact(), "{applied:?}");
    }
    assert_eq!(fs::read_to_string("/proc/sys/kernel/sem").unwrap(), of_host);
    // Without a first process the zone's IPC namespace cannot be entered, so the memory limit is
    // undone as well.
    let wrong = Controls {
        cpu_cap: Some(30),
        ipc: IpcLimits {
            shm_ids: Some(9),
            ..new.ipc
        },
        ..none.clone()
    };
    let ended = First {
        pidfd: rustix::stdio::stdin(),
        ..first
    };
    let error = limits::change_zone(&mut zone.cgroups, &base, ended, &new, &wrong).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Process {
                control: Control::MaxShmIds,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(zone.cgroups.effective().cpu_cap, Some(70));
    limits::change_zone(&mut zone.cgroups, &base, first, &new, &none).unwrap();
    assert_eq!(zone.cgroups.effective().cpu_cap, None);
}
