//! The contents of the files: numbers in the format of the kernel.

use std::fmt::Write;
use std::time::Duration;

use limits::{CpuSet, CpuView, MemoryView};

/// Clock ticks per second, as programs see them on every architecture.
const TICKS_PER_SECOND: u64 = 100;

/// Lines of the host's meminfo that have the same value on every host of its architecture.
const SAME_EVERYWHERE: [&str; 2] = ["VmallocTotal", "Hugepagesize"];

/// The name of the zone's swap space in /proc/swaps. No device of the host has this name.
const SWAP_NAME: &str = "zone";

/// Returns the total memory that a zone sees, in bytes.
fn total(view: &MemoryView, host: &Host<'_>) -> u64 {
    let on_host = host.kib("MemTotal") << 10;
    view.limit.map_or(on_host, |limit| limit.min(on_host))
}

/// Returns the total swap space that a zone sees, in bytes.
fn swap_total(view: &MemoryView, host: &Host<'_>) -> u64 {
    let on_host = host.kib("SwapTotal") << 10;
    view.swap_limit.map_or(on_host, |limit| limit.min(on_host))
}

/// The content of the host's /proc/meminfo.
struct Host<'a>(&'a str);

impl<'a> Host<'a> {
    /// Returns the texts before and after the colon of each line.
    fn lines(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(key, value)| (key, value.trim()))
    }

    fn kib(&self, wanted: &str) -> u64 {
        let found = self.lines().find(|(key, _)| *key == wanted);
        let number = found.and_then(|(_, value)| value.split(' ').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// Returns /proc/meminfo: the lines of the host's file, with the values of the zone. A value that
/// the kernel does not count for a zone is 0.
pub(super) fn meminfo(host: &str, view: &MemoryView) -> String {
    let host = Host(host);
    let parts = &view.parts;
    let (total, swap) = (total(view, &host), swap_total(view, &host));
    let free = total.saturating_sub(view.used);
    let swap_free = swap.saturating_sub(view.swap_used);
    let reclaimable = parts.active_file + parts.inactive_file + parts.slab_reclaimable;
    let mut text = String::with_capacity(host.0.len());
    for (key, value) in host.lines() {
        let bytes = match key {
            "MemTotal" => total,
            "MemFree" => free,
            "MemAvailable" => free.saturating_add(reclaimable).min(total),
            "Cached" => parts.file,
            "Active" => parts.active_anon + parts.active_file,
            "Inactive" => parts.inactive_anon + parts.inactive_file,
            "Active(anon)" => parts.active_anon,
            "Inactive(anon)" => parts.inactive_anon,
            "Active(file)" => parts.active_file,
            "Inactive(file)" => parts.inactive_file,
            "Unevictable" => parts.unevictable,
            "SwapTotal" => swap,
            "SwapFree" => swap_free,
            "Dirty" => parts.file_dirty,
            "Writeback" => parts.file_writeback,
            "AnonPages" => parts.anon,
            "Mapped" => parts.file_mapped,
            "Shmem" => parts.shmem,
            "KReclaimable" | "SReclaimable" => parts.slab_reclaimable,
            "SUnreclaim" => parts.slab_unreclaimable,
            "Slab" => parts.slab_reclaimable + parts.slab_unreclaimable,
            "KernelStack" => parts.kernel_stack,
            "PageTables" => parts.pagetables,
            "AnonHugePages" => parts.anon_thp,
            // The limit is half of the memory and all swap space, which is the kernel's default.
            "CommitLimit" => total / 2 + swap,
            "Committed_AS" => parts.anon + parts.shmem + view.swap_used,
            _ => 0,
        };
        let same = SAME_EVERYWHERE
            .contains(&key)
            .then(|| Host(host.0).kib(key));
        let number = same.unwrap_or(bytes >> 10);
        let unit = if value.ends_with(" kB") { " kB" } else { "" };
        // All numbers have the same width, so that the file keeps its size.
        let label = format!("{key}:");
        let _ = writeln!(text, "{label:<16}{number:>8}{unit}");
    }
    text
}

/// Returns /proc/swaps: one area, or no area if the zone has no swap space.
pub(super) fn swaps(host: &str, view: &MemoryView) -> String {
    let total = swap_total(view, &Host(host)) >> 10;
    let mut text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_owned();
    if total > 0 {
        let used = (view.swap_used >> 10).min(total);
        let _ = writeln!(text, "{SWAP_NAME:<40}virtual\t\t{total:<8}\t{used:<8}\t-1");
    }
    text
}

/// Returns /proc/cpuinfo: the host's file without the sections of CPUs that the zone does not have.
/// A section without a CPU number is kept.
pub(super) fn cpuinfo(host: &str, shown: &CpuSet) -> String {
    let mut text = String::with_capacity(host.len());
    for part in host.split_inclusive("\n\n") {
        let number = part.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "processor").then(|| value.trim().parse::<u32>())
        });
        match number {
            Some(Ok(number)) if !shown.has(number) => {}
            _ => text.push_str(part),
        }
    }
    text
}

