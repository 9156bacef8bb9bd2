//! Finds the leftover files of the transactions of all zones.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use host::{Error, Host, flatten};
use model::ZoneName;
use store::atomic;
use store::index::Index;
use subject::Subject;
use zone::job;

use crate::record::Journal;
use crate::{record, recover, transaction};

/// The prefix of host folders with package files that are mounted in zones.
pub const STAGED: &str = "files-";

/// Timeout for the jobs of killed commands to end.
const JOB_END_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between attempts to take a lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock of a zone. A job that is being killed may still hold this lock.
fn wait_for(host: &Host, zone: &ZoneName, end: Instant) -> Result<Box<Subject>, Error> {
    loop {
        match transaction::admit(host, zone) {
            Err(Error::Store(store::Error::Locked(_))) if Instant::now() < end => {
                std::thread::sleep(LOCK_POLL_INTERVAL);
            }
            other => return other,
        }
    }
}

/// Cleans up after all transactions. Waits for locked zones if `wanted` names them; `None` means
/// all zones. If one zone fails, the others are still cleaned up. Returns, for each zone with
/// leftovers, its name and a text. The caller holds the lock that only one zonepatch command has at
/// a time.
#[must_use]
pub fn all(host: &Host, wanted: Option<&[ZoneName]>) -> Vec<String> {
    let end = Instant::now() + JOB_END_TIMEOUT;
    let mut left = Vec::new();
    clear_asides(host);
    for entry in fs::read_dir(record::folder(&host.root))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(STAGED) {
            // The command that staged these packages no longer runs.
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

/// Removes unfinished journals and histories that killed commands left.
fn clear_asides(host: &Host) {
    // If the folder cannot be read, the caller's search for journals fails and reports this.
    let asides = atomic::left_aside(&record::folder(&host.root));
    for target in asides
        .iter()
        .flatten()
        .filter_map(|path| atomic::target_of(path))
    {
        atomic::remove_aside(&target);
    }
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
        // The zone may have been uninstalled since then.
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
            return recover::zone(host, &subject).map(drop);
        }
    }
    job::remove_copy(&journal.copy)?;
    Ok(atomic::remove(path)?)
}

#[cfg(test)]
mod tests {
    use store::Root;

    use super::*;

    #[test]
    fn a_journal_that_was_never_stored_goes_with_the_next_command() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Root::new(dir.path()), "/zones-that-nobody-has".into(), None);
        let folder = record::folder(&host.root);
        fs::create_dir_all(&folder).unwrap();
        // These names are what a kill between write and rename leaves: of a zone, and of a shared
        // layer.
        let names = [".zone-web.journal.new", "..patch-p-0.journal.new"];
        for name in names {
            fs::write(folder.join(name), "{").unwrap();
        }
        fs::write(folder.join("zone-web.history"), "{}").unwrap();
        assert_eq!(all(&host, None), [] as [&str; 0]);
        let left: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
        let left: Vec<_> = left.iter().map(fs::DirEntry::file_name).collect();
        assert_eq!(left, ["zone-web.history"]);
    }
}
