//! The list of files, and their contents.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limits::{CpuSet, ZoneCgroups};
use model::controls::Controls;
use rustix::time::{ClockId, clock_gettime};

use crate::proc::text::{self, Counted, Load, Ticks};

/// Maximum size of a file of the host's /proc that is read, in bytes. The files of a host with
/// 8,192 CPUs are shorter.
const MAX_HOST_FILE: u64 = 32 << 20;

/// A file that shows a zone its own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum File {
    Meminfo,
    Swaps,
    Cpuinfo,
    Stat,
    Online,
    Loadavg,
    CpuPressure,
    MemoryPressure,
    IoPressure,
}

impl File {
    pub(crate) const ALL: [Self; 9] = [
        Self::Meminfo,
        Self::Swaps,
        Self::Cpuinfo,
        Self::Stat,
        Self::Online,
        Self::Loadavg,
        Self::CpuPressure,
        Self::MemoryPressure,
        Self::IoPressure,
    ];

    /// Returns the name of the file in the zone's folder.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Meminfo => "meminfo",
            Self::Swaps => "swaps",
            Self::Cpuinfo => "cpuinfo",
            Self::Stat => "stat",
            Self::Online => "online",
            Self::Loadavg => "loadavg",
            Self::CpuPressure => "pressure-cpu",
            Self::MemoryPressure => "pressure-memory",
            Self::IoPressure => "pressure-io",
        }
    }

    /// Returns the path of the kernel's file over which this file is mounted.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Meminfo => "/proc/meminfo",
            Self::Swaps => "/proc/swaps",
            Self::Cpuinfo => "/proc/cpuinfo",
            Self::Stat => "/proc/stat",
            Self::Online => "/sys/devices/system/cpu/online",
            Self::Loadavg => "/proc/loadavg",
            Self::CpuPressure => "/proc/pressure/cpu",
            Self::MemoryPressure => "/proc/pressure/memory",
            Self::IoPressure => "/proc/pressure/io",
        }
    }

    /// Returns true if a zone with these limits has the file.
    const fn is_for(self, controls: &Controls) -> bool {
        let memory = controls.physical.is_some() || controls.swap.is_some();
        let cpus = controls.cpu_cap.is_some()
            || controls.dedicated_cpu.is_some()
            || controls.pool.is_some();
        match self {
            Self::Meminfo | Self::Swaps => memory,
            Self::Cpuinfo | Self::Stat | Self::Online => cpus,
            _ => memory || cpus,
        }
    }
}

/// Returns the files that a zone with these limits has.
pub(crate) fn names_for(controls: &Controls) -> Vec<File> {
    let all = File::ALL.into_iter();
    all.filter(|file| file.is_for(controls)).collect()
}

/// The sources of the contents.
#[derive(Debug)]
pub(super) struct Contents {
    groups: ZoneCgroups,
    /// The time of the host's boot clock when the zone booted.
    booted: Duration,
    ticks: Ticks,
    load: Load,
    /// The CPUs for which cpuinfo was written last. The text is long and slow to make, so it is
    /// written only if the CPUs change.
    described: Option<CpuSet>,
}

impl Contents {
    pub(super) fn new(groups: ZoneCgroups, booted: Duration) -> Self {
        Self {
            groups,
            booted,
            ticks: Ticks::default(),
            load: Load::default(),
            described: None,
        }
    }

    /// Returns the contents of these files. A file is left out if it need not be written again
    /// (cpuinfo for the same CPUs), or if this host does not have the data.
    pub(super) fn of(&mut self, files: &BTreeSet<File>) -> Vec<(File, String)> {
        let wants = |list: &[File]| list.iter().any(|file| files.contains(file));
        let mut made = Vec::new();
        if wants(&[File::Meminfo, File::Swaps])
            && let Some(view) = self.groups.memory_view()
            && let Some(host) = of_host("/proc/meminfo")
        {
            made.push((File::Meminfo, text::meminfo(&host, &view)));
            made.push((File::Swaps, text::swaps(&host, &view)));
        }
        let waits = |what| self.groups.pressure(what);
        let (cpu, io) = (waits("cpu"), waits("io"));
        if wants(&[File::Cpuinfo, File::Stat, File::Online, File::Loadavg]) {
            let waited = [&cpu, &io].into_iter().flatten();
            self.look_at_cpus(
                files,
                waited.map(|text| text::waited(text)).sum(),
                &mut made,
            );
        }
        made.extend(cpu.map(|text| (File::CpuPressure, text)));
        made.extend(io.map(|text| (File::IoPressure, text)));
        if wants(&[File::MemoryPressure]) {
            let memory = self.groups.pressure("memory");
            made.extend(memory.map(|text| (File::MemoryPressure, text)));
        }
        made.retain(|(file, _)| files.contains(file));
        made
    }

