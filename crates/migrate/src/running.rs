//! Sends a zone while it runs, and stops it here at the end.

use std::time::Instant;

use control::client;
use host::{Error, Host};
use subject::Subject;
use zone::halt::halt_locked;
use zone::suspend;

use crate::live_source::{self, Way};
use crate::options::{Kind, Options};
use crate::source::Trip;

/// The state in which a zone that ran is now.
pub(super) enum Sent {
    /// All of it is the target's: its machine went while it ran.
    Whole,
    /// It is halted here, and the later changes have to be sent.
    Halted,
    /// Its machine is suspended here, and the later changes and the image have to be sent.
    Suspended {
        /// The time at which its guest stopped.
        since: Instant,
    },
}

/// Sends the top of a zone that runs, and its machine if it has one; then stops the zone, unless
/// its machine went while it ran.
///
/// # Errors
/// Fails with the reason why the zone does not go; it runs on then.
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

/// Sends a machine while it runs. Returns false if it has to be suspended for it.
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
                Some(why) => format!(
                    "The zone is over there, but its machine did not go on: {why}. Boot it there."
                ),
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

/// Suspends a machine, which runs on if that fails.
fn stop(host: &Host, subject: &Subject) -> Result<(), Error> {
    suspend::suspend_locked(host, subject).inspect_err(|_| {
        // Its zoneadmd may have died: a new one lets the guest run on.
        let _ = client::attend(host, &subject.entry.name);
    })
}
