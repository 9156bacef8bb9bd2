//! Admits an operation on the boot environments of a zone.

use model::{State, Verb, ZoneName};
use storage::Dataset;

use super::dataset::open;
use super::marks::Marks;
use super::switch;
use crate::executor::Outcome;
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

/// The locked zone of an operation, or the outcome of an operation that has nothing to do.
pub(super) enum Admitted {
    Go(Box<Subject>, Dataset, Marks),
    Over(Outcome),
}

/// Locks the zone and opens its dataset. Completes a switch that a crash interrupted.
pub(super) fn admit(host: &Host, zone: &ZoneName) -> Result<Admitted, Error> {
    let subject = match Subject::admit(host, zone, Verb::Beadm)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Admitted::Over(Outcome::Already(notice))),
    };
    kind::admit(host, &subject, Verb::Beadm)?;
    let dataset = open(&subject.zonepath)?;
    let marks = Marks::at(&subject.zonepath);
    // An interrupted switch is completed only in a halted zone, because its root is not mounted.
    if subject.state == State::Installed {
        switch::complete(&subject.zonepath)?;
    }
    Ok(Admitted::Go(subject, dataset, marks))
}