    fn look_at_cpus(
        &mut self,
        files: &BTreeSet<File>,
        waited: u64,
        made: &mut Vec<(File, String)>,
    ) {
        let online = of_host("/sys/devices/system/cpu/online").unwrap_or_default();
        let view = self.groups.cpu_view(&CpuSet::parse(&online));
        let shown = view.shown();
        let uptime = since_boot().saturating_sub(self.booted);
        let tasks = self.groups.tasks();
        self.ticks = Ticks::of(&view, uptime, self.ticks);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let booted = now.unwrap_or_default().saturating_sub(uptime).as_secs();
        let stat = text::stat(&shown, self.ticks, booted, tasks);
        made.push((File::Stat, stat));
        made.push((File::Online, text::online(&shown)));
        let averages = self.load.look(
            uptime,
            Counted {
                ran: view.user_usec.saturating_add(view.system_usec),
                waited,
            },
        );
        made.push((File::Loadavg, text::loadavg(averages, tasks)));
        if files.contains(&File::Cpuinfo)
            && self.described.as_ref() != Some(&shown)
            && let Some(host) = of_host("/proc/cpuinfo")
        {
            made.push((File::Cpuinfo, text::cpuinfo(&host, &shown)));
            self.described = Some(shown);
        }
    }
}

/// Returns the time of the host's boot clock.
pub(super) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

fn of_host(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_HOST_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Makes the missing files in the folder of a zone, with the present values. Returns the paths of
/// the files. A file is left out if this host does not have it, or does not have the data for it.
pub(crate) fn make(
    folder: &Path,
    wanted: &[File],
    groups: &ZoneCgroups,
) -> io::Result<Vec<(File, PathBuf)>> {
    let missing = wanted
        .iter()
        .copied()
        .filter(|file| Path::new(file.target()).exists() && !folder.join(file.name()).exists());
    let missing: BTreeSet<File> = missing.collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(folder)?;
    let mut contents = Contents::new(groups.clone(), since_boot());
    let mut made = Vec::new();
    for (file, text) in contents.of(&missing) {
        let path = folder.join(file.name());
        // The mode is that of the kernel's files: readable for all users, writable for none.
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o444).open(&path);
        opened?.write_all(text.as_bytes())?;
        made.push((file, path));
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_without_limits_has_the_kernels_files() {
        let controls = Controls {
            cpu_shares: Some(3),
            max_lwps: Some(100),
            ..Controls::default()
        };
        assert_eq!(names_for(&controls), []);
    }

    #[test]
    fn limits_decide_which_files_there_are() {
        let memory = names_for(&Controls {
            physical: Some(1 << 20),
            ..Controls::default()
        });
        assert!(memory.contains(&File::Meminfo) && memory.contains(&File::MemoryPressure));
        assert!(!memory.contains(&File::Cpuinfo));
        let cpus = names_for(&Controls {
            cpu_cap: Some(50),
            ..Controls::default()
        });
        assert!(cpus.contains(&File::Online) && cpus.contains(&File::Loadavg));
        assert!(!cpus.contains(&File::Meminfo));
    }

    #[test]
    fn existing_files_are_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("web");
        fs::create_dir(&group).unwrap();
        fs::write(group.join("memory.max"), "1048576\n").unwrap();
        let groups = ZoneCgroups::from_paths(&[group]).unwrap();
        let folder = dir.path().join("web.proc");
        let wanted = [File::Meminfo, File::Online];
        let made = make(&folder, &wanted, &groups).unwrap();
        let paths: Vec<PathBuf> = made.iter().map(|(_, path)| path.clone()).collect();
        assert_eq!(paths, [folder.join("meminfo"), folder.join("online")]);
        let text = fs::read_to_string(&paths[0]).unwrap();
        assert!(text.starts_with("MemTotal:           1024 kB\n"), "{text}");
        assert!(make(&folder, &wanted, &groups).unwrap().is_empty());
    }
}
