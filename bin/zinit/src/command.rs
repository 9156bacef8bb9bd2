//! Reads the command of a zone that exists for one program: /etc/zone.init.
//!
//! `zoneadm install` writes /etc/zone.init from the command of a container image
//! (`crates/brand/src/image/init.rs` describes the format of the file). zinit starts the program
//! after rc.zone, and the zone ends with the program.

use core::ffi::CStr;

use start::{Place, Signal, Strings};

use crate::console::{Digits, say};

/// Path of the file that names the command of the zone.
const FILE: &CStr = c"/etc/zone.init";

/// The first line of /etc/zone.init.
const MARK: &[u8] = b"zone-init 1";

/// Maximum size of /etc/zone.init, in bytes: zoneadm writes no larger file.
const MAX_FILE_BYTES: usize = 64 << 10;

/// Maximum number of supplementary groups.
const MAX_GROUPS: usize = 64;

/// The running program that /etc/zone.init names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) pid: i32,
    /// The signal that asks the program to end.
    pub(crate) stop: Signal,
}

/// Starts the command in /etc/zone.init. Returns `Ok(None)` if /etc/zone.init does not exist, and
/// `Err` if the command does not start.
pub(crate) fn run() -> Result<Option<Command>, ()> {
    if start::read_file(FILE, &mut []).is_err() {
        return Ok(None);
    }
    let started = read_and_start();
    if started.is_none() {
        say(&[b"/etc/zone.init: cannot start the command in it"]);
    }
    started.map(Some).ok_or(())
}

// This function is never inlined: a function touches all of its stack when it begins, and every
// zinit would keep the memory of these buffers.
#[inline(never)]
fn read_and_start() -> Option<Command> {
    let mut bytes = [0; MAX_FILE_BYTES];
    match start::read_file(FILE, &mut bytes) {
        Ok(length) if length < MAX_FILE_BYTES => parse_and_start(&bytes[..length]),
        _ => None,
    }
}

fn parse_and_start(bytes: &[u8]) -> Option<Command> {
    let mut strings = Strings::new(bytes)?;
    if strings.take()?.to_bytes() != MARK {
        return None;
    }
    let uid = number(strings.take()?.to_bytes())?;
    let gid = number(strings.take()?.to_bytes())?;
    let mut groups = [0; MAX_GROUPS];
    let mut count = 0;
    for group in strings.take()?.to_bytes().split(|byte| *byte == b',') {
        if !group.is_empty() {
            *groups.get_mut(count)? = number(group)?;
            count += 1;
        }
    }
    let stop = u8::try_from(number(strings.take()?.to_bytes())?).ok()?;
    let folder = strings.take()?;
    let settings = number(strings.take()?.to_bytes())?;
    let environment = strings.split(usize::try_from(settings).ok()?)?;
    let place = Place {
        uid,
        gid,
        groups: groups.get(..count)?,
        folder,
    };
    let tell = |what: &[u8], errno: start::Errno| {
        let number = Digits::of(u8::try_from(errno.0).unwrap_or(u8::MAX));
        let why: &[u8] = match errno {
            start::Errno::NO_ENTRY => b" (it is not there)",
            _ => b"",
        };
        say(&[
            b"/etc/zone.init: cannot take ",
            what,
            b": error ",
            number.as_bytes(),
            why,
        ]);
    };
    let pid = start::spawn_as(place, strings, environment, tell).ok()?;
    Some(Command {
        pid,
        stop: Signal::numbered(stop)?,
    })
}

/// Prints on the console how the program of the zone ended.
pub(crate) fn report(status: i32) {
    let [signal, exit, ..] = status.to_le_bytes();
    let (what, number): (&[u8], u8) = match signal & 0x7f {
        0 => (b"the zone's program ended: exit status ", exit),
        signal => (b"the zone's program was killed by signal ", signal),
    };
    say(&[what, Digits::of(number).as_bytes()]);
}

fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    let mut number = 0_u32;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(number)
}
