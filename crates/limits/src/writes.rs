//! Computes the writes for a change of controls, and their order. This module writes nothing.

use model::controls::{Control, Controls};

use crate::Warning;
use crate::knob::Knob;
use crate::place::{Place, Places};

/// A value to write for a control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// The name of the control.
    pub control: Control,
    /// The file of the control.
    pub place: Place,
    /// The value, in the unit of the control.
    pub value: Option<u64>,
}

/// Returns the writes that lead from the effective controls `old` to the controls `new`.
///
/// # Errors
/// Fails with the control that has no file on this host.
pub(crate) fn writes(
    places: &Places,
    old: &Controls,
    new: &Controls,
) -> Result<(Vec<Write>, Vec<Warning>), Control> {
    let mut list = List::default();
    list.add(Control::CpuCap, &places.cap, old.cpu_cap, new.cpu_cap)?;
    list.add(
        Control::CpuShares,
        &places.shares,
        old.cpu_shares,
        new.cpu_shares,
    )?;
    memory(places, old, new, &mut list)?;
    let control = match new.max_lwps.or(old.max_lwps) {
        Some(_) => Control::MaxLwps,
        None => Control::MaxProcesses,
    };
    list.add(control, &places.pids, threads(old), threads(new))?;
    list.add(
        Control::IoPriority,
        &places.io,
        old.io_priority,
        new.io_priority,
    )?;
    Ok((list.0, warnings(places, new)))
}

#[derive(Default)]
struct List(Vec<Write>);

impl List {
    fn add(
        &mut self,
        control: Control,
        place: &Option<Place>,
        old: Option<u64>,
        new: Option<u64>,
    ) -> Result<(), Control> {
        if old != new {
            self.0.push(Write {
                control,
                place: place.clone().ok_or(control)?,
                value: new,
            });
        }
        Ok(())
    }
}

/// Solaris' swap limit and that of v1 are the sum of memory and swap; v2 has two separate limits.
/// At no moment may the sum in v1 be less than the memory, so the order of the writes matters.
fn memory(places: &Places, old: &Controls, new: &Controls, list: &mut List) -> Result<(), Control> {
    let knob = places.swap.as_ref().map(|place| place.knob);
    let second = |controls: &Controls| match (knob, controls.swap, ram(controls)) {
        (Some(Knob::SwapMax), Some(sum), Some(ram)) => Some(sum - ram),
        // If this host has no file for the limit on swap, no value is written, and `warnings`
        // returns a warning.
        (None, ..) => None,
        (_, sum, _) => sum,
    };
    let control = match new.physical.or(old.physical) {
        Some(_) => Control::MaxPhysicalMemory,
        None => Control::MaxSwap,
    };
    let more = new.swap.unwrap_or(u64::MAX) >= old.swap.unwrap_or(u64::MAX);
    if more {
        list.add(Control::MaxSwap, &places.swap, second(old), second(new))?;
    }
    list.add(control, &places.memory, ram(old), ram(new))?;
    if !more {
        list.add(Control::MaxSwap, &places.swap, second(old), second(new))?;
    }
    Ok(())
}

/// Returns the limit on memory alone. A zone with a limited sum cannot use more memory than the
/// sum. If only the sum is limited, v2 gets this limit for memory, and no swap.
fn ram(controls: &Controls) -> Option<u64> {
    match (controls.physical, controls.swap) {
        (Some(ram), Some(sum)) => Some(ram.min(sum)),
        (ram, sum) => ram.or(sum),
    }
}

/// Returns the limit on threads. A limit on processes becomes a limit on threads, because Linux
/// cannot limit only processes.
fn threads(controls: &Controls) -> Option<u64> {
    controls.max_lwps.or(controls.max_processes)
}

