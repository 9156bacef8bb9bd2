//! Gives a running zone the shared layer, in a boot environment for its next boot.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | journal: working | nothing of the zone has changed |
//! | snapshot of the running zone, and a clone of that | the old zone; the clone and the snapshot go |
//! | the layer is put below the clone's own layers; its packages are read | the same |
//! | journal: environment, with the shared layer | the same |
//! | the snapshot gets the content of the clone | the old zone until it boots |
//! | **the next boot is to take it**; history; clone and journal go | the same |

use std::path::PathBuf;

use host::Error;
use storage::Dataset;
use zone::environments;

use super::{Fared, Shared};
use crate::ending::End;
use crate::record::{self, Entry, How, Journal, Phase};
use crate::recover::{self, look};
use crate::transaction::{Done, Patch, Ready, Witness};

impl Shared {
    /// Gives a running zone a boot environment with the shared layer.
    pub(super) fn give_running(&self, patch: &Patch<'_>, ready: &Ready) -> Result<Fared, Error> {
        let subject = &ready.subject;
        let name = patch.environment()?;
        let journal = patch.begin(subject, name.as_str(), Phase::Working)?;
        match self.build(patch, ready, &journal) {
            Ok(Built::Ready(entry)) => {
                let warning = patch.leave(ready, &journal, &End::New(entry.clone()));
                let witness = Witness {
                    warning,
                    ..Witness::default()
                };
                let done = Done::Patched(entry, Box::new(witness));
                Ok(Fared::Patched(Box::new(done)))
            }
            Ok(Built::Unlike(why)) => {
                recover::zone(patch.host, subject)?;
                Ok(Fared::Unlike(why))
            }
            Err(error) => Ok(Fared::Patched(Box::new(patch.undo(subject, error)?))),
        }
    }

    fn build(&self, patch: &Patch<'_>, ready: &Ready, journal: &Journal) -> Result<Built, Error> {
        let (subject, dataset, host) = (&ready.subject, &ready.dataset, patch.host);
        let zone = &subject.entry.name;
        let name = patch.environment()?;
        patch.start(ready, &name)?;
        // The snapshot has all that the zone wrote until now.
        if let Some(why) = self.misfit(&dataset.snapshot_stack(&name)?.trees())? {
            return Ok(Built::Unlike(why));
        }
        let copy = dataset.clone_snapshot_to(&name, &journal.copy)?;
        copy.put_below(&Dataset::open(&self.place)?, &self.base)?;
        let after = look(host, &ready.config, &copy)?;
        if after.fingerprint != self.after || !after.broken.is_empty() {
            return Ok(Built::Unlike(
                "it did not come to the same packages".to_owned(),
            ));
        }
        let (packages, services) = (self.packages.clone(), self.services.clone());
        let mut entry = patch.entry(zone, How::Shared, packages, services);
        entry.log = PathBuf::new();
        patch.set_pending(&mut entry, subject, &name)?;
        let entry = Box::new(entry);
        let switching = Journal {
            phase: Phase::Environment {
                tree: self.tree.clone(),
                entry: entry.clone(),
            },
            ..journal.clone()
        };
        record::save(&record::journal_of(&host.root, &subject.entry), &switching)?;
        // The content of the files is on disk: that of the layer since the two zones were compared,
        // and that of the zone's own files since the snapshot.
        dataset.take_as_snapshot(&name, &copy)?;
        environments::choose(subject, Some(&name))?;
        Ok(Built::Ready(entry))
    }
}

/// The result of the steps for a running zone.
enum Built {
    /// The next boot of the zone uses the layer.
    Ready(Box<Entry>),
    /// The zone cannot use the layer, for this reason.
    Unlike(String),
}
