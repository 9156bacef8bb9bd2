//! The kinds of zones: containers, which share the host's kernel, and the machines of kernel zones.
//!
//! The verbs ask [`of`] for the kind of a zone and call its hooks. No verb has a branch for one
//! kind.
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

/// Refuses a verb that zones of the subject's kind do not have.
///
/// # Errors
/// [`Error::Refused`] with the reason; [`Error::Store`] if its configuration cannot be read.
pub fn admit(host: &Host, subject: &Subject, verb: Verb) -> Result<(), Error> {
    let config = subject.config(host)?;
    of(&config).admit(verb, &config)
}
