//! The outcome of a verb for one zone, as it is printed.

use host::Error;
use model::ZoneName;
use zone::executor::Outcome;

use crate::report;

/// Prints the result for a zone and returns the exit status.
pub fn show(zone: &ZoneName, result: &Result<Outcome, Error>) -> u8 {
    match result {
        Ok(Outcome::Done) => cli::status::OK,
        Ok(Outcome::Remarks(remarks)) => {
            for remark in remarks {
                eprintln!("zoneadm: zone '{zone}': WARNING: {remark}");
            }
            cli::status::OK
        }
        Ok(Outcome::Already(notice)) => {
            eprintln!("zoneadm: zone '{zone}': {notice}");
            cli::status::OK
        }
        Ok(Outcome::Planned(plan)) => {
            cli::output::only_prints();
            print!("{plan}");
            cli::status::OK
        }
        Err(error) => report::error(zone.as_str(), error),
    }
}
