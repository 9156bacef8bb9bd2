//! Stops zones when the host shuts down.

use std::time::{Duration, Instant};

use model::ZoneName;
use store::lock::Wait;

use crate::executor::Outcome;
use crate::service::plan::{self, Deed, Job, Patience};
use crate::service::{End, Tell, survey, told};
use crate::{halt, shutdown, suspend};
use host::{Error, Host, flatten};

/// Stops the zones of all jobs at the same time, each by its configured action. A zone that is not
/// down after three quarters of the time is killed.
pub fn stop(host: &Host, jobs: &[Job], patience: Patience, tell: Tell<'_>) {
    let began = Instant::now();
    // Each job has its own thread, because the threads only wait and no job may wait for another.
    std::thread::scope(|scope| {
        for job in jobs {
            let act = move || told(job, tell, || one(host, job, patience, began));
            let spawned = std::thread::Builder::new().spawn_scoped(scope, act);
            if spawned.is_err() {
                // The limit of threads is reached, so this thread carries the job out itself.
                act();
            }
        }
    });
}

/// Returns the zones that are still active: zones that did not stop, and zones that were booted
/// meanwhile.
///
/// # Errors
/// Fails if the index cannot be read.
pub fn still_up(host: &Host) -> Result<Vec<ZoneName>, Error> {
    let zones = survey(host)?.zones.into_iter();
    let up = zones.filter(|known| known.state.is_active());
    Ok(up.map(|known| known.zone).collect())
}

fn one(host: &Host, job: &Job, patience: Patience, began: Instant) -> End {
    let zone = &job.zone;
    let (clean, last) = (began + patience.clean(), began + patience.all());
    // If another command boots, resumes or stops the zone now, this job waits for that command. The
    // zone's state afterwards decides.
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
        // The zone went down by itself, or just before the halt.
        (Ok(Outcome::Already(_)), _) => End::Already,
        (Ok(_), None) => End::Well(Vec::new()),
        (Ok(_), Some(why)) => End::Forced(why),
        (Err(error), None) => End::Failed(error),
        (Err(error), Some(why)) => {
            End::Failed(Error::Daemon(format!("{why}; {}", flatten(&error))))
        }
    }
}

/// Waits until no other command works on the zone, and returns the action for its state then;
/// `None` if no action is needed.
fn again(host: &Host, zone: &ZoneName) -> Result<Option<Deed>, Error> {
    let (_lock, entry, _) = subject::lock_known(host, zone, Wait::No)?;
    let known = crate::service::known(host, &entry)?;
    let jobs = known.map(|known| plan::stop(&[known])).unwrap_or_default();
    Ok(jobs.first().map(|job| job.deed))
}

/// Stops a zone by the action that loses no data; `None` if the zone is to be halted.
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

/// Suspends a zone. If this fails, the zone continues to run. If time remains, the zone is then
/// shut down: this loses the state of its programs, but no written data.
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

/// Repeats `act` while another command holds the zone's lock, at most until `end`.
fn patiently<T>(end: Instant, mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match act() {
            Err(Error::Store(store::Error::Locked(_))) if Instant::now() < end => {}
            other => return other,
        }
    }
}

/// Returns the time until `end`, but at least 100 ms, because a command needs some time.
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
