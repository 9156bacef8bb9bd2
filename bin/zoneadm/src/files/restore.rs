//! `zoneadm files restore`.

use host::Host;
use model::ZoneName;
use zone::copy::{Copied, Place};
use zone::moments::When;
use zone::moments::restore::{Request, Restored, restore};

use super::parse::Parsed;
use crate::report;

pub fn run(host: &Host, zone: &ZoneName, parsed: &Parsed) -> u8 {
    let When::Named(snapshot) = &parsed.snapshot else {
        return cli::status::ERROR;
    };
    let request = Request {
        snapshot: snapshot.clone(),
        paths: parsed.paths.clone(),
        existing: parsed.existing,
    };
    let tell = |place: Place, text: &str| match place {
        Place::Host => eprintln!("zoneadm: snapshot {snapshot}: {text}"),
        Place::Zone => eprintln!("zoneadm: zone '{zone}': {text}"),
    };
    match restore(host, zone, &request, &tell) {
        Ok(Restored::Planned(plan)) => {
            print!("{plan}");
            cli::status::OK
        }
        Ok(Restored::Done(Copied::All)) => cli::status::OK,
        Ok(Restored::Done(Copied::Part)) => cli::status::ERROR,
        Err(error) => report::error(zone.as_str(), &error),
    }
}
