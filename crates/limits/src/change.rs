//! Sets and changes the controls of a zone's groups.

use std::fs;
use std::path::{Path, PathBuf};

use model::controls::{Control, Controls, Dedicated, Pool};

use crate::arrange::{self, Claim, KeptOff};
use crate::changed::{Applied, Changed, Warning};
use crate::groups::{make_v1, move_into};
use crate::knob::Knob;
use crate::place::{Place, Places, controller};
use crate::writes::{Write, writes};
use crate::{Base, CpuSet, Error, ZoneCgroups, balance, controllers, groups, shares};

/// An undo step: a file and its former value, or the CPUs that were claimed before.
enum Undo {
    Knob(Write),
    Cpus(Option<Box<Claim>>),
}

impl ZoneCgroups {
    /// Sets the controls of a zone whose groups are new.
    ///
    /// # Errors
    /// See [`ZoneCgroups::change`].
    pub fn set(&self, controls: &Controls) -> Result<Changed, Error> {
        self.shift(&Controls::default(), controls)
    }

    /// Changes the controls of a zone, running or not, from `old` to `new`.
    /// [`crate::process::change`] changes the controls of the first process (locked memory, IPC),
    /// and [`crate::change_zone`] changes the controls of the zone and of its first process.
    ///
    /// `old` has the current controls, and only differences are written. If a step fails, all
    /// earlier steps are undone, and the zone has its former controls. A memory limit is lowered
    /// only as far as the zone can free memory. If that is not enough, the call fails with
    /// [`Error::InUse`] and kills no process.
    ///
    /// A control in a v1 hierarchy in which the zone has no group makes a group there and moves the
    /// zone's processes into it. [`ZoneCgroups::paths`] is then longer than before, also after an
    /// error, and must be stored in the zone's runtime state. Therefore only the zone's zoneadmd
    /// changes a running zone.
    ///
    /// # Errors
    /// Fails with [`Error::Unsupported`] if this host has no place for a control, with
    /// [`Error::NoCpus`], [`Error::InUse`], with [`Error::Refused`] from the kernel, and with
    /// [`Error::NotUndone`] if the undo failed as well.
    pub fn change(
        &mut self,
        base: &Base,
        old: &Controls,
        new: &Controls,
    ) -> Result<Changed, Error> {
        self.extend(base, new)?;
        self.shift(old, new)
    }

    fn shift(&self, old: &Controls, new: &Controls) -> Result<Changed, Error> {
        let unsupported = |control| self.unsupported(control);
        if let (Some(shares), true) = (new.cpu_shares, old.cpu_shares != new.cpu_shares) {
            shares::make_room(self, shares)?;
        }
        let (list, mut warnings) = writes(&Places::find(self), old, new).map_err(unsupported)?;
        let mut undo = Vec::new();
        let mut done = list
            .into_iter()
            .try_for_each(|write| carry_out(&write, &mut undo));
        let claim = Claim::of(self.name(), new);
        if done.is_ok() && claim != Claim::of(self.name(), old) {
            done = arrange::claim(self, claim.clone())
                .map(|before| undo.push(Undo::Cpus(before.map(Box::new))));
        }
        if let Err(error) = done {
            return Err(self.take_back(undo, error));
        }
        if old.cpu_shares != new.cpu_shares {
            // The zone has its new controls, even if the next step fails.
            let _ = balance::rebalance(self);
        }
        warnings.extend(self.remark(new));
        let effective = self.effective();
        let applied = new.iter().filter_map(|(control, requested)| {
            controller(control)?;
            // The limit on threads is the effective one; see the warnings.
            if control == Control::MaxProcesses && new.max_lwps.is_some() {
                return None;
            }
            if matches!(control, Control::DedicatedCpu | Control::Pool) {
                let (_, set) = arrange::held(self)?;
                let number = set.len() as u64;
                return Some(Applied {
                    control,
                    // A CPU list or a pool gives the number of CPUs by its own length.
                    requested: requested.max(u64::from(requested == 0) * number),
                    effective: Some(number),
                });
            }
            Some(Applied {
                control,
                requested,
                effective: effective.get(control),
            })
        });
        Ok(Changed {
            applied: applied.collect(),
            warnings,
        })
    }

    /// Returns a warning about the CPUs that the zone has now, if one is needed.
    fn remark(&self, new: &Controls) -> Option<Warning> {
        let (control, text) = match (&new.dedicated_cpu, &new.pool) {
            (Some(_), _) if arrange::kept_off(self) == KeptOff::Everybody => return None,
            (Some(_), _) => (
                Control::DedicatedCpu,
                "no other zone runs on these CPUs, but processes of the host may".to_owned(),
            ),
            (None, Some(pool)) if pool.wanted.is_none() => (
                Control::Pool,
                format!(
                    "there is no pool {}: the zone shares the CPUs of all that have none of their own",
                    pool.name
                ),
            ),
            (None, Some(_)) => (
                Control::Pool,
                "no zone of another pool runs on these CPUs, but processes of the host may"
                    .to_owned(),
            ),
            (None, None) => return None,
        };
        Some(Warning { control, text })
    }

    fn name(&self) -> &str {
        // The v2 group of a zone has the name of the zone.
        self.v2
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }

