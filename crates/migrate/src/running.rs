//! Sends a running zone to the target, and stops the zone here at the end.

use std::time::Instant;

use control::client;
use host::{Error, Host};
use subject::Subject;
use zone::halt::halt_locked;
use zone::suspend;

use crate::live_source::{self, Way};
use crate::not_going_on;
use crate::options::{Kind, Options};
use crate::source::Trip;

/// The state of a zone after it was sent while it ran.
pub(super) enum Sent {
    /// The target has the whole zone, because its guest migrated live.
    Whole,
    /// The zone is halted here, and the later changes must still be sent.
    Halted,
    /// The guest is suspended here. The later changes and the suspend image must still be sent.
    Suspended {
        /// The time at which the guest was paused.
        since: Instant,
    },
}

/// Sends the top of a running zone, and the guest of a kernel zone. Then stops the zone, unless its
/// guest migrated live.
///
/// # Errors
/// Fails with the reason why the zone cannot migrate. The zone continues to run then.
pub(super) fn send(
    host: &Host,
    subject: &Subject,
    trip: &mut Trip,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Sent, Error> {
    progress("Sending the top while the zone runs.");
    trip.send_top()?;
    if !trip.goes_on {
        progress("Halting the zone.");
        halt_locked(host, subject)?;
        return Ok(Sent::Halted);
    }
    if options.kind != Kind::Warm && send_live(host, subject, trip, options, progress)? {
        return Ok(Sent::Whole);
    }
    trip.send_drafts(progress)?;
    trip.probe(host, subject)?;
    progress("Suspending the zone.");
    let since = Instant::now();
    stop(host, subject)?;
    Ok(Sent::Suspended { since })
}

/// Tries a live migration. Returns false if the guest must be suspended instead.
fn send_live(
    host: &Host,
    subject: &Subject,
    trip: &mut Trip,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<bool, Error> {
    trip.send_top()?;
    trip.compare()?;
    match live_source::go(host, subject, trip, options, progress)? {
        Way::Gone { stood, broken } => {
            progress(&match broken {
                None => format!(
                    "The guest runs over there; it stood still for {:.3} s, from its stop here to the answer from there.",
                    stood.as_secs_f64()
                ),
                Some(why) => not_going_on(&why),
            });
            Ok(true)
        }
        Way::Cannot(why) if options.kind == Kind::Live => {
            Err(Error::Refused(format!("does not go live: {why}.")))
        }
        Way::Cannot(why) => {
            suspend::place(host, subject)
                .map_err(|error| Error::Refused(format!("does not go live: {why}; and {error}")))?;
            progress(&format!("It does not go live: {why}."));
            Ok(false)
        }
    }
}

/// Suspends the guest of a zone. If this fails, the guest continues to run.
fn stop(host: &Host, subject: &Subject) -> Result<(), Error> {
    suspend::suspend_locked(host, subject).inspect_err(|_| {
        // If zoneadmd died, a new zoneadmd lets the guest run.
        let _ = client::attend(host, &subject.entry.name);
    })
}
