//! Selects the snapshots of former patches that a zone keeps.

use host::Error;
use storage::Dataset;
use zone::environments;

use super::{Patch, Ready};
use crate::record::{self, History};

impl Patch<'_> {
    /// Removes the snapshots of the oldest patches, until no more are left than the zone keeps.
    pub(crate) fn thin_out(&self, dataset: &Dataset, ready: &Ready) -> Result<(), Error> {
        let (root, subject) = (&self.host.root, &ready.subject);
        let history: Option<History> = record::load(&record::history_of(root, &subject.entry))?;
        let history = history.unwrap_or_default();
        let (active, next) = environments::marked(&subject.zonepath)?;
        let mut old = Vec::new();
        for one in dataset.snapshots()? {
            let is_taken = one.name == active || Some(&one.name) == next.as_ref();
            if history.made(one.name.as_str())
                && !is_taken
                && !environments::is_in_use(subject, &one)?
            {
                old.push(one.name);
            }
        }
        old.truncate(old.len().saturating_sub(self.keep.max(1)));
        let mut gone = Vec::new();
        let removed = old.iter().try_for_each(|name| {
            dataset.destroy_snapshot(name)?;
            gone.push(name.as_str());
            Ok(())
        });
        if !gone.is_empty() {
            record::change(root, &subject.entry, |history| {
                for entry in &mut history.entries {
                    entry.snapshot.take_if(|name| gone.contains(&name.as_str()));
                }
            })?;
        }
        removed
    }
}
