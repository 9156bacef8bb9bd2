//! Patches running zones in a new boot environment, which the next boot uses.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | journal: working | nothing of the zone has changed |
//! | snapshot of the running zone, and a clone of that | the old zone; the clone and the snapshot go |
//! | the package manager works in the clone, verify, sync | the same |
//! | journal: environment, with the sealed layer | the same |
//! | the snapshot gets the content of the clone | the old zone until it boots |
//! | **the next boot is to take it**; history; clone and journal go | the same |
//!
//! Files that the zone writes after the snapshot stay in the former boot environment, as with Live
//! Upgrade. Data that must not stay there belongs on separate file systems.

use host::{Error, Host, flatten};
use model::{State, ZoneName};
use storage::{Dataset, Name, driver_at};
use store::index::{Entry as Zone, Index};
use subject::Subject;
use zone::boot::{self, BootOptions};
use zone::environments::{self, When};
use zone::reboot;

use crate::ending;
use crate::record::{self, History, Standing};
use crate::transaction;

/// Fails if the next boot of the zone uses another root than the one that would be patched.
///
/// # Errors
/// The error names the root of the next boot.
pub(crate) fn refuse_pending(subject: &Subject) -> Result<(), Error> {
    match environments::marked(&subject.zonepath)? {
        (_, None) => Ok(()),
        (active, Some(next)) => Err(Error::Refused(format!(
            "its next boot takes boot environment {next}; boot that, or roll back or activate {active}, first."
        ))),
    }
}

/// Returns true if the boot environment `name` uses the layer with this tree.
fn holds(dataset: &Dataset, name: &Name, tree: &std::path::Path) -> Result<bool, Error> {
    if !dataset.snapshots()?.iter().any(|one| one.name == *name) {
        return Ok(false);
    }
    let stack = dataset.snapshot_stack(name)?;
    Ok(stack.top == tree || stack.lowers.iter().any(|one| one == tree))
}

/// Completes or undoes a patch that a crash interrupted. Returns true if the zone has the patch.
pub(crate) fn recover(
    subject: &Subject,
    dataset: &Dataset,
    name: &Name,
    tree: &std::path::Path,
) -> Result<bool, Error> {
    if holds(dataset, name, tree)? {
        environments::choose(subject, Some(name))?;
    } else if !dataset.stack()?.lowers.iter().any(|one| one == tree) {
        if environments::marked(&subject.zonepath)?.1.as_ref() == Some(name) {
            environments::choose(subject, None)?;
        }
        return Ok(false);
    }
    // The zone may also have been booted into the boot environment since then.
    Ok(true)
}

/// Returns the history of a zone, updated with the present state of its boot environments.
///
/// # Errors
/// Fails if the history cannot be read.
pub fn history(host: &Host, zone: &Zone) -> Result<History, Error> {
    let mut history: History =
        record::load(&record::history_of(&host.root, zone))?.unwrap_or_default();
    if history.entries.iter().any(|one| one.environment.is_some()) {
        let zonepath = host.root.path(&zone.zonepath);
        // A zone without a root has no boot environments.
        if let Ok(true) = driver_at(&zonepath).map(|driver| driver.has_layers()) {
            let (active, next) = environments::marked(&zonepath)?;
            let next = next.unwrap_or_else(|| active.clone());
            bring_up_to_date(&mut history, active.as_str(), next.as_str());
        }
    }
    Ok(history)
}

/// Records the present state of the boot environments in the history.
pub(crate) fn remember(host: &Host, zone: &Zone) -> Result<(), Error> {
    let path = record::history_of(&host.root, zone);
    let now = history(host, zone)?;
    match record::load::<History>(&path)? {
        Some(stored) if stored != now => record::save(&path, &now),
        _ => Ok(()),
    }
}

/// Only the last boot environment can have changed, because the command that makes a new one
/// records the state of all earlier ones.
fn bring_up_to_date(history: &mut History, active: &str, next: &str) {
    let mut entries = history.entries.iter_mut().rev();
    let Some((entry, own)) = entries.find_map(|entry| {
        let own = entry.environment.clone()?;
        Some((entry, own))
    }) else {
        return;
    };
    if entry.standing == Standing::TakenBack {
        return;
    }
    let former = entry.snapshot.as_deref();
    if active == own {
        entry.standing = Standing::Applied;
    } else if next == own {
        entry.standing = Standing::Pending;
    } else if former == Some(active) {
        entry.standing = Standing::RolledBack;
    } else if entry.standing == Standing::Pending {
        // The zone runs a boot environment that was made from this one, or the former one was
        // renamed. Both have the patch.
        entry.standing = Standing::Applied;
    }
}