/// The counts of /proc/stat, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
}

impl Ticks {
    /// Returns the run time of a zone since its boot, which was `uptime` ago. `before` is the last
    /// result: idle time must not decrease if the zone gets fewer CPUs.
    pub(super) fn of(view: &CpuView, uptime: Duration, before: Self) -> Self {
        let ticks = |usec: u64| usec / (1_000_000 / TICKS_PER_SECOND);
        let cpus = view.shown().len() as u64;
        let all = ticks(u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX)) * cpus;
        let (user, system) = (ticks(view.user_usec), ticks(view.system_usec));
        Self {
            user,
            system,
            idle: all.saturating_sub(user + system).max(before.idle),
        }
    }

    /// Returns the share of one of `count` CPUs. The first CPU also gets the remainder.
    fn share(self, number: usize, count: usize) -> Self {
        let count = count.max(1) as u64;
        let part = |all: u64| all / count + if number == 0 { all % count } else { 0 };
        Self {
            user: part(self.user),
            system: part(self.system),
            idle: part(self.idle),
        }
    }

    fn line(self, name: &str) -> String {
        let Self { user, system, idle } = self;
        format!("{name} {user} 0 {system} {idle} 0 0 0 0 0 0\n")
    }
}

/// Returns /proc/stat. The kernel counts the run time of a zone, but not for each CPU, so each CPU
/// gets the same share. `booted` is in seconds since 1970.
pub(super) fn stat(shown: &CpuSet, ticks: Ticks, booted: u64, tasks: u64) -> String {
    let mut text = ticks.line("cpu ");
    for (number, cpu) in shown.iter().enumerate() {
        text.push_str(&ticks.share(number, shown.len()).line(&format!("cpu{cpu}")));
    }
    let _ = write!(
        text,
        "intr 0\nctxt 0\nbtime {booted}\nprocesses {tasks}\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n"
    );
    text
}

/// Returns /sys/devices/system/cpu/online.
pub(super) fn online(shown: &CpuSet) -> String {
    format!("{shown}\n")
}

/// Returns /proc/loadavg. The id of the zone's last process is not known outside the zone, so the
/// file shows 0.
pub(super) fn loadavg(averages: [f64; 3], tasks: u64) -> String {
    let [one, five, fifteen] = averages;
    // One process counts as running: the reader of the file.
    format!("{one:.2} {five:.2} {fifteen:.2} 1/{tasks} 0\n")
}

/// The averages of the load over 1, 5 and 15 minutes, updated at each call of [`Load::look`]. The
/// load between two calls counts as constant, so that no process must wake up to measure more
/// often.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    averages: [f64; 3],
    /// The time and the counts of the last call.
    last: Option<(Duration, Counted)>,
}

/// The components of the load, in microseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Time for which processes ran.
    pub ran: u64,
    /// Time for which at least one process waited for a CPU, plus the time for which at least one
    /// waited for a disk.
    pub waited: u64,
}

impl Load {
    /// Updates the averages up to `now`, and returns them.
    pub(super) fn look(&mut self, now: Duration, counted: Counted) -> [f64; 3] {
        if let Some((then, before)) = self.last {
            let passed = now.saturating_sub(then).as_secs_f64();
            if passed > 0.0 {
                let ran = counted.ran.saturating_sub(before.ran);
                let waited = counted.waited.saturating_sub(before.waited);
                let load = ran.saturating_add(waited) as f64 / 1e6 / passed;
                for (average, minutes) in self.averages.iter_mut().zip([1.0, 5.0, 15.0]) {
                    let kept = (-passed / (60.0 * minutes)).exp();
                    *average = *average * kept + load * (1.0 - kept);
                }
            }
        }
        self.last = Some((now, counted));
        self.averages
    }
}

