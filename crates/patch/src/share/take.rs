//! Makes the two zones whose package managers ran use the shared layer, too.
//!
//! The results of the two are the same except for logs and caches, of which each zone keeps its own.
//! Afterwards all zones of the group have a layer in common again, so that they can share the next
//! patch, and the disk holds this patch once.

use std::path::Path;

use host::{Error, Host};
use model::{Config, State};
use storage::{Dataset, Name};
use subject::Subject;
use zone::{environments, job};

use super::{Seen, Shared, is_noise, topmost};
use crate::record::Phase;
use crate::recover::{self, look};
use crate::transaction::{self, Patch};

/// A patched zone whose lock is held.
struct Patched {
    subject: Box<Subject>,
    dataset: Dataset,
    config: Config,
}

impl Patched {
    fn open(host: &Host, seen: &Seen) -> Result<Self, Error> {
        let subject = transaction::admit(host, &seen.zone)?;
        recover::zone(host, &subject)?;
        Ok(Self {
            dataset: Dataset::open(&subject.zonepath)?,
            config: subject.config(host)?,
            subject,
        })
    }

    /// Returns true if the zone has its result as the patch left it: as the unchanged root of the
    /// halted zone, or as the boot environment that its next boot will use.
    fn is_as_left(&self, seen: &Seen) -> Result<bool, Error> {
        let as_left = match &seen.environment {
            Some(name) => {
                let (active, next) = environments::marked(&self.subject.zonepath)?;
                active != *name && next.as_ref() == Some(name)
            }
            None => {
                environments::marked(&self.subject.zonepath)?.1.is_none()
                    && self.subject.state == State::Installed
                    && self.dataset.is_untouched()?
            }
        };
        if !as_left {
            return Ok(false);
        }
        let topmost = topmost(&self.dataset, seen.environment.as_ref())?;
        Ok(topmost.as_ref() == Some(&seen.witness.tree))
    }
}

impl Shared {
    /// Makes a patched zone use the shared layer instead of its own result. Returns false, and changes
    /// nothing, if the zone was used in the meantime, or if its packages would differ. After a crash,
    /// the zone uses either its own result or the layer.
    ///
    /// # Errors
    /// Fails if a step fails. The zone then keeps its own result.
    pub fn take_in(&self, patch: &Patch<'_>, seen: &Seen) -> Result<bool, Error> {
        let zone = Patched::open(patch.host, seen)?;
        if !zone.is_as_left(seen)? {
            return Ok(false);
        }
        if zone.subject.state == State::Installed {
            job::settle(patch.host, &zone.subject)?;
        }
        // If the next steps are interrupted, the zone loses no file.
        let journal = patch.begin(&zone.subject, "", Phase::Working)?;
        let taken = match &seen.environment {
            Some(name) => self.replace_environment(patch, &zone, seen, name, &journal.copy),
            None => self.replace_root(patch, &zone, &journal.copy),
        };
        recover::zone(patch.host, &zone.subject)?;
        taken
    }

    /// Makes a new root for a halted zone on the shared layer, and makes the zone use this root.
    fn replace_root(&self, patch: &Patch<'_>, zone: &Patched, copy: &Path) -> Result<bool, Error> {
        let dataset = &zone.dataset;
        let copy = dataset.clone_snapshot_to(&patch.snapshot()?, copy)?;
        copy.put_below(&Dataset::open(&self.place)?, &self.base)?;
        copy.add_part(dataset, &is_noise)?;
        if !self.is_right(patch, zone, &copy)? {
            return Ok(false);
        }
        // The contents of the files are already on disk, as in every other zone on this layer.
        dataset.take_over(&copy)?;
        dataset.settle(&patch.host.root.index())?;
        Ok(true)
    }

    /// Makes a new root on the shared layer, and makes it the content of the zone's boot environment.
    fn replace_environment(
        &self,
        patch: &Patch<'_>,
        zone: &Patched,
        seen: &Seen,
        name: &Name,
        copy: &Path,
    ) -> Result<bool, Error> {
        let dataset = &zone.dataset;
        let copy = dataset.clone_below(name, &seen.witness.tree, copy)?;
        copy.put_below(&Dataset::open(&self.place)?, &self.base)?;
        copy.add_part_of_snapshot(dataset, name, &is_noise)?;
        if !self.is_right(patch, zone, &copy)? {
            return Ok(false);
        }
        dataset.take_as_snapshot(name, &copy)?;
        dataset.settle(&patch.host.root.index())?;
        Ok(true)
    }

    fn is_right(&self, patch: &Patch<'_>, zone: &Patched, copy: &Dataset) -> Result<bool, Error> {
        let after = look(patch.host, &zone.config, copy)?;
        Ok(after.fingerprint == self.after && after.broken.is_empty())
    }
}
