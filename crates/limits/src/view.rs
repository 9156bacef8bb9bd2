//! Reads the memory, CPUs and pressure of a zone from its control groups. The zone sees these
//! numbers in the files of its /proc.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::knob::Knob;
use crate::place::{Place, Places};
use crate::{CpuSet, ZoneCgroups};

/// Maximum size of a file of a control group, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// The memory of a zone, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryView {
    /// The limit of the zone's memory.
    pub limit: Option<u64>,
    /// The limit of the zone's swap space.
    pub swap_limit: Option<u64>,
    /// Memory in use, with the cached pages of files.
    pub used: u64,
    /// Swap space in use.
    pub swap_used: u64,
    /// The kinds of use of the memory.
    pub parts: MemoryParts,
}

/// The kinds of use of a zone's memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in memory.stat of v2, see cgroups(7)")]
pub struct MemoryParts {
    pub anon: u64,
    pub file: u64,
    pub shmem: u64,
    pub file_mapped: u64,
    pub file_dirty: u64,
    pub file_writeback: u64,
    pub anon_thp: u64,
    pub active_anon: u64,
    pub inactive_anon: u64,
    pub active_file: u64,
    pub inactive_file: u64,
    pub unevictable: u64,
    pub slab_reclaimable: u64,
    pub slab_unreclaimable: u64,
    pub kernel_stack: u64,
    pub pagetables: u64,
}

/// The CPUs of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuView {
    /// The CPUs on which the zone's processes may run.
    pub cpus: CpuSet,
    /// The limit of the zone's CPU time, in hundredths of a CPU.
    pub cap: Option<u64>,
    /// CPU time in user mode since boot, in microseconds.
    pub user_usec: u64,
    /// CPU time in kernel mode since boot, in microseconds.
    pub system_usec: u64,
}

impl CpuView {
    /// Returns the CPUs that the zone sees: as many as its CPU time can keep busy.
    #[must_use]
    pub fn shown(&self) -> CpuSet {
        match self.cap {
            None => self.cpus.clone(),
            Some(cap) => {
                let most = usize::try_from(cap.div_ceil(100)).unwrap_or(usize::MAX);
                self.cpus.first(most.max(1))
            }
        }
    }
}

impl ZoneCgroups {
    /// Returns the zone's memory; `None` if this host does not account memory.
    #[must_use]
    pub fn memory_view(&self) -> Option<MemoryView> {
        let places = Places::find(self);
        let place = places.memory?;
        let limit = limit_in(&place);
        let group = place.path.parent()?;
        let at = |name: &str| number(&group.join(name));
        let stat = read(&group.join("memory.stat")).unwrap_or_default();
        if place.knob == Knob::MemoryMax {
            return Some(MemoryView {
                limit,
                swap_limit: places.swap.as_ref().and_then(limit_in),
                used: at("memory.current").unwrap_or_default(),
                swap_used: at("memory.swap.current").unwrap_or_default(),
                parts: parts(&stat),
            });
        }
        // In v1 the second limit is that of the sum of memory and swap space.
        let sum = places.swap.as_ref().and_then(limit_in);
        let limit = [limit, sum].into_iter().flatten().min();
        let used = at("memory.usage_in_bytes").unwrap_or_default();
        let both = at("memory.memsw.usage_in_bytes").unwrap_or(used);
        Some(MemoryView {
            limit,
            swap_limit: sum.map(|sum| sum.saturating_sub(limit.unwrap_or(sum))),
            used,
            swap_used: both.saturating_sub(used),
            parts: parts_of_v1(&stat),
        })
    }

    /// Returns the zone's CPUs. `online` are the CPUs of the host.
    #[must_use]
    pub fn cpu_view(&self, online: &CpuSet) -> CpuView {
        let stat = read(&self.v2.join("cpu.stat")).unwrap_or_default();
        let of = |key: &str| keyed(&stat, key).unwrap_or_default();
        let in_v1 = |name: &str| self.v1_file(name).and_then(|path| read(&path));
        let bound = read(&self.v2.join("cpuset.cpus.effective"))
            .or_else(|| in_v1("cpuset.effective_cpus"))
            .or_else(|| in_v1("cpuset.cpus"));
        let bound = bound.map(|text| CpuSet::parse(&text));
        CpuView {
            cpus: match bound.filter(|cpus| !cpus.is_empty()) {
                Some(cpus) => cpus,
                None => online.clone(),
            },
            cap: Places::find(self).cap.as_ref().and_then(limit_in),
            user_usec: of("user_usec"),
            system_usec: of("system_usec"),
        }
    }

    /// Returns how long the zone has waited for `cpu`, `memory` or `io`, in the format of the
    /// kernel's pressure files; `None` if the kernel does not count this.
    #[must_use]
    pub fn pressure(&self, what: &str) -> Option<String> {
        read(&self.v2.join(format!("{what}.pressure")))
    }

    /// Returns the number of the zone's threads, or of its processes if this host does not count
    /// threads.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        let pids = Places::find(self).pids;
        let group = pids.as_ref().and_then(|place| place.path.parent());
        group
            .and_then(|group| number(&group.join("pids.current")))
            .unwrap_or_else(|| self.processes())
    }
}

fn limit_in(place: &Place) -> Option<u64> {
    place.value(&read(&place.path)?)
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the number behind a word in lines `word number`.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(word, _)| *word == key)
        .and_then(|(_, value)| value.trim().parse().ok())
}

