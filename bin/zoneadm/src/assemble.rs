//! `zoneadm assemble`: zoneadmd starts this private subcommand for an immutable zone that boots for
//! the first time.

use host::flatten;
use zone::assemble::assemble;

use crate::call::Call;
use crate::{act, usage};

/// Waits until the services of the zone have started, and reboots the zone read-only.
pub fn run(call: &Call) -> u8 {
    // A user does not call this subcommand, so the error is that of an unknown subcommand.
    let [id] = call.rest.as_slice() else {
        return usage::unknown(&call.verb);
    };
    let Ok(id) = id.parse() else {
        return usage::unknown(&call.verb);
    };
    match act::admitted(call, false) {
        Ok((host, zones)) => {
            zones
                .first()
                .map_or(cli::status::USAGE, |zone| match assemble(&host, zone, id) {
                    Ok(()) => cli::status::OK,
                    Err(error) => {
                        eprintln!("zoneadm: zone '{zone}': {}", flatten(&error));
                        cli::status::ERROR
                    }
                })
        }
        Err(status) => status,
    }
}
