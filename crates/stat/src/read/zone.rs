//! Finds and reads the figures of an active zone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use limits::ZoneCgroups;
use model::brands::Family;
use model::controls::{Controls, Dedicated};
use model::{State, ZoneName};
use store::Root;
use store::runtime::{Process, Runtime};

use super::file::{Budget, File, Nothing};
use super::groups::Groups;
use super::hits::Counters;
use super::parse;
use super::wants::Wants;
use crate::sample::{Pressure, Pset, Setting, Stall, Traffic, ZoneSample};

/// Ticks per second of the times in /proc/PID/stat.
const TICKS_PER_SECOND: u64 = 100;

/// The files that hold the memory figures.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Memory {
    /// The files memory.current and memory.swap.current in the v2 group.
    V2,
    /// The files memory.usage_in_bytes and memory.memsw.usage_in_bytes in this v1 group.
    V1(PathBuf),
    /// The host does not account memory.
    None,
}

/// An active zone.
#[derive(Debug)]
pub(super) struct Zone {
    pub runtime: Runtime,
    /// The last sample of the zone.
    pub last: ZoneSample,
    v2: PathBuf,
    memory: Memory,
    /// The group that counts threads.
    pids: Option<PathBuf>,
    /// The group of v1 that counts disk traffic.
    blkio: Option<PathBuf>,
    /// The folder of the zone's init in /proc.
    init: PathBuf,
    files: Files,
    groups: Groups,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Files {
    cpu: File,
    memory: File,
    swap: File,
    memory_stat: File,
    pids: File,
    io: File,
    pressure: [File; 3],
    net: File,
}

impl Zone {
    /// Finds the files of a zone. Returns `None` if its state file names no group. A zone keeps its
    /// label as long as it is active.
    pub(super) fn new(
        name: &ZoneName,
        runtime: Runtime,
        root: &Root,
        label: Option<String>,
    ) -> Option<Self> {
        let v2 = runtime.cgroups.first()?.clone();
        let memory = if v2.join("memory.current").exists() {
            Memory::V2
        } else {
            let v1 = with(&runtime.cgroups, "memory.usage_in_bytes");
            v1.map_or(Memory::None, Memory::V1)
        };
        let pids = with(&runtime.cgroups, "pids.current");
        let blkio = with(&runtime.cgroups, "blkio.throttle.io_service_bytes");
        let started = runtime.init.started;
        let booted = Duration::from_secs(started / TICKS_PER_SECOND)
            + Duration::from_millis(started % TICKS_PER_SECOND * 10);
        let last = ZoneSample {
            name: name.as_str().into(),
            id: runtime.id,
            booted,
            at: booted,
            cpu_usec: 0,
            memory: None,
            swap: None,
            locked: None,
            processes: None,
            lwps: None,
            ipc: None,
            pressure: None,
            disk: None,
            network: None,
            links: Arc::default(),
            hits: None,
            setting: Arc::new(setting(name, &runtime, root, label)),
        };
        Some(Self {
            init: PathBuf::from(format!("/proc/{}", runtime.init.pid)),
            counters: Counters::find(&runtime.cgroups),
            groups: Groups::default(),
            runtime,
            last,
            v2,
            memory,
            pids,
            blkio,
            files: Files::default(),
        })
    }

    /// Returns the zone in which the caller is. The processes of this zone are in `group` and the
    /// groups below.
    pub(super) fn own(name: &str, id: u32, group: PathBuf) -> Option<Self> {
        let init = Process::find(1)?;
        let runtime = Runtime {
            id,
            state: State::Running,
            init,
            daemon: init,
            cgroups: vec![group],
            first_id: 0,
            shutdown_signal: 0,
            capabilities: 0,
            seccomp: Vec::new(),
            kernel: false,
            environment: Vec::new(),
            controls: Controls::default(),
            auxiliary: String::new(),
            pager: None,
            immutable: None,
        };
        // Inside a zone its configuration is not visible.
        Self::new(
            &name.parse().ok()?,
            runtime,
            &Root::new(Path::new("/")),
            None,
        )
    }

    /// Reads the settings of the zone again.
    pub(super) fn review(&mut self, name: &ZoneName, root: &Root) {
        let label = self.last.setting.label.clone();
        let setting = setting(name, &self.runtime, root, label);
        if *self.last.setting != setting {
            self.last.setting = Arc::new(setting);
        }
    }

