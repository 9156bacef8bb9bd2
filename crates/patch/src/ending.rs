//! Ends a transaction: writes the entry of the history, and removes the copy and the journal.

use host::{Error, Host};
use storage::{Dataset, Name};
use subject::Subject;
use zone::job;

use crate::record;
use crate::record::{Entry, Journal};

/// The result of a transaction for its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The zone is unchanged.
    Old,
    /// The zone was patched in place and failed. Its next boot uses the snapshot from before the
    /// patch.
    Back,
    /// The zone is patched.
    New(Box<Entry>),
}

/// Ends a transaction whose zone has its final state. The journal is removed last. If this process
/// is killed before that, the next command repeats these steps.
///
/// # Errors
/// Fails if a file cannot be written or removed. The next call tries again.
pub(crate) fn finish(
    host: &Host,
    subject: &Subject,
    dataset: &Dataset,
    journal: &Journal,
    end: &End,
) -> Result<(), Error> {
    let path = record::journal_of(&host.root, &subject.entry);
    // The removal of the journal is durable at once, but links and renames in the zonepath are not,
    // so they are synced first.
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

fn forget_snapshot(dataset: &Dataset, name: &str) -> Result<(), Error> {
    let known = dataset.snapshots()?;
    match known.iter().find(|one| one.name.as_str() == name) {
        Some(one) => Ok(dataset.destroy_snapshot(&one.name)?),
        None => Ok(()),
    }
}

/// Returns the text as the name of a snapshot.
///
/// # Errors
/// Fails if the text is not a legal name of a snapshot.
pub(crate) fn name(text: &str) -> Result<Name, Error> {
    text.parse()
        .map_err(|error: storage::BadName| Error::Refused(error.to_string()))
}
