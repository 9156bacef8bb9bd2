//! `zoneadm boot-again`: zoneadmd starts this private subcommand for a zone that rebooted itself.

use std::fs::File;

use zone::boot::{LOCK_OF_AGAIN, boot_again};

use crate::call::Call;
use crate::{act, usage};

/// Boots the zone under the zone's lock, which its zoneadmd has passed to this process.
pub fn run(call: &Call) -> u8 {
    let reboots = match call.rest.as_slice() {
        [reboots] => reboots.parse().ok(),
        _ => None,
    };
    // A user cannot call this subcommand, so the error is that of an unknown subcommand.
    let Some((reboots, lock)) = reboots.zip(sys::inherited::take(LOCK_OF_AGAIN).ok()) else {
        return usage::unknown(&call.verb);
    };
    match act::admitted(call, false) {
        Ok((host, zones)) => zones.first().map_or(cli::status::USAGE, |zone| {
            match boot_again(&host, zone, File::from(lock), reboots) {
                Ok(()) => cli::status::OK,
                Err(_) => cli::status::ERROR,
            }
        }),
        Err(status) => status,
    }
}