    /// Reads the zone's figures into `last`. Returns false if the groups of the zone no longer
    /// exist; `last` then keeps the former figures.
    pub(super) fn read(
        &mut self,
        now: Duration,
        wants: Wants,
        budget: &mut Budget,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let (files, last) = (&mut self.files, &mut self.last);
        match files.cpu.read(&self.v2, "cpu.stat", budget, buffer) {
            Ok(text) => match parse::keyed(text, "usage_usec") {
                // A counter never decreases, whatever the kernel returns.
                Some(usec) => last.cpu_usec = usec.max(last.cpu_usec),
                None => return false,
            },
            Err(_) => return false,
        }
        last.at = now;
        let mut number = |file: &mut File, folder: &Path, name: &str| match file
            .read(folder, name, budget, buffer)
        {
            Ok(text) => parse::number(text),
            Err(Nothing::Missing | Nothing::Gone) => None,
        };
        match &self.memory {
            Memory::V2 => {
                last.memory = number(&mut files.memory, &self.v2, "memory.current");
                last.swap = number(&mut files.swap, &self.v2, "memory.swap.current");
            }
            Memory::V1(group) => {
                last.memory = number(&mut files.memory, group, "memory.usage_in_bytes");
                let both = number(&mut files.swap, group, "memory.memsw.usage_in_bytes");
                // The two values are read one after the other, so the sum may be older than the
                // other value.
                let swap = last.memory.zip(both);
                last.swap = swap.map(|(memory, both)| both.saturating_sub(memory));
            }
            Memory::None => {}
        }
        if wants.counts {
            let pids = self.pids.as_deref();
            last.lwps = pids.and_then(|group| number(&mut files.pids, group, "pids.current"));
            last.processes = Some(self.groups.processes(&self.v2, budget, buffer));
        }
        if wants.locked {
            let (group, key) = match &self.memory {
                Memory::V1(group) => (group.as_path(), "total_unevictable"),
                _ => (self.v2.as_path(), "unevictable"),
            };
            let text = files
                .memory_stat
                .read(group, "memory.stat", budget, buffer)
                .ok();
            last.locked = text.and_then(|text| parse::keyed(text, key));
        }
        if wants.pressure {
            last.pressure = pressure(&mut files.pressure, &self.v2, budget, buffer);
        }
        if wants.disk {
            last.disk = disk(
                &mut files.io,
                &self.v2,
                self.blkio.as_deref(),
                budget,
                buffer,
            );
        }
        if wants.network {
            // The file is not kept open: it would keep the network of a halted zone, with its links,
            // for as long as zonestat is stopped.
            let mut none = Budget(0);
            let net = &mut files.net;
            let text = net.read(&self.init, "net/dev", &mut none, buffer).ok();
            if let Some(links) = text.and_then(parse::links) {
                last.network = Some(links.sum);
                last.links = links.each;
            }
        }
        if wants.hits {
            last.hits = Some(self.counters.read(budget, buffer));
        }
        true
    }

    /// Returns a process in the namespace of the zone's System V IPC objects.
    pub(super) fn ipc_process(&self) -> i32 {
        self.runtime.init.pid
    }

