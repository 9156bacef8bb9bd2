//! `zoneadm diff`: the changes between two moments of a zone.

use std::ops::ControlFlow;

use diff::{Done, Event, Moment, Proof};
use host::{Error, Host, flatten};
use model::{Verb, ZoneName};
use storage::{Stack, driver_at};

use super::{When, admit, stack};

/// Compares two moments of a zone, and passes each change to `tell`. The zone may run; a file that
/// changes during the comparison may count as changed or not.
///
/// # Errors
/// Fails with [`Error::Refused`] if a moment does not exist, or if it is removed during the
/// comparison.
pub fn changes(
    host: &Host,
    zone: &ZoneName,
    before: &When,
    after: &When,
    tell: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<Done, Error> {
    let subject = admit(host, zone, Verb::Diff)?;
    let before = moment(stack(&subject, before)?);
    let after = moment(stack(&subject, after)?);
    // The files of a ZFS file system have the same numbers in its snapshots.
    let proof = match driver_at(&subject.zonepath)?.has_layers() {
        true => Proof::Bytes,
        false => Proof::InodeAndChangeTime,
    };
    // A long comparison must not delay a halt.
    drop(subject);
    diff::compare(&before, &after, proof, tell).map_err(|error| Error::Refused(flatten(&error)))
}

fn moment(stack: Stack) -> Moment {
    let layers = std::iter::once(stack.top).chain(stack.lowers);
    Moment {
        layers: layers.collect(),
    }
}
