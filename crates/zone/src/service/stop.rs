//! Stops zones when the host shuts down.

use std::time::{Duration, Instant};

use model::ZoneName;
use store::lock::Wait;

use crate::executor::Outcome;
use crate::service::plan::{self, Deed, Job, Patience};
use crate::service::{End, Tell, survey, told};
use crate::{halt, shutdown, suspend};
use host::{Error, Host, flatten};

/// Ends all these zones at the same time, each in its way. A zone that is not down after
/// three quarters of the time is killed.
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
    // A command that boots, resumes or ends it at this moment is not disturbed: its state
    // afterwards counts.
    let now = patiently(clean, || again(host, zone));
    let Some(deed) = now.unwrap_or(Some(job.deed)) else {
        return End::Already;
    };
    let why = match in_order(host, zone, deed, clean) {
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

/// Returns the action for a zone in its present state once no other command works on it.
fn again(host: &Host, zone: &ZoneName) -> Result<Option<Deed>, Error> {
    let (_lock, entry, _) = subject::lock_known(host, zone, Wait::No)?;
    let known = crate::service::known(host, &entry)?;
    let jobs = known.map(|known| plan::stop(&[known])).unwrap_or_default();
    Ok(jobs.first().map(|job| job.deed))
}

/// The way that loses nothing; `None` where none is wanted.
fn in_order(
    host: &Host,
    zone: &ZoneName,
    deed: Deed,
    clean: Instant,
) -> Option<Result<Outcome, Error>> {
    let shut_down = || patiently(clean, || shutdown::shutdown_within(host, zone, left(clean)));
    let suspend = || patiently(clean, || suspend::suspend_within(host, zone, left(clean)));
    match deed {
        Deed::Shutdown => Some(shut_down()),
        Deed::Suspend => Some(suspend_or(suspend, shut_down, || Instant::now() < clean)),
        _ => None,
    }
}

/// Suspends a zone. A zone that cannot be suspended continues to run. While time remains,
/// it is shut down: this loses the state of its programs, but no written data.
fn suspend_or(
    suspend: impl FnOnce() -> Result<Outcome, Error>,
    shut_down: impl FnOnce() -> Result<Outcome, Error>,
    is_time: impl FnOnce() -> bool,
) -> Result<Outcome, Error> {
    match suspend() {
        Err(error) if is_time() => match shut_down() {
            Ok(_) => Ok(Outcome::Remarks(vec![format!(
                "was shut down, as it could not be suspended: {}",
                flatten(&error)
            )])),
            Err(also) => Err(Error::Daemon(format!(
                "{}; {}",
                flatten(&error),
                flatten(&also)
            ))),
        },
        other => other,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_suspend_becomes_a_shutdown_while_time_remains() {
        let fails = || Err(Error::Daemon("no space".to_owned()));
        let never = || panic!("not asked for");
        let done = || Ok(Outcome::Done);
        let over = || false;
        let time = || true;
        assert_eq!(suspend_or(done, never, time).unwrap(), Outcome::Done);
        match suspend_or(fails, done, time).unwrap() {
            Outcome::Remarks(remarks) => assert!(remarks[0].contains("no space"), "{remarks:?}"),
            other => panic!("{other:?}"),
        }
        assert!(suspend_or(fails, never, over).is_err());
        let error = suspend_or(fails, fails, time).unwrap_err();
        assert_eq!(error.to_string(), "no space; no space");
    }
}