    /// Returns the effective controls, as far as control groups hold them. Shares and priorities
    /// that are not set are 1.
    #[must_use]
    pub fn effective(&self) -> Controls {
        let places = Places::find(self);
        let read = |place: &Option<Place>| {
            let place = place.as_ref()?;
            place.value(&fs::read_to_string(&place.path).ok()?)
        };
        let physical = read(&places.memory);
        let second = read(&places.swap);
        let threads = read(&places.pids);
        let (own, pool) = match arrange::held(self) {
            Some((claim, set)) if claim.is_temporary() => (Some(set), None),
            Some((claim, set)) => (None, Some((claim, set))),
            None => (None, None),
        };
        let list = |set: CpuSet| Dedicated::Cpus(set.to_string());
        Controls {
            cpu_cap: read(&places.cap),
            cpu_shares: read(&places.shares),
            dedicated_cpu: own.map(list),
            pool: pool.map(|(claim, set)| Pool {
                name: claim.pool,
                wanted: Some(list(set)),
                importance: Some(claim.importance),
            }),
            physical,
            swap: match places.swap.as_ref().map(|place| place.knob) {
                Some(Knob::SwapMax) => physical.zip(second).map(|(ram, swap)| ram + swap),
                Some(_) => second,
                // Without swap space, the limit on memory and swap is a limit on memory.
                None => physical,
            },
            max_lwps: threads,
            max_processes: threads,
            io_priority: read(&places.io),
            ..Controls::default()
        }
    }

    /// Makes the groups that `controls` needs in further v1 hierarchies.
    fn extend(&mut self, base: &Base, controls: &Controls) -> Result<(), Error> {
        let Some(name) = self.v2.file_name() else {
            return Ok(());
        };
        let more: Vec<PathBuf> = base
            .needed(controls)
            .map(|path| path.join(name))
            .filter(|path| !self.v1.contains(path))
            .collect();
        for path in more {
            // In the cpuset hierarchy a group is made only when it is needed.
            if !groups::is_cpuset(&path) {
                make_v1(&path)?;
                move_into(&path, &self.v2)?;
            }
            self.v1.push(path);
        }
        Ok(())
    }

    pub(crate) fn unsupported(&self, control: Control) -> Error {
        let name = controller(control).unwrap_or("needed");
        let base = self.v2.parent().unwrap_or(&self.v2);
        let why = match controllers::hand_down(base, &[name]) {
            Err(error) => crate::flatten(&error),
            Ok(()) => format!(
                "the {name} controller is neither in cgroup v2 at {} nor mounted as v1",
                base.display()
            ),
        };
        Error::Unsupported {
            control,
            controller: name,
            why,
        }
    }

    fn take_back(&self, undo: Vec<Undo>, error: Error) -> Error {
        let mut left = Vec::new();
        for one in undo.into_iter().rev() {
            match one {
                Undo::Knob(write) => {
                    let path = &write.place.path;
                    let settled = write.place.settled();
                    let (place, _lock) = settled.unwrap_or_else(|_| (write.place.clone(), None));
                    if let Err(error) = fs::write(path, place.text(write.value)) {
                        left.push(format!("{}: {error}", path.display()));
                    }
                }
                Undo::Cpus(before) => {
                    if let Err(error) = arrange::claim(self, before.map(|claim| *claim)) {
                        left.push(crate::flatten(&error));
                    }
                }
            }
        }
        if left.is_empty() {
            error
        } else {
            Error::NotUndone {
                source: Box::new(error),
                left: left.join("; "),
            }
        }
    }
}

fn carry_out(write: &Write, undo: &mut Vec<Undo>) -> Result<(), Error> {
    let Write {
        control,
        place,
        value,
    } = write;
    let (place, _lock) = place.settled()?;
    let text = fs::read_to_string(&place.path).map_err(Error::file("read", &place.path))?;
    let before = Write {
        value: place.value(&text),
        ..write.clone()
    };
    if place.knob == Knob::MemoryMax {
        give_back(&place.path, *value)?;
    }
    let text = place.text(*value);
    match fs::write(&place.path, &text) {
        Ok(()) => {
            undo.push(Undo::Knob(before));
            Ok(())
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
            Err(Error::InUse {
                control: *control,
                wanted: value.unwrap_or_default(),
            })
        }
        Err(source) => Err(Error::Refused {
            control: *control,
            text,
            path: place.path.clone(),
            source,
        }),
    }
}

/// For a limit below the present use, v1 refuses the write and v2 kills processes. Therefore the
/// zone's memory is reclaimed first.
fn give_back(memory_max: &Path, limit: Option<u64>) -> Result<(), Error> {
    let group = memory_max.parent().unwrap_or(memory_max);
    let used = || -> u64 {
        let text = fs::read_to_string(group.join("memory.current")).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    };
    let Some(limit) = limit.filter(|limit| used() > *limit) else {
        return Ok(());
    };
    // The write fails if not all of the memory can be reclaimed, and on kernels before 5.19.
    let _ = fs::write(
        group.join("memory.reclaim"),
        (used().saturating_sub(limit)).to_string(),
    );
    if used() > limit {
        return Err(Error::InUse {
            control: Control::MaxPhysicalMemory,
            wanted: limit,
        });
    }
    Ok(())
}
