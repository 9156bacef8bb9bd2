//! Returns a zone to its exact state before a patch.

use host::{Error, Host};
use model::{State, ZoneName};
use storage::driver_at;
use subject::Subject;
use zone::environments::{self, When};
use zone::job;

use crate::record::{self, Entry, Standing};
use crate::{ending, environment, recover, transaction};

/// Returns a zone to its state before a patch, by default the last patch. A halted zone loses its
/// later changes. A boot environment that the zone leaves keeps its changes. A running zone returns
/// by a boot, and only if `activate` gives the time of this boot. Returns the name of the patch.
///
/// # Errors
/// Fails if the zone has no such patch, or if the snapshot no longer exists.
pub fn zone(
    host: &Host,
    zone: &ZoneName,
    patch: Option<&str>,
    activate: Option<When>,
) -> Result<String, Error> {
    let subject = transaction::admit(host, zone)?;
    recover::zone(host, &subject)?;
    environment::remember(host, &subject.entry)?;
    let history = environment::history(host, &subject.entry)?;
    let entries = history.entries.iter().enumerate().rev();
    let wanted = entries
        .clone()
        .find(|(_, one)| match patch {
            Some(name) => one.patch == name,
            None => matches!(one.standing, Standing::Applied | Standing::Pending),
        })
        .map(|(at, one)| (at, one.clone()));
    let Some((at, entry)) = wanted else {
        return Err(Error::Refused(match patch {
            Some(name) => format!("has no patch {name}."),
            None => "has no patch to go back behind.".to_owned(),
        }));
    };
    let Some(snapshot) = &entry.snapshot else {
        return Err(Error::Refused(format!(
            "the snapshot before patch {} is gone.",
            entry.patch
        )));
    };
    let snapshot = ending::name(snapshot)?;
    let place = subject.entry.clone();
    match (&entry.environment, entry.standing, subject.state) {
        (Some(own), Standing::Pending, _) => {
            let own = ending::name(own)?;
            // No boot has used this boot environment, so it is destroyed.
            drop(subject);
            environments::activate(host, zone, &snapshot, When::NextBoot, false)?;
            environments::destroy(host, zone, &own, environments::By::Host, false)?;
        }
        (own, _, State::Running) => {
            let when = permitted(own.is_some(), activate)?;
            drop(subject);
            environments::activate(host, zone, &snapshot, when, false)?;
            if when == When::NextBoot {
                // The zone returns to the snapshot only at its next boot.
                return Ok(entry.patch);
            }
        }
        (Some(_), _, State::Installed) => {
            drop(subject);
            environments::activate(host, zone, &snapshot, When::Now, false)?;
        }
        (None, _, State::Installed) => halted(host, &subject, &snapshot)?,
        (_, _, state) => {
            return Err(Error::Refused(format!("is {state}; halt it first.")));
        }
    }
    record::change(&host.root, &place, |history| {
        for entry in history.entries.iter_mut().skip(at) {
            take_back(entry);
        }
    })?;
    Ok(entry.patch)
}

fn take_back(entry: &mut Entry) {
    if matches!(entry.standing, Standing::Applied | Standing::Pending) {
        entry.standing = Standing::RolledBack;
    }
}

/// Returns the time of the boot that returns a running zone to its snapshot. Fails if no time is
/// given.
fn permitted(environment: bool, activate: Option<When>) -> Result<When, Error> {
    match activate {
        Some(When::Now) => Ok(When::Now),
        Some(When::NextBoot) if environment => Ok(When::NextBoot),
        Some(When::NextBoot) => Err(Error::Refused(
            "was not patched in a boot environment, and goes back with a reboot (--activate=now) or when it is halted."
                .to_owned(),
        )),
        None => Err(Error::Refused(
            "is running; halt it first, or let it go back with a reboot (--activate=now)."
                .to_owned(),
        )),
    }
}

fn halted(host: &Host, subject: &Subject, snapshot: &storage::Name) -> Result<(), Error> {
    environment::refuse_pending(subject)?;
    job::settle(host, subject)?;
    let driver = driver_at(&subject.zonepath)?;
    driver.rollback(&subject.zonepath, snapshot)?;
    Ok(driver.settle(&subject.zonepath, &host.root.index())?)
}