fn warnings(places: &Places, new: &Controls) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |control, text: &str| {
        warnings.push(Warning {
            control,
            text: text.to_owned(),
        });
    };
    match (new.max_lwps, new.max_processes) {
        (None, Some(_)) => warn(
            Control::MaxProcesses,
            "Linux counts every thread of a process",
        ),
        (Some(lwps), Some(processes)) if processes < lwps => warn(
            Control::MaxProcesses,
            "it has no effect: Linux counts threads, and zone.max-lwps limits those",
        ),
        _ => {}
    }
    if new.swap.is_some() && places.swap.is_none() {
        warn(
            Control::MaxSwap,
            "this kernel does not account swap space: only memory is limited",
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(v2: bool) -> Places {
        let place = |list: &[Knob]| {
            let knob = *list.iter().find(|knob| knob.is_v2() == v2).unwrap();
            Some(Place {
                knob,
                path: knob.file().into(),
                unit: crate::knob::usual(knob),
                v2: None,
            })
        };
        Places {
            cap: place(Knob::CAP),
            shares: place(Knob::SHARES),
            memory: place(Knob::MEMORY),
            swap: place(Knob::SWAP),
            pids: place(Knob::PIDS),
            io: place(Knob::IO),
        }
    }

    /// Returns the writes as "file=text".
    fn plan(v2: bool, old: &Controls, new: &Controls) -> Vec<String> {
        let (writes, _) = writes(&places(v2), old, new).unwrap();
        writes
            .iter()
            .map(|write| {
                let place = &write.place;
                format!("{}={}", place.knob.file(), place.text(write.value))
            })
            .collect()
    }

    fn memory(physical: Option<u64>, swap: Option<u64>) -> Controls {
        Controls {
            physical,
            swap,
            ..Controls::default()
        }
    }

    #[test]
    fn only_changed_controls_are_written() {
        let none = Controls::default();
        let controls = Controls {
            cpu_cap: Some(150),
            cpu_shares: Some(3),
            max_lwps: Some(100),
            ..none.clone()
        };
        assert_eq!(
            plan(true, &none, &controls),
            ["cpu.max=150000 100000", "cpu.weight=300", "pids.max=100"]
        );
        assert_eq!(
            plan(false, &none, &controls),
            ["cpu.cfs_quota_us=150000", "cpu.shares=3072", "pids.max=100"]
        );
        let less = Controls {
            max_lwps: None,
            ..controls.clone()
        };
        assert_eq!(plan(true, &controls, &less), ["pids.max=max"]);
        assert!(plan(true, &controls, &controls).is_empty());
    }

    #[test]
    fn swap_is_the_sum() {
        let none = Controls::default();
        assert_eq!(
            plan(true, &none, &memory(Some(100), Some(300))),
            ["memory.max=100", "memory.swap.max=200"]
        );
        assert_eq!(
            plan(true, &none, &memory(None, Some(300))),
            ["memory.max=300", "memory.swap.max=0"]
        );
        assert_eq!(
            plan(true, &none, &memory(Some(300), Some(100))),
            ["memory.max=100", "memory.swap.max=0"]
        );
        assert_eq!(
            plan(
                true,
                &memory(Some(100), Some(300)),
                &memory(Some(100), None)
            ),
            ["memory.swap.max=max"]
        );
    }

    /// Applies the writes and checks the rule of v1: the memory limit is never above the sum.
    #[test]
    fn cgroup_v1_accepts_every_order_of_memory_writes() {
        let sizes = [None, Some(100), Some(200), Some(300)];
        let mut all = Vec::new();
        for ram in sizes {
            for sum in sizes {
                all.push(memory(ram, sum));
            }
        }
        for old in &all {
            for new in &all {
                let of = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
                let (mut limit, mut sum) = (of(ram(old)), of(old.swap));
                for write in writes(&places(false), old, new).unwrap().0 {
                    match write.place.knob {
                        Knob::V1Memory => limit = of(write.value),
                        _ => sum = of(write.value),
                    }
                    assert!(limit <= sum, "{old:?} to {new:?}: {write:?}");
                }
                assert_eq!((limit, sum), (of(ram(new)), of(new.swap)));
            }
        }
    }

    #[test]
    fn processes_are_approximated_and_that_is_said() {
        let of = |max_lwps, max_processes| Controls {
            max_lwps,
            max_processes,
            ..Controls::default()
        };
        let none = Controls::default();
        assert_eq!(plan(true, &none, &of(None, Some(50))), ["pids.max=50"]);
        assert_eq!(plan(true, &none, &of(Some(90), Some(50))), ["pids.max=90"]);
        let said = |controls: &Controls| writes(&places(true), &none, controls).unwrap().1.len();
        assert_eq!(said(&of(None, Some(50))), 1);
        assert_eq!(said(&of(Some(90), Some(50))), 1);
        assert_eq!(said(&of(Some(50), Some(50))), 0);
    }

    #[test]
    fn a_control_without_a_place_is_named() {
        let nowhere = Places::default();
        let none = Controls::default();
        let cap = Controls {
            cpu_cap: Some(1),
            ..none.clone()
        };
        assert_eq!(writes(&nowhere, &none, &cap), Err(Control::CpuCap));
        assert_eq!(
            writes(&nowhere, &none, &memory(None, Some(1))),
            Err(Control::MaxSwap)
        );
        assert_eq!(writes(&nowhere, &none, &none), Ok((vec![], vec![])));
    }
}
