//! Runs zoneadmd's work for a zone on the zone's own processors. A zone with dedicated processors
//! must not load other processors, even while its memory is compressed.

use std::path::PathBuf;

use host::Host;
use limits::{Base, ZoneCgroups};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Binds this thread, and the threads that it starts, to the processors of the zone.
pub(super) fn bound(host: &Host, qemu: i32, groups: &ZoneCgroups) -> Option<Bound> {
    Bound::to(qemu, groups, &Base::find(&host.cgroup).ok()?)
}

/// A guard: until it is dropped, this thread and the threads that it starts run on the processors
/// of a zone.
#[derive(Debug)]
pub(super) struct Bound {
    before: CpuSet,
    /// The control group of zoneadmd, if zoneadmd had to leave this group.
    home: Option<PathBuf>,
}

impl Bound {
    /// Binds this thread to the processors that the zone's process `model` may use. If
    /// the host refuses the binding, the work runs on other processors.
    pub fn to(model: i32, groups: &ZoneCgroups, base: &Base) -> Option<Self> {
        let theirs = sched_getaffinity(Some(Pid::from_raw(model)?)).ok()?;
        let before = sched_getaffinity(None).ok()?;
        if theirs == before {
            return None;
        }
        if sched_setaffinity(None, &theirs).is_ok() {
            return Some(Self { before, home: None });
        }
        // The zone's processors are a cpuset partition: only processes in the zone's control group
        // can run on them.
        let home = base.daemons();
        groups.take_in().ok()?;
        let bound = Self {
            before,
            home: Some(home),
        };
        let _ = sched_setaffinity(None, &theirs);
        Some(bound)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            let _ = limits::zone::take_into(home);
        }
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zoneadmd_runs_on_the_cpus_of_qemu_until_the_guard_drops() {
        let all = sched_getaffinity(None).unwrap();
        if all.count() < 2 {
            println!("skipped: one processor");
            return;
        }
        let mut one = CpuSet::new();
        let last = (0..CpuSet::MAX_CPU).rfind(|cpu| all.is_set(*cpu)).unwrap();
        one.set(last);
        let mut model = std::process::Command::new("sleep");
        let mut model = model.arg("1000").spawn().unwrap();
        let pid = i32::try_from(model.id()).unwrap();
        let there = Pid::from_raw(pid);
        sched_setaffinity(there, &one).unwrap();
        let base = Base {
            v2: PathBuf::from("/nowhere"),
            v1: Vec::new(),
            v1_on_demand: Vec::new(),
            v1_shared: Vec::new(),
        };
        let groups = ZoneCgroups::of(&base, &"web".parse().unwrap());
        let bound = Bound::to(pid, &groups, &base);
        assert!(bound.is_some());
        assert_eq!(sched_getaffinity(None).unwrap(), one);
        assert_eq!(suspend::all_processors().get(), 1);
        drop(bound);
        assert_eq!(sched_getaffinity(None).unwrap(), all);
        // No guard is returned if the process may use the same processors as this thread.
        sched_setaffinity(there, &all).unwrap();
        assert!(Bound::to(pid, &groups, &base).is_none());
        model.kill().unwrap();
        model.wait().unwrap();
    }
}
