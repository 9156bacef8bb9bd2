//! Finds and reads the figures of an active zone.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::controls::Controls;
use model::{State, ZoneName};
use rustix::fs::{CWD, Mode, OFlags, openat};
use store::Root;
use store::runtime::{Process, Runtime};

use super::file::{Budget, File, MAX_FILE_BYTES, Nothing, from_start};
use super::groups::Groups;
use super::hits::Counters;
use super::parse;
use super::setting::setting;
use super::wants::Wants;
use crate::sample::{Pressure, Stall, Traffic, ZoneSample};

/// Ticks per second of the times in /proc/PID/stat.
const TICKS_PER_SECOND: u64 = 100;

/// The time after which the pressure of a zone stays the same if no process of the zone has run and the
/// pressure has not changed. The kernel adds the time of waiting to the total at least every 2 s.
const PRESSURE_SETTLES_WITHIN: Duration = Duration::from_secs(5);

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
    /// The folder of the zone's init in /proc. It keeps no namespace of the zone, and becomes empty
    /// when the process ends. `None` if it is not open.
    init: Option<OwnedFd>,
    files: Files,
    groups: Groups,
    counters: Counters,
    /// True if the next sample reads all counters, even if no process of the zone has run.
    must_read: bool,
    /// True if the counters were read since the last sample; the sampler sets it to false when the
    /// sample is complete.
    pub is_fresh: bool,
    /// The last time at which a process of the zone had run or the pressure had changed.
    pressed: Duration,
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
            init: None,
            counters: Counters::find(&runtime.cgroups),
            groups: Groups::default(),
            runtime,
            last,
            v2,
            memory,
            pids,
            blkio,
            files: Files::default(),
            must_read: true,
            is_fresh: false,
            pressed: Duration::ZERO,
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

    /// Reads the settings of the zone again. The next sample reads all counters.
    pub(super) fn review(&mut self, name: &ZoneName, root: &Root) {
        let label = self.last.setting.label.clone();
        let setting = setting(name, &self.runtime, root, label);
        self.must_read = true;
        if *self.last.setting != setting {
            self.last.setting = Arc::new(setting);
        }
    }

    /// Reads the zone's figures into `last`. Returns false if the groups of the zone no longer
    /// exist; `last` then keeps the former figures.
    ///
    /// If the CPU time of the zone is still the same, no process of the zone has run. The counters
    /// that only such a process changes then keep their values until the next [`Zone::review`]: the
    /// numbers of processes and threads, locked memory, IPC objects, and limits that were reached.
    /// Memory, disk and network traffic also change without them. A process that waits adds to the
    /// pressure, but only after it has run, so a pressure that stands still is not read either.
    pub(super) fn read(
        &mut self,
        now: Duration,
        wants: Wants,
        budget: &mut Budget,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let (files, last) = (&mut self.files, &mut self.last);
        let former_usec = last.cpu_usec;
        match files.cpu.read(&self.v2, "cpu.stat", budget, buffer) {
            Ok(text) => match parse::keyed(text, "usage_usec") {
                // A counter never decreases, whatever the kernel returns.
                Some(usec) => last.cpu_usec = usec.max(last.cpu_usec),
                None => return false,
            },
            Err(_) => return false,
        }
        last.at = now;
        // The CPU time is read first: a process that runs meanwhile shows in the next sample.
        self.is_fresh |= self.must_read || last.cpu_usec != former_usec;
        self.must_read = false;
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
        if wants.counts && self.is_fresh {
            let pids = self.pids.as_deref();
            last.lwps = pids.and_then(|group| number(&mut files.pids, group, "pids.current"));
            last.processes = Some(self.groups.processes(&self.v2, budget, buffer));
        }
        if wants.locked && self.is_fresh {
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
        let is_calm = !self.is_fresh && now.saturating_sub(self.pressed) >= PRESSURE_SETTLES_WITHIN;
        if wants.pressure && !is_calm {
            let pressure = pressure(&mut files.pressure, &self.v2, budget, buffer);
            if self.is_fresh || last.pressure != pressure {
                self.pressed = now;
            }
            last.pressure = pressure;
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
            let file = open_links(&self.runtime.init, &mut self.init, budget);
            let text = file.and_then(|file| from_start(&file, buffer, MAX_FILE_BYTES).ok());
            if let Some(links) = text.and_then(parse::links) {
                last.network = Some(links.sum);
                last.links = links.each;
            }
        }
        if wants.hits && self.is_fresh {
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
        budget.0 += usize::from(self.init.is_some());
        let files = self.files;
        let [cpu, memory, io] = files.pressure;
        for mut file in [
            files.cpu,
            files.memory,
            files.swap,
            files.memory_stat,
            files.pids,
            files.io,
            cpu,
            memory,
            io,
        ] {
            file.close(budget);
        }
        self.last
    }
}

/// Opens the list of the links of a zone. The list does not stay open: it would keep the network of a
/// halted zone, with its links, for as long as zonestat is stopped. `folder` is the folder of the
/// zone's init, which stays open if `budget` allows it: from there the way to the list is short.
fn open_links(
    init: &Process,
    folder: &mut Option<OwnedFd>,
    budget: &mut Budget,
) -> Option<OwnedFd> {
    let path = format!("/proc/{}", init.pid);
    if folder.is_none() {
        if let Some(left) = budget.0.checked_sub(1) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            *folder = openat(CWD, &path, flags, Mode::empty()).ok();
            if folder.is_some() {
                budget.0 = left;
            }
        }
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match folder {
        Some(folder) => openat(folder, "net/dev", flags, Mode::empty()),
        None => openat(CWD, path + "/net/dev", flags, Mode::empty()),
    }
    .ok()
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
        let seen = zone.last.clone();
        assert_eq!((seen.cpu_usec, seen.at), (77, now));
        assert_eq!(seen.booted, Duration::from_millis(12_340));
        assert_eq!((seen.memory, seen.swap), (Some(4096), Some(1024)));
        assert_eq!((seen.locked, seen.processes), (Some(2), Some(3)));
        assert_eq!((seen.lwps, seen.pressure, seen.disk), (None, None, None));
        // The runtime names this host's first process, whose links are known with and without
        // descriptors that may stay open.
        assert!(seen.network.is_some() && zone.init.is_some());
        let mut init = None;
        assert!(open_links(&zone.runtime.init, &mut init, &mut Budget(0)).is_some());
        assert!(init.is_none());

        // No process of the zone has run since, so the number of processes is not read again.
        zone.is_fresh = false;
        fs::write(v2.join("zone/deep/cgroup.procs"), "3\n4\n").unwrap();
        assert!(zone.read(now, Wants::ALL, &mut budget, &mut buffer));
        assert_eq!((zone.is_fresh, zone.last.processes), (false, Some(3)));
        fs::write(v2.join("cpu.stat"), "usage_usec 78\n").unwrap();
        assert!(zone.read(now, Wants::ALL, &mut budget, &mut buffer));
        assert_eq!((zone.is_fresh, zone.last.processes), (true, Some(4)));
        // A review finds a process that another moved into the zone.
        zone.is_fresh = false;
        fs::write(v2.join("zone/deep/cgroup.procs"), "3\n4\n5\n").unwrap();
        zone.review(&name, &root);
        assert!(zone.read(now, Wants::ALL, &mut budget, &mut buffer));
        assert_eq!((zone.is_fresh, zone.last.processes), (true, Some(5)));

        // A counter that would decrease keeps its value.
        fs::write(v2.join("cpu.stat"), "usage_usec 70\n").unwrap();
        assert!(zone.read(now, Wants::default(), &mut budget, &mut buffer));
        assert_eq!(zone.last.cpu_usec, 78);
        zone.close(&mut budget);
        assert_eq!(budget.0, 50);
    }

    #[test]
    fn a_pressure_that_stands_still_is_read_after_the_next_use_of_cpu_time() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().to_owned();
        let write = |total: u64| {
            for name in ["cpu.pressure", "memory.pressure", "io.pressure"] {
                fs::write(group.join(name), format!("some total={total}\n")).unwrap();
            }
        };
        let used = |usec: u64| {
            fs::write(group.join("cpu.stat"), format!("usage_usec {usec}\n")).unwrap();
        };
        used(1);
        write(10);
        let name: ZoneName = "web".parse().unwrap();
        let root = Root::new(dir.path());
        let mut zone = Zone::new(&name, runtime(vec![group.clone()]), &root, None).unwrap();
        let (mut budget, mut buffer) = (Budget(50), Vec::new());
        let mut seen = |second: u64| {
            let now = Duration::from_secs(second);
            assert!(zone.read(now, Wants::ALL, &mut budget, &mut buffer));
            zone.is_fresh = false;
            zone.last.pressure.unwrap().io.some_usec
        };
        assert_eq!(seen(1), 10);
        // A process that waits for a disk for a long time does not run.
        for second in 2..20 {
            write(second * 100);
            assert_eq!(seen(second), second * 100);
        }
        assert_eq!(seen(25), 1900);
        write(2000);
        assert_eq!(seen(26), 1900);
        used(2);
        assert_eq!(seen(27), 2000);
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
