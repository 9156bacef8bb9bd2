//! Finds the settings of an active zone.

use limits::ZoneCgroups;
use model::ZoneName;
use model::brands::Family;
use model::controls::{Controls, Dedicated};
use store::Root;
use store::runtime::Runtime;

use crate::sample::{Pset, Setting};

/// Returns the settings of a zone: those from the kernel, and those that only the configuration
/// has.
pub(super) fn setting(
    name: &ZoneName,
    runtime: &Runtime,
    root: &Root,
    label: Option<String>,
) -> Setting {
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