fn parts(stat: &str) -> MemoryParts {
    let of = |key: &str| keyed(stat, key).unwrap_or_default();
    MemoryParts {
        anon: of("anon"),
        file: of("file"),
        shmem: of("shmem"),
        file_mapped: of("file_mapped"),
        file_dirty: of("file_dirty"),
        file_writeback: of("file_writeback"),
        anon_thp: of("anon_thp"),
        active_anon: of("active_anon"),
        inactive_anon: of("inactive_anon"),
        active_file: of("active_file"),
        inactive_file: of("inactive_file"),
        unevictable: of("unevictable"),
        slab_reclaimable: of("slab_reclaimable"),
        slab_unreclaimable: of("slab_unreclaimable"),
        kernel_stack: of("kernel_stack"),
        pagetables: of("pagetables"),
    }
}

/// v1 has fewer numbers, and none for memory of the kernel. The numbers with "total_" include the
/// groups below.
fn parts_of_v1(stat: &str) -> MemoryParts {
    let of = |key: &str| keyed(stat, &format!("total_{key}")).unwrap_or_default();
    MemoryParts {
        anon: of("rss"),
        file: of("cache"),
        shmem: of("shmem"),
        file_mapped: of("mapped_file"),
        file_dirty: of("dirty"),
        file_writeback: of("writeback"),
        anon_thp: of("rss_huge"),
        active_anon: of("active_anon"),
        inactive_anon: of("inactive_anon"),
        active_file: of("active_file"),
        inactive_file: of("inactive_file"),
        unevictable: of("unevictable"),
        ..MemoryParts::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Makes folders with files in the format of the kernel.
    fn groups(files: &[(&str, &str)]) -> (tempfile::TempDir, ZoneCgroups) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let paths = [
            "v2/zones/web",
            "memory/zones/web",
            "cpu/zones/web",
            "cpuset/zones/web",
        ];
        let paths: Vec<PathBuf> = paths.iter().map(|path| dir.path().join(path)).collect();
        let groups = ZoneCgroups::from_paths(&paths).unwrap();
        (dir, groups)
    }

    #[test]
    fn memory_of_v2() {
        let (_dir, groups) = groups(&[
            ("v2/zones/web/memory.max", "536870912\n"),
            ("v2/zones/web/memory.current", "104857600\n"),
            ("v2/zones/web/memory.swap.max", "268435456\n"),
            ("v2/zones/web/memory.swap.current", "4096\n"),
            (
                "v2/zones/web/memory.stat",
                "anon 50\nfile 40\nslab_reclaimable 7\n",
            ),
        ]);
        let view = groups.memory_view().unwrap();
        assert_eq!(view.limit, Some(512 << 20));
        assert_eq!(view.swap_limit, Some(256 << 20));
        assert_eq!((view.used, view.swap_used), (100 << 20, 4096));
        let parts = view.parts;
        assert_eq!(
            (parts.anon, parts.file, parts.slab_reclaimable),
            (50, 40, 7)
        );
        let (_dir, groups) = self::groups(&[
            ("v2/zones/web/memory.max", "max\n"),
            ("v2/zones/web/memory.swap.max", "max\n"),
        ]);
        let view = groups.memory_view().unwrap();
        assert_eq!((view.limit, view.swap_limit), (None, None));
    }

    #[test]
    fn memory_of_v1() {
        let (_dir, groups) = groups(&[
            ("memory/zones/web/memory.limit_in_bytes", "536870912\n"),
            ("memory/zones/web/memory.usage_in_bytes", "104857600\n"),
            (
                "memory/zones/web/memory.memsw.limit_in_bytes",
                "805306368\n",
            ),
            (
                "memory/zones/web/memory.memsw.usage_in_bytes",
                "104861696\n",
            ),
            (
                "memory/zones/web/memory.stat",
                "cache 1\ntotal_cache 40\ntotal_rss 50\n",
            ),
        ]);
        let view = groups.memory_view().unwrap();
        assert_eq!(view.limit, Some(512 << 20));
        assert_eq!(view.swap_limit, Some(256 << 20));
        assert_eq!((view.used, view.swap_used), (100 << 20, 4096));
        assert_eq!((view.parts.anon, view.parts.file), (50, 40));
        // Only the sum of memory and swap is limited, so memory alone has the same limit.
        let (_dir, groups) = self::groups(&[
            (
                "memory/zones/web/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("memory/zones/web/memory.memsw.limit_in_bytes", "1048576\n"),
        ]);
        let view = groups.memory_view().unwrap();
        assert_eq!((view.limit, view.swap_limit), (Some(1 << 20), Some(0)));
    }

    #[test]
    fn a_zone_without_a_memory_controller_has_no_memory_view() {
        assert_eq!(groups(&[]).1.memory_view(), None);
    }

    #[test]
    fn cpus_of_v2_and_v1() {
        let online = CpuSet::parse("0-7");
        let (_dir, groups) = groups(&[
            ("v2/zones/web/cpu.max", "150000 100000\n"),
            ("v2/zones/web/cpuset.cpus.effective", "2-5\n"),
            (
                "v2/zones/web/cpu.stat",
                "usage_usec 30\nuser_usec 20\nsystem_usec 10\n",
            ),
        ]);
        let view = groups.cpu_view(&online);
        assert_eq!(view.cpus, CpuSet::parse("2-5"));
        assert_eq!(view.cap, Some(150));
        assert_eq!((view.user_usec, view.system_usec), (20, 10));
        assert_eq!(view.shown(), CpuSet::parse("2-3"));
        let (_dir, groups) = self::groups(&[
            ("cpu/zones/web/cpu.cfs_quota_us", "25000\n"),
            ("cpuset/zones/web/cpuset.cpus", "1\n"),
        ]);
        let view = groups.cpu_view(&online);
        assert_eq!(
            (view.cap, view.cpus.to_string()),
            (Some(25), "1".to_owned())
        );
        assert_eq!(view.shown(), CpuSet::parse("1"));
        let (_dir, groups) = self::groups(&[]);
        assert_eq!(groups.cpu_view(&online).shown(), online);
    }
}