/// Returns the microseconds after `total=` in the line `some` of a pressure file.
pub(super) fn waited(pressure: &str) -> u64 {
    let line = pressure.lines().find(|line| line.starts_with("some "));
    let total = line.and_then(|line| line.rsplit_once("total="));
    total
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use limits::MemoryParts;

    use super::*;

    const HOST: &str = "\
MemTotal:       24684164 kB
MemFree:         9136324 kB
MemAvailable:   24081136 kB
Buffers:          100000 kB
Cached:          8000000 kB
Active(file):    8000000 kB
SwapTotal:       1048576 kB
SwapFree:        1000000 kB
Shmem:              8000 kB
VmallocTotal:   34359738367 kB
HugePages_Total:       3
Hugepagesize:       2048 kB
DirectMap4k:      200000 kB
";

    fn view() -> MemoryView {
        MemoryView {
            limit: Some(512 << 20),
            swap_limit: Some(128 << 20),
            used: 112 << 20,
            swap_used: 1 << 20,
            parts: MemoryParts {
                file: 30 << 20,
                active_file: 10 << 20,
                inactive_file: 2 << 20,
                shmem: 18 << 20,
                ..MemoryParts::default()
            },
        }
    }

    #[test]
    fn meminfo_has_the_zones_numbers_and_none_of_the_hosts() {
        let text = meminfo(HOST, &view());
        let expected = "\
MemTotal:         524288 kB
MemFree:          409600 kB
MemAvailable:     421888 kB
Buffers:               0 kB
Cached:            30720 kB
Active(file):      10240 kB
SwapTotal:        131072 kB
SwapFree:         130048 kB
Shmem:             18432 kB
VmallocTotal:   34359738367 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
DirectMap4k:           0 kB
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_limit_above_the_machine_is_the_machine() {
        let unlimited = MemoryView {
            limit: Some(u64::MAX),
            swap_limit: None,
            ..view()
        };
        let text = meminfo(HOST, &unlimited);
        assert!(text.starts_with("MemTotal:       24684164 kB\n"), "{text}");
        assert!(text.contains("SwapTotal:       1048576 kB\n"), "{text}");
        // More memory is in use than the limit, because the limit was just lowered.
        let full = MemoryView {
            used: 600 << 20,
            ..view()
        };
        assert!(meminfo(HOST, &full).contains("MemFree:               0 kB"));
    }

    #[test]
    fn swaps_has_one_area_or_none() {
        let text = swaps(HOST, &view());
        let fields: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(fields, ["zone", "virtual", "131072", "1024", "-1"]);
        let none = MemoryView {
            swap_limit: Some(0),
            ..view()
        };
        assert_eq!(swaps(HOST, &none).lines().count(), 1);
    }

    #[test]
    fn cpuinfo_keeps_the_zones_cpus() {
        let host = "processor\t: 0\nmodel\t: a\n\nprocessor\t: 1\nmodel\t: b\n\n";
        let shown = CpuSet::parse("1");
        assert_eq!(cpuinfo(host, &shown), "processor\t: 1\nmodel\t: b\n\n");
        assert_eq!(
            cpuinfo("vendor_id : IBM/S390\n", &shown),
            "vendor_id : IBM/S390\n"
        );
    }

    #[test]
    fn stat_adds_up_and_idle_never_goes_back() {
        let view = CpuView {
            cpus: CpuSet::parse("2-4"),
            user_usec: 5_000_000,
            system_usec: 1_010_000,
            ..CpuView::default()
        };
        let ticks = Ticks::of(&view, Duration::from_secs(10), Ticks::default());
        let text = stat(&view.shown(), ticks, 1_700_000_000, 7);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "cpu  500 0 101 2399 0 0 0 0 0 0");
        assert_eq!(lines[1], "cpu2 168 0 35 801 0 0 0 0 0 0");
        assert_eq!(lines[2], "cpu3 166 0 33 799 0 0 0 0 0 0");
        assert!(lines[3].starts_with("cpu4 ") && lines[4] == "intr 0");
        assert!(text.contains("btime 1700000000\nprocesses 7\n"));
        let fewer = CpuView {
            cpus: CpuSet::parse("2"),
            ..view
        };
        let later = Ticks::of(&fewer, Duration::from_secs(11), ticks);
        assert_eq!(later.idle, ticks.idle);
    }

    #[test]
    fn load_is_what_ran_and_waited() {
        let mut load = Load::default();
        let mut counted = Counted::default();
        assert_eq!(load.look(Duration::ZERO, counted), [0.0; 3]);
        counted = Counted {
            ran: 3_600_000_000,
            waited: 3_600_000_000,
        };
        let averages = load.look(Duration::from_secs(3600), counted);
        assert!((averages[0] - 2.0).abs() < 0.001, "{averages:?}");
        assert!(averages[2] > 1.9, "{averages:?}");
        // The zone is idle for one minute.
        let rested = load.look(Duration::from_secs(3660), counted);
        assert!((rested[0] - 2.0 / std::f64::consts::E).abs() < 0.01);
        assert_eq!(loadavg([0.5, 1.0, 2.25], 12), "0.50 1.00 2.25 1/12 0\n");
        assert_eq!(
            waited("some avg10=0.00 total=77\nfull avg10=0.00 total=5\n"),
            77
        );
        assert_eq!(waited(""), 0);
    }
}
