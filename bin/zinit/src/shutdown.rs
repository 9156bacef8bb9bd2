//! The end of a zone, in order and in bounded time.
//!
//! 1. `/etc/rc.zone stop`, if executable: 10 s at most.
//! 2. Its own signal to the zone's program, if it has one (see [`command`](crate::command)):
//!    10 s at most.
//! 3. SIGTERM to everybody, SIGCONT so that stopped ones hear it: 5 s at most.
//! 4. SIGKILL to the remaining processes.
//!
//! A further order to end while this is under way ends all waiting: who asks twice is in a hurry.
//! The first order remains in force.

use start::{EVERYBODY, Power, Signal};

use crate::command::{self, Command};
use crate::console::say;
use crate::life::{AWAITED, reap_all, report, run_rc};

/// Timeout for rc.zone to stop the zone's services, in milliseconds.
const RC_TIMEOUT_MS: u64 = 10_000;
/// Time between SIGTERM and SIGKILL, in milliseconds.
const KILL_DELAY_MS: u64 = 5_000;
/// Interval between looks for processes that have no parent here, in milliseconds.
const POLL_INTERVAL_MS: u64 = 20;

/// Ends every process of the zone but this one.
pub(crate) fn shut_down(power: Power, program: Option<Command>) {
    say(&[match power {
        Power::Off => b"power off",
        Power::Restart => b"reboot",
    }]);
    let mut hurry = false;
    if let Some(rc) = run_rc(c"stop") {
        let mut running = true;
        let end = wait_while(RC_TIMEOUT_MS, || {
            reap_all(|pid, status| {
                if pid == rc {
                    running = false;
                    report(b"stop", status);
                }
            });
            if running {
                Left::Children
            } else {
                Left::Nobody
            }
        });
        match end {
            End::Done => {}
            End::TooLong => say(&[b"/etc/rc.zone stop: takes too long, going on"]),
            End::Hurry => hurry = true,
        }
    }

    if let Some(program) = program.filter(|_| !hurry) {
        let _ = start::send(program.pid, program.stop);
        let mut running = true;
        let end = wait_while(RC_TIMEOUT_MS, || {
            reap_all(|pid, status| {
                if pid == program.pid {
                    running = false;
                    command::report(status);
                }
            });
            if running {
                Left::Children
            } else {
                Left::Nobody
            }
        });
        hurry = matches!(end, End::Hurry);
    }

    // Fails if there is no process.
    let _ = start::send(EVERYBODY, Signal::TERM);
    let _ = start::send(EVERYBODY, Signal::CONT);
    let grace = if hurry { 0 } else { KILL_DELAY_MS };
    wait_while(grace, || {
        if reap_all(|_, _| {}) {
            Left::Children
        } else if start::anybody() {
            Left::Strangers
        } else {
            Left::Nobody
        }
    });
    // reboot(2) waits for their end.
    let _ = start::send(EVERYBODY, Signal::KILL);
}

/// The processes that are still waited for.
enum Left {
    Nobody,
    /// Their end is a signal.
    Children,
    /// Processes that zlogin put here: their parent is outside, so no signal tells their end and
    /// looking is the only way. It is done at most 250 times, in the last seconds of a zone.
    Strangers,
}

/// The result of a wait.
enum End {
    Done,
    TooLong,
    Hurry,
}

/// Waits until `look` finds no process, the limit is over, or an order to end comes.
fn wait_while(limit_ms: u64, mut look: impl FnMut() -> Left) -> End {
    let end = start::clock_ms() + limit_ms;
    loop {
        let rest = end.saturating_sub(start::clock_ms());
        let pause = match look() {
            Left::Children => rest,
            Left::Strangers => rest.min(POLL_INTERVAL_MS),
            Left::Nobody => return End::Done,
        };
        if rest == 0 {
            return End::TooLong;
        }
        match start::wait(AWAITED, Some(pause)) {
            Some(Signal::CHLD) | None => {}
            Some(_) => return End::Hurry,
        }
    }
}
