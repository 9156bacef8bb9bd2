//! The kinds of zones: containers, which share the host's kernel, and kernel zones, which are
//! guests.
//!
//! The verbs call [`of`] for the kind of a zone, and use the hooks of the kind. No verb has a
//! branch for one kind.
//!
//! | file | holds |
//! |---|---|
//! | `hooks` | the trait: every difference between the kinds |
//! | `container` | zones of the host's kernel |
//! | `machine` | kernel zones; the crate `kernelzone` does the work |

mod container;
mod hooks;
mod machine;

use model::brands::Family;
use model::{Config, Verb};

use host::{Error, Host};
use subject::Subject;

pub use hooks::{BootFacts, Entrance, InstallOptions, ResumeOptions, Sockets, ZoneKind};

/// Returns the kind of a configured zone.
#[must_use]
pub fn of(config: &Config) -> &'static dyn ZoneKind {
    match config.family() {
        Family::Kz => &machine::Machine,
        Family::Native | Family::Lx | Family::Global => &container::Container,
    }
}

/// Refuses a verb that the kind of this zone does not support.
///
/// # Errors
/// Fails with [`Error::Refused`] and the reason, or with [`Error::Store`] if the configuration of
/// the zone cannot be read.
pub fn admit(host: &Host, subject: &Subject, verb: Verb) -> Result<(), Error> {
    let config = subject.config(host)?;
    of(&config).admit(verb, &config)
}
