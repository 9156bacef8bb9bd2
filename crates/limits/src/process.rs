//! Sets controls that are limits of processes, not of control groups.

use std::os::fd::BorrowedFd;
use std::{fs, io};

use model::controls::{Control, Controls};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::changed::{Applied, Changed, Warning};
use crate::groups::processes;
use crate::{Base, Error, ZoneCgroups, ipc};

/// The first process of a zone, whose namespaces and limits are those of the zone.
#[derive(Clone, Copy, Debug)]
pub struct First<'a> {
    /// The pid of the process in the caller's /proc.
    pub pid: i32,
    /// A pidfd of the process.
    pub pidfd: BorrowedFd<'a>,
    /// The user id, on the host, of the zone's root.
    pub owner: u32,
}

/// Changes all controls of a zone that has a first process, ready or running. Only the zone's
/// zoneadmd calls this function, because only zoneadmd has the complete list of the zone's groups.
///
/// `old` has the zone's present controls (of the boot, or of the last change) and `new` the
/// requested ones. Only differences are written, so the call does nothing if `old` and `new` are
/// equal. After an error, the zone has its former controls, except for [`Error::NotUndone`]. On
/// success [`Changed::applied`] has every control of `new` with its effective value (report it if
/// [`Applied::is_exact`] is false), and [`Changed::warnings`] has the differences between Linux and
/// Solaris. Afterwards the caller stores
///
/// - `cgroups.paths()` as the runtime's `cgroups`, also after an error, because the list may be
///   longer now;
/// - `new` as the present controls of the zone.
///
/// The caller must be root of the host, in the host's namespaces. The caller may have threads.
///
/// # Errors
/// Fails with the errors of [`ZoneCgroups::change`], and with [`Error::Process`].
pub fn change_zone(
    cgroups: &mut ZoneCgroups,
    base: &Base,
    first: First<'_>,
    old: &Controls,
    new: &Controls,
) -> Result<Changed, Error> {
    let mut changed = cgroups.change(base, old, new)?;
    match change(cgroups, first, old, new) {
        Ok(more) => {
            changed.extend(more);
            Ok(changed)
        }
        Err(error) => Err(match cgroups.change(base, new, old) {
            Ok(_) => error,
            Err(also) => Error::NotUndone {
                source: Box::new(error),
                left: crate::flatten(&also),
            },
        }),
    }
}

/// Changes the limits on locked memory and on IPC. With an empty `old`, sets the limits of a zone
/// whose first process is new.
///
/// # Errors
/// Fails with [`Error::Process`]. Earlier changes are undone.
pub fn change(
    cgroups: &ZoneCgroups,
    first: First<'_>,
    old: &Controls,
    new: &Controls,
) -> Result<Changed, Error> {
    let mut changed = Changed::default();
    if old.locked != new.locked {
        lock_at_most(cgroups, first, new.locked)?;
    }
    match ipc::change(cgroups, first, &old.ipc, &new.ipc) {
        Ok(more) => changed.extend(more),
        Err(error) => {
            if old.locked != new.locked {
                // This undo may fail, because a hard limit can be raised only with a privilege. The
                // error of the undo is ignored, because the error of the change is returned.
                let _ = lock_at_most(cgroups, first, old.locked);
            }
            return Err(error);
        }
    }
    if let Some(requested) = new.locked {
        changed.warnings.push(Warning {
            control: Control::MaxLockedMemory,
            text: "Linux limits the locked memory of each process, not of the zone".to_owned(),
        });
        changed.applied.push(Applied {
            control: Control::MaxLockedMemory,
            requested,
            effective: locked(first.pid),
        });
    }
    Ok(changed)
}

/// Returns the effective values of the controls that are set.
#[must_use]
pub fn effective(first: First<'_>, set: &Controls) -> Controls {
    Controls {
        locked: set.locked.and_then(|_| locked(first.pid)),
        ipc: ipc::effective(first, &set.ipc).unwrap_or_default(),
        ..Controls::default()
    }
}

/// Limits the locked memory of each process of the zone. Child processes inherit the limit, and the
/// zone's root cannot raise it. `None` sets the caller's own limit.
fn lock_at_most(cgroups: &ZoneCgroups, first: First<'_>, bytes: Option<u64>) -> Result<(), Error> {
    let limit = match bytes {
        Some(bytes) => Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        },
        None => getrlimit(Resource::Memlock),
    };
    let write = |pid| prlimit(Some(pid), Resource::Memlock, limit).map(drop);
    let set = |pid: i32| -> io::Result<()> {
        let Some(pid) = Pid::from_raw(pid) else {
            return Ok(());
        };
        match write(pid) {
            // Without CAP_SYS_RESOURCE, as in a container, only the owner of the zone's user
            // namespace may change the limit.
            Err(rustix::io::Errno::PERM) => {
                let done = sys::idmap::with_effective_user(first.owner, || write(pid));
                Ok(done.map_err(io::Error::other)??)
            }
            other => Ok(other?),
        }
    };
    set(first.pid).map_err(|error| Error::Process {
        control: Control::MaxLockedMemory,
        why: error.to_string(),
    })?;
    for pid in processes(cgroups.v2()) {
        // The process may have ended.
        let _ = set(pid);
    }
    Ok(())
}

fn locked(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
