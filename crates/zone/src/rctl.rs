//! `zoneadm rctl`: shows the resource controls of a zone, the limits in force, and the use.

use std::os::fd::AsFd;

use limits::{First, Usage, ZoneCgroups};
use model::config::Value;
use model::controls::{Control, Controls};
use model::{Config, ZoneName};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use store::index::Index;
use store::runtime::Runtime;
use store::xml;

use host::{Error, Host};
use platform::controls;

/// A line of `zoneadm rctl`: one value of a control, or a control without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The name of the control, for example `zone.max-lwps`, `dedicated-cpu` or `pool`.
    pub control: String,
    /// True if the numbers of the control are bytes.
    pub is_size: bool,
    /// The privilege that is required to change the value; `None` if the control has no value.
    pub privilege: Option<String>,
    /// The configured limit. For an active zone this is the limit of its running configuration.
    pub limit: Option<String>,
    /// The action at the limit: `deny` or `none`.
    pub action: Option<String>,
    /// The limit in the kernel, for an active zone: a number, or a list of CPUs.
    pub effective: Option<String>,
    /// The present use of the resource.
    pub used: Option<u64>,
    /// Number of times that the zone reached the limit since its boot.
    pub hits: Option<u64>,
}

/// Returns all resource controls of a zone, with or without a value.
///
/// # Errors
/// Fails if the zone or its configuration cannot be read.
pub fn of(host: &Host, zone: &ZoneName) -> Result<Vec<Row>, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, runtime) = subject::state(host, entry)?;
    let runtime = runtime.filter(|_| state.is_active());
    let config = match &runtime {
        // Only root can read the running configuration. Other users get the stored configuration.
        Some(_) => xml::load_running(&host.root, zone).or_else(|_| xml::load(&host.root, zone))?,
        None => xml::load(&host.root, zone)?,
    };
    let seen = runtime.as_ref().and_then(Seen::of);
    let asked = match &runtime {
        Some(known) => known.controls.clone(),
        None => controls::configured(host, &config)?,
    };
    let mut rows = Vec::new();
    for control in Control::ALL {
        let mut row = Row {
            zone: zone.to_string(),
            control: control.to_string(),
            is_size: control.is_size(),
            ..Row::default()
        };
        if let Some(seen) = &seen {
            seen.fill(control, &asked, &mut row);
        }
        let values = configured(&config, control, &asked);
        if values.is_empty() {
            rows.push(row);
            continue;
        }
        for (privilege, limit, action) in values {
            row.privilege = Some(privilege);
            row.limit = Some(limit);
            row.action = Some(action);
            rows.push(row.clone());
        }
    }
    Ok(rows)
}

/// Returns the privilege, limit and action of each configured value of a control.
fn configured(
    config: &Config,
    control: Control,
    asked: &Controls,
) -> Vec<(String, String, String)> {
    let value = |limit: String, action: &str| ("privileged".to_owned(), limit, action.to_owned());
    let of_rctl = |value: &Value| {
        let field = |name| value.field(name).unwrap_or_default().to_owned();
        (field("priv"), field("limit"), field("action"))
    };
    let rctls = config.resources_of("rctl");
    let mut values: Vec<_> = rctls
        .filter(|rctl| rctl.get("name") == control.as_str())
        .flat_map(|rctl| rctl.list("value").iter().map(of_rctl))
        .collect();
    match control {
        Control::DedicatedCpu => {
            values.extend(
                asked
                    .dedicated_cpu
                    .as_ref()
                    .map(|cpus| value(cpus.to_string(), "none")),
            );
        }
        Control::Pool => {
            values.extend(
                asked
                    .pool
                    .as_ref()
                    .map(|pool| value(pool.name.clone(), "none")),
            );
        }
        Control::MaxPhysicalMemory => {
            let physical = config.capped_memory_physical();
            values.extend(physical.map(|bytes| value(bytes.to_string(), "deny")));
        }
        _ => {}
    }
    values
}

/// The limits and use that the kernel reports for an active zone.
struct Seen {
    groups: ZoneCgroups,
    usage: Usage,
    /// Limits and use of System V IPC objects, which only processes of the zone see. Only root can
    /// read these numbers.
    ipc: Option<model::controls::IpcLimits>,
    process: Controls,
}

impl Seen {
    fn of(known: &Runtime) -> Option<Self> {
        let groups = ZoneCgroups::from_paths(&known.cgroups)?;
        let pidfd = pidfd_open(Pid::from_raw(known.init.pid)?, PidfdFlags::empty()).ok()?;
        if !known.init.is_alive() {
            return None;
        }
        let first = First {
            pid: known.init.pid,
            pidfd: pidfd.as_fd(),
            owner: known.first_id,
        };
        Some(Self {
            usage: groups.read(),
            groups,
            ipc: limits::usage::ipc(first).ok(),
            process: limits::process::effective(first, &known.controls),
        })
    }

    fn fill(&self, control: Control, asked: &Controls, row: &mut Row) {
        let (usage, events) = (&self.usage, &self.usage.events);
        let ipc = self.ipc.unwrap_or_default();
        (row.used, row.hits) = match control {
            Control::CpuCap => (None, Some(events.cpu_throttled)),
            Control::CpuShares | Control::DedicatedCpu | Control::Pool | Control::IoPriority => {
                (None, None)
            }
            Control::MaxPhysicalMemory => (usage.memory, Some(events.oom_kills)),
            Control::MaxSwap => {
                let swap = usage.swap.unwrap_or_default();
                (
                    usage.memory.map(|memory| memory + swap),
                    Some(events.swap_full),
                )
            }
            Control::MaxLockedMemory => (self.groups.locked(), None),
            Control::MaxLwps => (usage.lwps, Some(events.lwps_refused)),
            Control::MaxProcesses => (Some(self.groups.processes()), None),
            Control::MaxShmMemory => (ipc.shm_memory, None),
            Control::MaxShmIds => (ipc.shm_ids, None),
            Control::MaxMsgIds => (ipc.msg_ids, None),
            Control::MaxSemIds => (ipc.sem_ids, None),
        };
        let limits = &usage.limits;
        row.effective = match (control, &limits.dedicated_cpu, &limits.pool) {
            (Control::DedicatedCpu, Some(cpus), _) => Some(cpus.to_string()),
            (Control::Pool, _, Some(pool)) => pool.wanted.as_ref().map(ToString::to_string),
            // The kernel has one common limit for processes and LWPs. The boot has reported which
            // control sets it.
            (Control::MaxProcesses, ..)
                if asked.max_processes.is_none() || asked.max_lwps.is_some() =>
            {
                None
            }
            (Control::MaxLwps, ..) if asked.max_lwps.is_none() => None,
            // Without swap space the kernel has one common limit for memory and swap.
            (Control::MaxSwap, ..) if asked.swap.is_none() => None,
            _ => {
                let number = limits.get(control).or_else(|| self.process.get(control));
                number.map(|number| number.to_string())
            }
        };
    }
}