    /// Closes the files of the zone. Returns the last figures.
    pub(super) fn close(mut self, budget: &mut Budget) -> ZoneSample {
        self.groups.close(budget);
        self.counters.close(budget);
        let files = self.files;
        let [cpu, memory, io] = files.pressure;
        for mut file in [
            files.cpu,
            files.memory,
            files.swap,
            files.memory_stat,
            files.pids,
            files.io,
            files.net,
            cpu,
            memory,
            io,
        ] {
            file.close(budget);
        }
        self.last
    }
}

/// Returns the caller's own part of the v2 tree: in a zone, all of the zone.
pub(super) fn own_group() -> Option<PathBuf> {
    let mut mounts = sys::mountinfo::own().ok()?.into_iter();
    let point = mounts.find(|mount| mount.fstype == "cgroup2")?.point;
    point.join("cpu.stat").exists().then_some(point)
}

/// Returns the first of the groups that has a file with this name.
pub(super) fn with(groups: &[PathBuf], file: &str) -> Option<PathBuf> {
    let mut groups = groups.iter();
    groups.find(|group| group.join(file).exists()).cloned()
}

fn pressure(
    files: &mut [File; 3],
    group: &Path,
    budget: &mut Budget,
    buffer: &mut Vec<u8>,
) -> Option<Pressure> {
    let [cpu, memory, io] = files;
    let mut stall = |file: &mut File, name| -> Option<Stall> {
        let text = file.read(group, name, budget, buffer).ok()?;
        parse::stall(text)
    };
    Some(Pressure {
        cpu: stall(cpu, "cpu.pressure")?,
        memory: stall(memory, "memory.pressure")?,
        io: stall(io, "io.pressure")?,
    })
}

fn disk(
    file: &mut File,
    v2: &Path,
    blkio: Option<&Path>,
    budget: &mut Budget,
    buffer: &mut Vec<u8>,
) -> Option<Traffic> {
    match blkio {
        Some(group) => {
            let name = "blkio.throttle.io_service_bytes";
            let text = file.read(group, name, budget, buffer).ok()?;
            parse::blkio(text)
        }
        None => {
            let text = file.read(v2, "io.stat", budget, buffer).ok()?;
            parse::io_stat(text)
        }
    }
}

/// Returns the settings of a zone: those from the kernel, and those that only the configuration
/// has.
fn setting(name: &ZoneName, runtime: &Runtime, root: &Root, label: Option<String>) -> Setting {
    let asked = &runtime.controls;
    let shown = ZoneCgroups::from_paths(&runtime.cgroups)
        .map(|groups| groups.effective())
        .unwrap_or_default();
    let number = |cpus: Option<&Dedicated>| match cpus {
        Some(Dedicated::Cpus(list)) => limits::CpuSet::parse(list).len() as u64,
        _ => 0,
    };
    let pset = match (&shown.dedicated_cpu, &shown.pool) {
        (Some(own), _) => {
            let cpus = number(Some(own));
            let (least, most) = match asked.dedicated_cpu {
                Some(Dedicated::Count(least, most)) => (u64::from(least), u64::from(most)),
                _ => (cpus, cpus),
            };
            Pset::Dedicated {
                zone: name.to_string(),
                cpus,
                least,
                most,
            }
        }
        (None, Some(pool)) => Pset::Pool {
            name: pool.name.clone(),
            cpus: number(pool.wanted.as_ref()),
        },
        (None, None) => Pset::Default,
    };
    // Only root can read the running configuration.
    let config = store::xml::load_running(root, name)
        .or_else(|_| store::xml::load(root, name))
        .ok();
    let controls = Controls {
        // A zone that sets no shares has one share, which reports do not show.
        cpu_shares: asked.cpu_shares.map(|set| shown.cpu_shares.unwrap_or(set)),
        swap: shown.swap.filter(|_| asked.swap.is_some()),
        // One kernel limit serves two controls: the configuration tells which control was set.
        max_processes: asked.max_processes,
        max_lwps: match asked.max_lwps {
            None if asked.max_processes.is_some() => None,
            _ => shown.max_lwps,
        },
        io_priority: asked.io_priority,
        locked: asked.locked,
        ipc: asked.ipc,
        dedicated_cpu: asked.dedicated_cpu.clone(),
        ..shown
    };
    Setting {
        label,
        controls,
        pset,
        kernel: config.is_some_and(|config| config.family() == Family::Kz),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;
    use crate::read::file::Budget;

    pub(in crate::read) fn runtime(groups: Vec<PathBuf>) -> Runtime {
        let init = Process {
            pid: 1,
            started: 1234,
        };
        Runtime {
            id: 1000,
            state: State::Running,
            init,
            daemon: init,
            cgroups: groups,
            first_id: 0,
            shutdown_signal: 0,
            capabilities: 0,
            seccomp: Vec::new(),
            kernel: false,
            environment: Vec::new(),
            controls: Controls::default(),
            auxiliary: String::new(),
            pager: None,
            immutable: None,
        }
    }

    #[test]
    fn files_of_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let (v2, memory) = (dir.path().join("v2"), dir.path().join("memory"));
        fs::create_dir_all(v2.join("zone/deep")).unwrap();
        fs::create_dir(&memory).unwrap();
        fs::write(v2.join("cpu.stat"), "usage_usec 77\n").unwrap();
        fs::write(v2.join("zone/cgroup.procs"), "1\n2\n").unwrap();
        fs::write(v2.join("zone/deep/cgroup.procs"), "3\n").unwrap();
        fs::write(memory.join("memory.usage_in_bytes"), "4096\n").unwrap();
        fs::write(memory.join("memory.memsw.usage_in_bytes"), "5120\n").unwrap();
        fs::write(
            memory.join("memory.stat"),
            "unevictable 1\ntotal_unevictable 2\n",
        )
        .unwrap();
        let root = Root::new(dir.path());
        let name: ZoneName = "web".parse().unwrap();
        let mut zone = Zone::new(&name, runtime(vec![v2.clone(), memory]), &root, None).unwrap();
        let (mut budget, mut buffer) = (Budget(50), Vec::new());
        let now = Duration::from_secs(60);
        assert!(zone.read(now, Wants::ALL, &mut budget, &mut buffer));
        let seen = &zone.last;
        assert_eq!((seen.cpu_usec, seen.at), (77, now));
        assert_eq!(seen.booted, Duration::from_millis(12_340));
        assert_eq!((seen.memory, seen.swap), (Some(4096), Some(1024)));
        assert_eq!((seen.locked, seen.processes), (Some(2), Some(3)));
        assert_eq!((seen.lwps, seen.pressure, seen.disk), (None, None, None));

        // A counter that would decrease keeps its value.
        fs::write(v2.join("cpu.stat"), "usage_usec 70\n").unwrap();
        assert!(zone.read(now, Wants::default(), &mut budget, &mut buffer));
        assert_eq!(zone.last.cpu_usec, 77);
        zone.close(&mut budget);
        assert_eq!(budget.0, 50);
    }

    #[test]
    fn a_group_that_is_gone_is_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let name: ZoneName = "web".parse().unwrap();
        let groups = vec![dir.path().join("none")];
        let mut zone = Zone::new(&name, runtime(groups), &Root::new(dir.path()), None).unwrap();
        let (mut budget, mut buffer) = (Budget(50), Vec::new());
        let now = Duration::from_secs(60);
        assert!(!zone.read(now, Wants::default(), &mut budget, &mut buffer));
        assert!(Zone::new(&name, runtime(vec![]), &Root::new(dir.path()), None).is_none());
    }
}
