//! What a crash left: each zone is the old one or the new one, and what was beside it goes.

use std::fs;
use std::time::{Duration, Instant};

use model::ZoneName;
use storage::{Dataset, Name};
use store::index::Index;
use zone::job;
use zone::subject::Subject;
use zone::{Error, Host};

use crate::environment;
use crate::live;
use crate::record::{self, Journal, Phase};
use crate::transaction;

/// Clears up after a transaction of a zone whose lock is held; says whether there was one.
///
/// # Errors
/// When something cannot be removed; the next call tries again.
pub fn zone(host: &Host, subject: &Subject) -> Result<bool, Error> {
    let path = record::journal_of(&host.root, &subject.entry);
    let Some(journal) = record::load::<Journal>(&path)? else {
        return Ok(false);
    };
    job::clear(host, &subject.entry.name, subject.state)?;
    let dataset = Dataset::open(&subject.zonepath)?;
    let keeps_snapshot = match journal.phase {
        Phase::Working => false,
        Phase::Switching { tree, entry } => {
            let is_new = dataset.stack()?.lowers.contains(&tree);
            if is_new {
                dataset.settle(&host.root.index())?;
                record::add(&host.root, &subject.entry, *entry)?;
            }
            is_new
        }
        Phase::Environment { tree, entry } => {
            let name = name(&journal.snapshot)?;
            environment::recover(host, subject, &dataset, &name, &tree, *entry)?
        }
        // It needs the snapshot.
        Phase::Live => live::recover(subject, &dataset, &name(&journal.snapshot)?)?,
    };
    Dataset::destroy(&journal.copy)?;
    let _ = fs::remove_dir(&journal.copy);
    if !keeps_snapshot {
        forget_snapshot(&dataset, &journal.snapshot)?;
    }
    store::atomic::remove(&path)?;
    Ok(true)
}

/// How long a job of a command that was killed may take to end.
const ENDING: Duration = Duration::from_secs(60);

/// Takes the zone's lock, which a job that is being killed may still hold.
fn wait_for(host: &Host, zone: &ZoneName) -> Result<Box<Subject>, Error> {
    let end = Instant::now() + ENDING;
    loop {
        match transaction::admit(host, zone) {
            Err(Error::Store(store::Error::Locked(_))) if Instant::now() < end => {}
            other => return other,
        }
    }
}

fn forget_snapshot(dataset: &Dataset, name: &str) -> Result<(), Error> {
    let known = dataset.snapshots()?;
    match known.iter().find(|one| one.name.as_str() == name) {
        Some(one) => Ok(dataset.destroy_snapshot(&one.name)?),
        None => Ok(()),
    }
}

/// Clears up after all transactions. Whoever calls this holds the lock that only one
/// command at a time has.
///
/// # Errors
/// The first thing that could not be removed; all others are tried.
pub fn all(host: &Host) -> Result<usize, Error> {
    let folder = record::folder(&host.root);
    let (mut count, mut failed) = (0, None);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|kind| kind != "journal") {
            continue;
        }
        let cleared = record::load::<Journal>(&path).and_then(|journal| {
            let Some(journal) = journal else {
                return Ok(());
            };
            if let Some(name) = &journal.zone {
                let index = Index::load(&host.root)?;
                let zone = name.parse::<ZoneName>().ok();
                // It may have been uninstalled since.
                let known = zone.filter(|zone| {
                    let found = index.find(zone);
                    found.is_some_and(|one| record::journal_of(&host.root, one) == path)
                });
                if let Some(known) = known {
                    let subject = wait_for(host, &known)?;
                    return self::zone(host, &subject).map(drop);
                }
            }
            Dataset::destroy(&journal.copy)?;
            let _ = fs::remove_dir(&journal.copy);
            Ok(store::atomic::remove(&path)?)
        });
        match cleared {
            Ok(()) => count += 1,
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(count), Err)
}

/// Clears up when the host has booted, before zones do. Nothing to do is the usual case.
///
/// # Errors
/// See [`all`]; when a zonepatch is at work already.
pub fn at_boot(host: &Host) -> Result<(), Error> {
    let is_journal = |entry: fs::DirEntry| {
        let path = entry.path();
        path.extension().is_some_and(|kind| kind == "journal")
    };
    let mut files = fs::read_dir(record::folder(&host.root))
        .into_iter()
        .flatten()
        .flatten();
    match files.any(is_journal) {
        true => crate::run::begin(host).map(drop),
        false => Ok(()),
    }
}

/// The name of a snapshot, checked.
///
/// # Errors
/// For what cannot be one.
pub(crate) fn name(text: &str) -> Result<Name, Error> {
    text.parse()
        .map_err(|error: storage::BadName| Error::Refused(error.to_string()))
}
