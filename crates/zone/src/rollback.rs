//! `zoneadm rollback`: returns the root of a halted zone to a snapshot.

use model::{Verb, ZoneName};
use storage::Name;

use crate::executor::Outcome;
use crate::snapshot;
use host::{Error, Host};

/// Returns the root of a zone to a snapshot. Changes since the snapshot are lost. All snapshots
/// stay, including later ones.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone is not halted or the snapshot does not exist.
pub fn rollback(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    dry_run: bool,
) -> Result<Outcome, Error> {
    snapshot::act(host, zone, Verb::Rollback, name, dry_run, &mut |_| {})
}
