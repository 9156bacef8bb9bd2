//! `zoneadm rollback`: takes the root of a halted zone back to a snapshot.

use model::{Verb, ZoneName};
use storage::Name;

use crate::executor::Outcome;
use crate::snapshot;
use host::{Error, Host};

/// Rolls a zone back; changes since the snapshot are lost. The snapshot and all others
/// stay, also younger ones.
///
/// # Errors
/// [`Error::Refused`] for a zone that is not halted, or has no such snapshot.
pub fn rollback(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    dry_run: bool,
) -> Result<Outcome, Error> {
    snapshot::act(host, zone, Verb::Rollback, name, dry_run, &mut |_| {})
}
