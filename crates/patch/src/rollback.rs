//! The way back: a zone as it was before a patch, byte for byte.

use model::{State, ZoneName};
use storage::driver_at;
use zone::job;
use zone::{Error, Host};

use crate::record::{self, History, Standing};
use crate::recover;
use crate::transaction;

/// Takes a halted zone back to what it was before a patch, by default the last one. What
/// was written since is lost. Returns the name of the patch.
///
/// # Errors
/// When it has no such patch, or its snapshot is gone.
pub fn zone(host: &Host, zone: &ZoneName, patch: Option<&str>) -> Result<String, Error> {
    let subject = transaction::admit(host, zone)?;
    recover::zone(host, &subject)?;
    if subject.state != State::Installed {
        return Err(Error::Refused(format!(
            "is {}; halt it first.",
            subject.state
        )));
    }
    let path = record::history_of(&host.root, &subject.entry);
    let history: History = record::load(&path)?.unwrap_or_default();
    let entries = history.entries.iter().enumerate().rev();
    let wanted = entries
        .clone()
        .find(|(_, one)| match patch {
            Some(name) => one.patch == name,
            None => one.standing == Standing::Applied,
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
    job::settle(host, &subject)?;
    let driver = driver_at(&subject.zonepath)?;
    driver.rollback(&subject.zonepath, &recover::name(snapshot)?)?;
    driver.settle(&subject.zonepath, &host.root.index())?;
    record::change(&host.root, &subject.entry, |history| {
        for entry in history.entries.iter_mut().skip(at) {
            if entry.standing == Standing::Applied {
                entry.standing = Standing::RolledBack;
            }
        }
    })?;
    Ok(entry.patch)
}