/// The result of a reboot into a boot environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Booted {
    /// The zone runs with its patch.
    Rebooted,
    /// The zone was halted before the reboot, and stays halted. Its next boot uses the patch.
    Halted,
    /// The next boot of the zone was to use another boot environment, so it was not rebooted.
    Changed,
}

/// Reboots a zone into the boot environment `own` of its patch, unless it runs there already. Reboots
/// the zone back into `former` if the new one does not boot, or if its health command fails.
///
/// # Errors
/// Fails if the zone is not well with its patch. The zone then runs as before the patch, unless the
/// text of the error says otherwise.
pub(crate) fn boot_into(
    host: &Host,
    zone: &ZoneName,
    (own, former): (&str, &str),
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<Booted, Error> {
    transaction::wait_for_own_reboot(host, zone)?;
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    if subject::state(host, entry)?.0 == State::Installed {
        return Ok(Booted::Halted);
    }
    let (active, next) = environments::marked(&host.root.path(&entry.zonepath))?;
    let booted = match active.as_str() == own {
        // The zone was rebooted since its patch.
        true => Ok(()),
        false if next.is_none_or(|next| next.as_str() != own) => return Ok(Booted::Changed),
        false => reboot::reboot(host, zone, &BootOptions::default(), false).map(drop),
    };
    let (what, error) = match booted {
        Err(error @ Error::State(_)) => {
            return match subject::state(host, entry)?.0 {
                State::Installed => Ok(Booted::Halted),
                _ => Err(error),
            };
        }
        Err(error) => ("did not boot with the patch", error),
        Ok(()) => match check() {
            Err(error) => ("is not well with the patch", error),
            Ok(()) => return Ok(Booted::Rebooted),
        },
    };
    let why = flatten(&error);
    let former = ending::name(former)?;
    let back = environments::activate(host, zone, &former, When::Now, false)
        .and_then(|_| start_if_halted(host, zone));
    Err(Error::Refused(match back {
        Ok(()) => format!("{what}; the patch was undone: {why}"),
        Err(also) => format!(
            "{what}: {why}; and the zone could not be booted without the patch either: {}",
            flatten(&also)
        ),
    }))
}

fn start_if_halted(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let index = Index::load(&host.root)?;
    match subject::state(host, index.get(zone)?)? {
        (State::Installed, _) => boot::boot(host, zone, &BootOptions::default(), false).map(drop),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Order;
    use crate::record::{Entry, How};

    fn entry(own: Option<&str>, former: &str, standing: Standing) -> Entry {
        Entry {
            patch: own.unwrap_or("p").to_owned(),
            at: 0,
            order: Order::Upgrade,
            how: How::Environment,
            standing,
            snapshot: Some(former.to_owned()),
            environment: own.map(str::to_owned),
            packages: Vec::new(),
            services: Vec::new(),
            log: std::path::PathBuf::new(),
        }
    }

    #[test]
    fn a_patch_is_applied_when_its_boot_environment_is_booted() {
        use Standing::{Applied, Pending, RolledBack};
        for (active, next, before, after) in [
            ("initial", "b", Pending, Pending),
            ("b", "b", Pending, Applied),
            ("b", "initial", Applied, Applied),
            ("initial", "initial", Applied, RolledBack),
            ("initial", "initial", Pending, RolledBack),
            ("initial", "b", RolledBack, Pending),
            ("other", "other", Pending, Applied),
        ] {
            let mut history = History {
                entries: vec![
                    entry(Some("a"), "x", Applied),
                    entry(Some("b"), "initial", before),
                    entry(None, "patch-c", Applied),
                ],
            };
            bring_up_to_date(&mut history, active, next);
            assert_eq!(history.entries[1].standing, after, "{active} {next}");
            assert_eq!(history.entries[0].standing, Applied);
        }
    }
}
