//! The moments of a zone: its snapshots, which are its boot environments, and the present.
//!
//! | file | holds |
//! |---|---|
//! | this one | the layers of a moment |
//! | `changes` | `zoneadm diff`: the changes between two moments |
//! | `files` | `zoneadm files ls` and `cat`: files of a snapshot |
//! | `restore` | `zoneadm files restore`: takes files back into the zone |

pub mod changes;
pub mod files;
pub mod restore;

use std::fmt;

use host::{Error, Host};
use model::{Verb, ZoneName};
use platform::kind;
use storage::{Name, Stack, driver_at};
use subject::{Start, Subject};

use crate::environments;

/// A moment of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// A snapshot or boot environment.
    Named(Name),
    /// The present root, which a running zone changes.
    Present,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "{name}"),
            Self::Present => f.write_str("the present"),
        }
    }
}

/// Locks a zone whose moments a verb reads.
fn admit(host: &Host, zone: &ZoneName, verb: Verb) -> Result<Box<Subject>, Error> {
    let subject = match Subject::admit(host, zone, verb)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Err(Error::State(notice.to_owned())),
    };
    kind::admit(host, &subject, verb)?;
    Ok(subject)
}

/// Returns the layers of a moment. The name of the active boot environment stands for the present.
fn stack(subject: &Subject, when: &When) -> Result<Stack, Error> {
    let path = &subject.zonepath;
    let driver = driver_at(path)?;
    let When::Named(name) = when else {
        return Ok(driver.stack(path)?);
    };
    match driver.snapshot_stack(path, name) {
        Err(storage::Error::NoSnapshot { .. }) => {
            let is_active = driver.has_layers() && environments::marked(path)?.0 == *name;
            match is_active {
                true => Ok(driver.stack(path)?),
                false => Err(Error::Refused(format!(
                    "has no snapshot {name}; zoneadm snapshots lists them."
                ))),
            }
        }
        other => Ok(other?),
    }
}
