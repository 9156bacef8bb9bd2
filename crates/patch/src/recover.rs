//! What a crash left: each zone is the old one or the new one, and what was beside it goes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use host::{Error, Host, flatten};
use model::ZoneName;
use storage::{Dataset, Name};
use store::index::Index;
use subject::Subject;
use zone::job;

use crate::environment;
use crate::live;
use crate::record::{self, Entry, Journal, Phase};
use crate::share;
use crate::transaction;

/// What begins the names of folders with package files that zones are shown.
pub const STAGED: &str = "files-";

/// How a transaction ended for its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The zone is the old one.
    Old,
    /// It was patched in place, and its next boot takes the snapshot from before.
    Back,
    /// It is the new one.
    New(Box<Entry>),
}

/// Clears up after a transaction of a zone whose lock is held; says how that ended, if
/// there was one.
///
/// # Errors
/// When something cannot be removed; the next call tries again.
pub fn zone(host: &Host, subject: &Subject) -> Result<Option<End>, Error> {
    let path = record::journal_of(&host.root, &subject.entry);
    let Some(journal) = record::load::<Journal>(&path)? else {
        return Ok(None);
    };
    job::clear(host, &subject.entry.name, subject.state)?;
    let dataset = Dataset::open(&subject.zonepath)?;
    let end = match &journal.phase {
        Phase::Working => {
            live::stay(subject, &journal)?;
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
            match is_new && share::recover(host, subject, &dataset, &name, fingerprint)? {
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
        Phase::Live => live::recover(host, subject, &dataset, &journal)?,
    };
    finish(host, subject, &dataset, &journal, &end)?;
    Ok(Some(end))
}

/// Ends a transaction whose zone is what it is to be. The journal is the last to go: until
/// then whoever comes next does the same again.
///
/// # Errors
/// When something cannot be written or removed; the next call tries again.
pub(crate) fn finish(
    host: &Host,
    subject: &Subject,
    dataset: &Dataset,
    journal: &Journal,
    end: &End,
) -> Result<(), Error> {
    let path = record::journal_of(&host.root, &subject.entry);
    // The journal goes durably, which what was linked and renamed in the zonepath is not.
    dataset.settle(&path)?;
    if let End::New(entry) = end {
        record::add(&host.root, &subject.entry, (**entry).clone())?;
    }
    job::remove_copy(&journal.copy)?;
    if *end == End::Old {
        forget_snapshot(dataset, &journal.snapshot)?;
    }
    Ok(store::atomic::remove(&path)?)
}

/// How long jobs of commands that were killed may take to end.
const ENDING: Duration = Duration::from_secs(60);

/// Takes the zone's lock, which a job that is being killed may still hold.
fn wait_for(host: &Host, zone: &ZoneName, end: Instant) -> Result<Box<Subject>, Error> {
    loop {
        match transaction::admit(host, zone) {
            Err(Error::Store(store::Error::Locked(_))) if Instant::now() < end => {
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
}

/// How often a lock is tried.
const LOOK: Duration = Duration::from_millis(20);

fn forget_snapshot(dataset: &Dataset, name: &str) -> Result<(), Error> {
    let known = dataset.snapshots()?;
    match known.iter().find(|one| one.name.as_str() == name) {
        Some(one) => Ok(dataset.destroy_snapshot(&one.name)?),
        None => Ok(()),
    }
}

/// Clears up after all transactions, and waits for zones that are locked if they are
/// `wanted`; without names all are. What stands in the way of one is in no other's: a text
/// for each zone that still has something left, with its name. Whoever calls this holds the
/// lock that only one command at a time has.
#[must_use]
pub fn all(host: &Host, wanted: Option<&[ZoneName]>) -> Vec<String> {
    let end = Instant::now() + ENDING;
    let mut left = Vec::new();
    for entry in fs::read_dir(record::folder(&host.root))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(STAGED) {
            // Nobody is at work who needs them.
            let _ = storage::remove_tree(&path);
        }
        if path.extension().is_none_or(|kind| kind != "journal") {
            continue;
        }
        let journal = match record::load::<Journal>(&path) {
            Ok(Some(journal)) => journal,
            Ok(None) => continue,
            Err(error) => {
                left.push(flatten(&error));
                continue;
            }
        };
        if let Err(error) = one(host, &path, &journal, wanted, end) {
            let whose = match &journal.zone {
                Some(zone) => format!("zone '{zone}'"),
                None => path.display().to_string(),
            };
            left.push(format!(
                "{whose}: the leftovers of an interrupted patch could not be removed: {}",
                flatten(&error)
            ));
        }
    }
    left
}

fn one(
    host: &Host,
    path: &Path,
    journal: &Journal,
    wanted: Option<&[ZoneName]>,
    end: Instant,
) -> Result<(), Error> {
    if let Some(name) = &journal.zone {
        let index = Index::load(&host.root)?;
        let zone = name.parse::<ZoneName>().ok();
        // It may have been uninstalled since.
        let known = zone.filter(|zone| {
            let found = index.find(zone);
            found.is_some_and(|one| record::journal_of(&host.root, one) == *path)
        });
        if let Some(known) = known {
            let end = match wanted.is_none_or(|wanted| wanted.contains(&known)) {
                true => end,
                false => Instant::now(),
            };
            let subject = wait_for(host, &known, end)?;
            return self::zone(host, &subject).map(drop);
        }
    }
    job::remove_copy(&journal.copy)?;
    Ok(store::atomic::remove(path)?)
}

/// Clears up when the host has booted, before zones do, and returns what [`all`] does.
/// Nothing to do is the usual case.
///
/// # Errors
/// When a zonepatch is at work already.
pub fn at_boot(host: &Host) -> Result<Vec<String>, Error> {
    let is_journal = |entry: fs::DirEntry| {
        let path = entry.path();
        path.extension().is_some_and(|kind| kind == "journal")
    };
    let mut files = fs::read_dir(record::folder(&host.root))
        .into_iter()
        .flatten()
        .flatten();
    match files.any(is_journal) {
        // What a job that is being killed still holds is to be cleared up, too.
        true => crate::run::begin(host, None).map(|(_, left)| left),
        false => Ok(Vec::new()),
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
