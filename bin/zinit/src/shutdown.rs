//! Shuts a zone down in fixed steps and in bounded time.
//!
//! 1. `/etc/rc.zone stop`, if executable: 10 s at most.
//! 2. The enabled services (see [`services`]): 10 s at most.
//! 3. If the zone has a program (see [`command`]), the stop signal of that program:
//!    10 s at most.
//! 4. SIGTERM to all processes, and SIGCONT so that stopped processes receive SIGTERM: 5 s at most.
//! 5. SIGKILL to the remaining processes.
//!
//! A second order to shut down during these steps ends all waiting: a user who repeats the order is
//! in a hurry. The first order decides between power off and reboot.

use start::{EVERYBODY, Power, Signal};

use crate::command::{self, Command};
use crate::console::say;
use crate::life::{AWAITED, reap_all, report, run_rc};
use crate::services;

/// Timeout for rc.zone, and for the scripts of the enabled services, to stop, in milliseconds.
const RC_TIMEOUT_MS: u64 = 10_000;
/// Time between SIGTERM and SIGKILL, in milliseconds.
const KILL_DELAY_MS: u64 = 5_000;
/// Interval between checks for processes whose parent is outside the zone, in milliseconds.
const POLL_INTERVAL_MS: u64 = 20;

/// Ends every process of the zone except zinit.
pub(crate) fn shut_down(power: Power, program: Option<Command>) {
    say(&[match power {
        Power::Off => b"power off",
        Power::Restart => b"reboot",
    }]);
    let mut hurry = false;
    if let Some(rc) = run_rc(c"stop") {
        match wait_for(rc, |status| report(b"stop", status)) {
            End::Done => {}
            End::TooLong => say(&[b"/etc/rc.zone stop: takes too long, going on"]),
            End::Hurry => hurry = true,
        }
    }

    let stopping = match program {
        None if !hurry => services::run(services::Order::Stop),
        _ => None,
    };
    if let Some(services) = stopping {
        match wait_for(services, |_| {}) {
            End::Done => {}
            End::TooLong => say(&[b"/etc/rc0.d: takes too long, going on"]),
            End::Hurry => hurry = true,
        }
    }

    if let Some(program) = program.filter(|_| !hurry) {
        let _ = start::send(program.pid, program.stop);
        hurry = matches!(wait_for(program.pid, command::report), End::Hurry);
    }

    // send fails if no process is left.
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
    // reboot(2) waits for the end of the killed processes.
    let _ = start::send(EVERYBODY, Signal::KILL);
}

/// The kind of processes that the shutdown still waits for.
enum Left {
    Nobody,
    /// Children of zinit: SIGCHLD reports their end.
    Children,
    /// Processes that zlogin started in the zone. Their parent is outside the zone, so zinit gets
    /// no signal when they end and has to poll. zinit polls at most 250 times, in the last seconds
    /// of a zone.
    Strangers,
}

/// The result of a wait.
enum End {
    Done,
    TooLong,
    Hurry,
}

/// Waits for the end of the child `child` for RC_TIMEOUT_MS at most, and passes its status to
/// `ended`.
fn wait_for(child: i32, mut ended: impl FnMut(i32)) -> End {
    let mut running = true;
    wait_while(RC_TIMEOUT_MS, || {
        reap_all(|pid, status| {
            if pid == child {
                running = false;
                ended(status);
            }
        });
        if running {
            Left::Children
        } else {
            Left::Nobody
        }
    })
}

/// Waits until `look` finds no process, the limit has passed, or another order to shut down
/// arrives.
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
