//! Errors as zoneadm(8) prints them.

use host::Error;

/// Prints an error about a zone on standard error and returns the exit status.
pub fn error(zone: &str, error: &Error) -> u8 {
    for line in cli::report::lines("zoneadm", zone, error) {
        eprintln!("{line}");
    }
    cli::report::status(error, cli::wants_distinct_statuses())
}
