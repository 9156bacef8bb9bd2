//! Cleans up after a crash: each zone gets its former or its patched root, and copies are removed.

use host::{Error, Host};
use model::{Config, State};
use storage::{Dataset, Name};
use subject::Subject;
use zone::{environments, job};

use crate::ending::{End, finish, name};
use crate::inventory::Inventory;
use crate::record::{History, Journal, Phase, Standing};
use crate::{environment, inventory, record};

/// Cleans up after the transaction of a zone. The caller holds the lock of the zone. Returns how
/// the transaction ended, or `None` if the zone had none.
///
/// # Errors
/// Fails if a file or layer cannot be removed. The next call tries again.
pub fn zone(host: &Host, subject: &Subject) -> Result<Option<End>, Error> {
    let path = record::journal_of(&host.root, &subject.entry);
    let Some(journal) = record::load::<Journal>(&path)? else {
        return Ok(None);
    };
    job::clear(host, &subject.entry.name, subject.state)?;
    let dataset = Dataset::open(&subject.zonepath)?;
    let end = match &journal.phase {
        Phase::Working => {
            stay(subject, &journal)?;
            End::Old
        }
        Phase::Switching { tree, entry } => match dataset.stack()?.lowers.contains(tree) {
            true => End::New(entry.clone()),
            false => End::Old,
        },
        Phase::Verifying {
            tree,
            entry,
            fingerprint,
        } => {
            let is_new = dataset.stack()?.lowers.contains(tree);
            let name = name(&journal.snapshot)?;
            match is_new && shared(host, subject, &dataset, &name, fingerprint)? {
                true => End::New(entry.clone()),
                false => End::Old,
            }
        }
        Phase::Environment { tree, entry } => {
            let name = name(&journal.snapshot)?;
            match environment::recover(subject, &dataset, &name, tree)? {
                true => End::New(entry.clone()),
                false => End::Old,
            }
        }
        Phase::Live => live(host, subject, &dataset, &journal)?,
    };
    finish(host, subject, &dataset, &journal, &end)?;
    Ok(Some(end))
}

/// Makes the next boot of the zone use the present root, if it was set to use the snapshot of this
/// transaction.
pub(crate) fn stay(subject: &Subject, journal: &Journal) -> Result<(), Error> {
    match environments::marked(&subject.zonepath)? {
        (_, Some(next)) if next.as_str() == journal.snapshot => environments::choose(subject, None),
        _ => Ok(()),
    }
}

/// Ends a patch in place after a crash. If the history has an entry for the patch, the zone stays
/// patched. Otherwise the next boot returns the zone to the snapshot from before the patch.
fn live(
    host: &Host,
    subject: &Subject,
    dataset: &Dataset,
    journal: &Journal,
) -> Result<End, Error> {
    let path = record::history_of(&host.root, &subject.entry);
    let history: History = record::load(&path)?.unwrap_or_default();
    let entry = history.entries.into_iter();
    let entry = entry.rev().find(|one| one.patch == journal.patch);
    let (active, next) = environments::marked(&subject.zonepath)?;
    if active.as_str() == journal.snapshot {
        // The zone has booted into its snapshot.
        if entry.is_some() {
            record::change(&host.root, &subject.entry, |history| {
                for entry in &mut history.entries {
                    if entry.patch == journal.patch {
                        entry.standing = Standing::RolledBack;
                    }
                }
            })?;
        }
        return Ok(End::Old);
    }
    if let Some(entry) = entry {
        stay(subject, journal)?;
        return Ok(End::New(Box::new(entry)));
    }
    let known = dataset.snapshots()?;
    let Some(snapshot) = known
        .iter()
        .find(|one| one.name.as_str() == journal.snapshot)
    else {
        return Ok(End::Old);
    };
    // An administrator may have chosen another boot environment since the crash: then that choice
    // stays.
    if next.is_none() {
        environments::choose(subject, Some(&snapshot.name))?;
    }
    Ok(End::Back)
}

pub(crate) fn look(host: &Host, config: &Config, dataset: &Dataset) -> Result<Inventory, Error> {
    job::look(host, config, &dataset.stack()?, inventory::read)
}

/// Keeps a zone on a shared layer if its packages are as expected. Otherwise, and also if its
/// packages cannot be read, returns the zone to its former layers.
pub(crate) fn keep_or_go_back(
    dataset: &Dataset,
    name: &Name,
    after: Result<Inventory, Error>,
    wanted: &str,
) -> Result<bool, Error> {
    let is_right = after
        .as_ref()
        .is_ok_and(|after| after.fingerprint == wanted && after.broken.is_empty());
    if !is_right {
        dataset.rollback(name)?;
    }
    after.map(|_| is_right)
}

/// Decides, after a crash, if a zone stays on a shared layer. Returns true if it stays.
fn shared(
    host: &Host,
    subject: &Subject,
    dataset: &Dataset,
    name: &Name,
    wanted: &str,
) -> Result<bool, Error> {
    // The zone has been booted since and may have written files, so it keeps the layer.
    if subject.state != State::Installed {
        return Ok(true);
    }
    // A zone whose packages cannot be read counts as not patched.
    let after = look(host, &subject.config(host)?, dataset).unwrap_or_default();
    keep_or_go_back(dataset, name, Ok(after), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_cannot_be_inspected_is_rolled_back() {
        let found = |fingerprint: &str| Inventory {
            fingerprint: fingerprint.to_owned(),
            ..Inventory::default()
        };
        let name: Name = "patch-x".parse().unwrap();
        let unknown = || Error::Refused("cannot be looked at".to_owned());
        for (after, outcome, word) in [
            (Ok(found("right")), Some(true), "new"),
            (Ok(found("wrong")), Some(false), "old"),
            (Err(unknown()), None, "old"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("web");
            let dataset = Dataset::create(&path).unwrap();
            std::fs::write(path.join("root/word"), "old").unwrap();
            dataset.snapshot(&name).unwrap();
            std::fs::write(path.join("root/word"), "new").unwrap();
            let kept = keep_or_go_back(&dataset, &name, after, "right");
            assert_eq!(kept.ok(), outcome);
            let stack = dataset.stack().unwrap();
            let mut trees = std::iter::once(stack.top).chain(stack.lowers);
            let is = trees.find_map(|tree| std::fs::read_to_string(tree.join("word")).ok());
            assert_eq!(is.unwrap(), word);
        }
    }
}
