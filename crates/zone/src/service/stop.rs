//! What happens to zones when the host shuts down.

use std::time::{Duration, Instant};

use model::ZoneName;

use super::plan::{Deed, Job, Patience};
use super::{End, Tell, survey, told};
use crate::apply::Outcome;
use crate::{Error, Host, flatten, halt, shutdown, suspend};

/// Ends all these zones at the same time, each in its way. What is not down after three
/// quarters of the time is killed.
pub fn stop(host: &Host, jobs: &[Job], patience: Patience, tell: Tell<'_>) {
    let began = Instant::now();
    // A thread for each: they do nothing but wait, and none must wait for another.
    std::thread::scope(|scope| {
        for job in jobs {
            let act = move || told(job, tell, || one(host, job, patience, began));
            let spawned = std::thread::Builder::new().spawn_scoped(scope, act);
            if spawned.is_err() {
                // As many as there may be are at work; this one is not left out.
                act();
            }
        }
    });
}

/// Zones that are up all the same: those that would not stop, and any that somebody
/// booted meanwhile.
///
/// # Errors
/// When the index cannot be read.
pub fn still_up(host: &Host) -> Result<Vec<ZoneName>, Error> {
    let zones = survey(host)?.zones.into_iter();
    let up = zones.filter(|known| known.state.is_active());
    Ok(up.map(|known| known.zone).collect())
}

fn one(host: &Host, job: &Job, patience: Patience, began: Instant) -> End {
    let zone = &job.zone;
    let (clean, last) = (began + patience.clean(), began + patience.all());
    let why = match in_order(host, job, clean) {
        None => None,
        Some(Ok(Outcome::Remarks(remarks))) => return End::Well(remarks),
        Some(Ok(_)) => return End::Well(Vec::new()),
        Some(Err(_)) if Instant::now() >= clean => Some(format!(
            "was not down after {} s",
            patience.clean().as_secs_f32()
        )),
        Some(Err(error)) => Some(flatten(&error)),
    };
    let halted = patiently(last, || halt::halt_within(host, zone, left(last)));
    match (halted, why) {
        // It went down by itself, or just in time.
        (Ok(Outcome::Already(_)), _) => End::Already,
        (Ok(_), None) => End::Well(Vec::new()),
        (Ok(_), Some(why)) => End::Forced(why),
        (Err(error), None) => End::Failed(error),
        (Err(error), Some(why)) => {
            End::Failed(Error::Daemon(format!("{why}; {}", flatten(&error))))
        }
    }
}

/// The way that loses nothing; `None` where none is wanted.
fn in_order(host: &Host, job: &Job, clean: Instant) -> Option<Result<Outcome, Error>> {
    let zone = &job.zone;
    match job.deed {
        Deed::Shutdown => Some(patiently(clean, || {
            shutdown::shutdown_within(host, zone, left(clean))
        })),
        Deed::Suspend => Some(patiently(clean, || {
            suspend::suspend_within(host, zone, left(clean))
        })),
        _ => None,
    }
}

/// Tries again as long as another command holds the zone's lock.
fn patiently<T>(end: Instant, mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match act() {
            Err(Error::Store(store::Error::Locked(_))) if Instant::now() < end => {}
            other => return other,
        }
    }
}

/// The time until then; a moment when it is over, as nothing can be done in no time.
fn left(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(100))
}
