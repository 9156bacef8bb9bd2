//! The zones service: starts and stops all zones when the host boots and shuts down.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | pure: makes jobs from the states of the zones |
//! | `start` | boots zones with the host, and cleans up after a crash |
//! | `stop` | all zones, in bounded time |

pub mod plan;
mod start;
mod stop;

use std::time::{Duration, Instant};

use model::{Config, ZoneName};
use store::index::{Entry, Index};
use store::{runtime, xml};

pub use plan::{Deed, Job, Known, Patience};
pub use start::{start, tidy};
pub use stop::{still_up, stop};

use crate::suspend;
use host::{Error, Host};
use subject::network::Records;

/// All zones of the index, and the zones whose state is unknown.
#[derive(Debug, Default)]
pub struct Survey {
    /// The zones on which the service can act, with their relevant properties.
    pub zones: Vec<Known>,
    /// Zones with damaged files, and the error of each.
    pub damaged: Vec<(ZoneName, Error)>,
}

/// The result of a job.
#[derive(Debug)]
pub enum End {
    /// The job succeeded, with these messages.
    Well(Vec<String>),
    /// The zone had the wanted state already, or reached it by another command.
    Already,
    /// The zone is down, but it was killed instead of stopped in order, with the reason.
    Forced(String),
    /// The job failed.
    Failed(Error),
}

impl End {
    /// Returns true if the wanted state was not reached.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// A job that has ended.
#[derive(Debug)]
pub struct Done {
    /// The job that has ended.
    pub job: Job,
    /// The result of the job.
    pub end: End,
    /// The duration of the job.
    pub took: Duration,
}

/// An event that the service reports while it works.
#[derive(Debug)]
pub enum Event {
    /// The job of this zone has begun.
    Begun(ZoneName),
    /// A job has ended.
    Done(Done),
}

/// A function that receives events from any thread.
pub type Tell<'a> = &'a (dyn Fn(Event) + Sync);

/// Returns the relevant properties of all zones of the index.
///
/// # Errors
/// Fails if the index cannot be read.
pub fn survey(host: &Host) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    for entry in Index::load(&host.root)?.entries() {
        match known(host, entry) {
            Ok(known) => survey.zones.extend(known),
            Err(error) => survey.damaged.push((entry.name.clone(), error)),
        }
    }
    Ok(survey)
}

/// Returns the properties of a zone that matter to the service; `None` for a zone that has just
/// been deleted.
fn known(host: &Host, entry: &Entry) -> Result<Option<Known>, Error> {
    let zone = &entry.name;
    let (state, runtime) = subject::state(host, entry)?;
    let config = match xml::load(&host.root, zone) {
        Ok(config) => config,
        Err(store::Error::NoSuchZone(_)) => return Ok(None),
        // Even if its configuration is damaged, a running zone must stop with the host.
        Err(_) if state.is_active() => Config::new(zone.clone()),
        Err(error) => return Err(error.into()),
    };
    let remains = match state.is_active() {
        true => false,
        false => {
            runtime::load_any(&host.root, zone)?.is_some() || Records::of(&host.root).has(zone)
        }
    };
    Ok(Some(Known {
        zone: zone.clone(),
        state,
        family: config.family(),
        autoboot: config.autoboot(),
        priority: config.boot_priority(),
        autoshutdown: config.autoshutdown(),
        suspended: suspend::is_suspended(host, entry, &config),
        orphaned: runtime.is_some_and(|runtime| !runtime.daemon.is_alive()),
        remains,
    }))
}

/// Carries out a job, and reports its begin and end as events.
fn told(job: &Job, tell: Tell<'_>, act: impl FnOnce() -> End) {
    tell(Event::Begun(job.zone.clone()));
    let began = Instant::now();
    let end = act();
    tell(Event::Done(Done {
        job: job.clone(),
        end,
        took: began.elapsed(),
    }));
}
