//! `zoneadm apply`: changes running zones, and prints each change.

use host::Host;
use model::ZoneName;
use zone::live::{self, Options, Told};

use crate::outcome;

/// Changes zones, one after the other: entering a zone needs a child process, and a
/// program with threads cannot fork a complete one.
pub fn all(host: &Host, zones: &[ZoneName], dry_run: bool, quiet: bool) -> u8 {
    let options = Options { dry_run, quiet };
    let mut status = cli::status::OK;
    for zone in zones {
        let mut tell = |told| match told {
            Told::Progress(text) => println!("zone '{zone}': {text}"),
            Told::Warning(text) => eprintln!("zone '{zone}': warning: {text}"),
        };
        let applied = live::apply(host, zone, options, &mut tell);
        status = status.max(outcome::show(zone, &applied));
    }
    status
}
