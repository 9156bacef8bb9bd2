//! The life of a zone from the first instruction of zinit to the order to shut down.

use core::ffi::CStr;

use start::{Errno, Power, Reaped, Signal, SignalSet};

use crate::command::{self, Command};
use crate::console::{Digits, say};
use crate::order;
use crate::services;
use crate::shutdown::shut_down;

/// Path of the zone's own program that starts and stops its services.
const RC_ZONE: &CStr = c"/etc/rc.zone";

/// The environment of `/etc/rc.zone`, the same for every boot.
const ENVIRONMENT: [&CStr; 2] = [c"PATH=/usr/sbin:/usr/bin:/sbin:/bin", c"HOME=/root"];

/// Descriptor of the other side of the console's terminal. zinit keeps this descriptor open, so
/// that the programs of the zone keep their console if zoneadmd is killed. The next zoneadmd takes
/// the descriptor from zinit.
const CONSOLE: u8 = 3;

pub(crate) const HALT: Signal = Signal::realtime(3);
pub(crate) const POWEROFF: Signal = Signal::realtime(4);
pub(crate) const REBOOT: Signal = Signal::realtime(5);

/// All signals that zinit waits for. The kernel ignores all other signals for process 1, which has
/// no signal handlers.
pub(crate) const AWAITED: SignalSet = SignalSet::of(&[
    Signal::CHLD,
    Signal::PWR,
    Signal::TERM,
    Signal::INT,
    HALT,
    POWEROFF,
    REBOOT,
]);

/// Runs zinit. Returns its exit status if reboot(2) does not end the process.
pub(crate) fn run<'a>(name: &[u8], mut args: impl Iterator<Item = &'a [u8]>) -> u8 {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if let Some(status) = order::run(name, &mut args) {
        return status;
    }
    if start::pid() != 1 {
        say(&[b"I am process 1 of a zone or nothing"]);
        return 1;
    }

    // The signals are blocked first of all, so that no later order to shut down is lost.
    start::block(AWAITED);
    start::forget_terminal();
    start::keep_from_children(CONSOLE);
    start::set_umask(0o022);
    // The root folder exists: without a root zinit would not run.
    let _ = start::change_dir(c"/");

    let single_user = args.any(|arg| arg == b"-s");
    let rc = if single_user { None } else { run_rc(c"start") };
    let program = if single_user {
        Ok(None)
    } else {
        command::run()
    };
    if !single_user && program == Ok(None) {
        services::run(services::Order::Start);
    }
    let (power, program) = match program {
        Ok(program) => live(rc, program),
        Err(()) => (Power::Off, None),
    };
    shut_down(power, program);
    let errno = start::set_power(power);
    say(&[b"reboot: error ", Digits::of(low_byte(errno)).as_bytes()]);
    match power {
        Power::Off => 0,
        Power::Restart => 133,
    }
}

/// Reaps children until a signal orders the shutdown or the zone's program ends. Returns the
/// program if it still runs.
fn live(rc: Option<i32>, program: Option<Command>) -> (Power, Option<Command>) {
    loop {
        match start::wait(AWAITED, None) {
            Some(Signal::INT | REBOOT) => return (Power::Restart, program),
            Some(Signal::CHLD) => {
                let mut over = false;
                reap_all(|pid, status| {
                    if Some(pid) == rc {
                        report(b"start", status);
                    }
                    if program.is_some_and(|program| program.pid == pid) {
                        command::report(status);
                        over = true;
                    }
                });
                if over {
                    return (Power::Off, None);
                }
            }
            Some(_) => return (Power::Off, program),
            // Cannot happen, because this wait has no timeout. Waiting again would lose nothing.
            None => {}
        }
    }
}

/// Reaps every child that has ended and passes its status to `ended`. Returns true if children are
/// left.
pub(crate) fn reap_all(mut ended: impl FnMut(i32, i32)) -> bool {
    loop {
        match start::reap() {
            Reaped::Child(pid, status) => ended(pid, status),
            Reaped::NoneEnded => return true,
            Reaped::NoChild => return false,
        }
    }
}

/// Starts rc.zone with the argument `word`, if rc.zone is executable.
pub(crate) fn run_rc(word: &CStr) -> Option<i32> {
    if !start::is_executable(RC_ZONE) {
        return None;
    }
    match start::spawn(RC_ZONE, &[word], &ENVIRONMENT) {
        Ok(pid) => Some(pid),
        Err(errno) => {
            let digits = Digits::of(low_byte(errno));
            say(&[
                b"/etc/rc.zone ",
                word.to_bytes(),
                b": error ",
                digits.as_bytes(),
            ]);
            None
        }
    }
}

/// Prints a line on the console if rc.zone failed.
pub(crate) fn report(word: &[u8], status: i32) {
    let [signal, exit, ..] = status.to_le_bytes();
    let (what, number): (&[u8], u8) = match (signal & 0x7f, exit) {
        (0, 0) => return,
        (0, exit) => (b": exit status ", exit),
        (signal, _) => (b": killed by signal ", signal),
    };
    say(&[b"/etc/rc.zone ", word, what, Digits::of(number).as_bytes()]);
}

/// Returns an error number as one byte. All error numbers of the kernel in use are below 134.
fn low_byte(errno: Errno) -> u8 {
    u8::try_from(errno.0).unwrap_or(u8::MAX)
}
