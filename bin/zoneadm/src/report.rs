//! Errors as zoneadm(8) prints them.

use zone::Error;
use zone::flatten;

/// Prints an error about a zone on standard error and returns the exit status.
pub fn error(zone: &str, error: &Error) -> u8 {
    for line in lines(zone, error) {
        eprintln!("{line}");
    }
    if error.is_usage() {
        cli::status::USAGE
    } else {
        cli::status::ERROR
    }
}

fn lines(zone: &str, error: &Error) -> Vec<String> {
    match error {
        Error::Store(store::Error::NoSuchZone(name)) => {
            vec![format!("zoneadm: {name}: No such zone configured")]
        }
        Error::Store(inner @ store::Error::Locked(_)) => vec![format!("zoneadm: {inner}")],
        Error::Source(text) => vec![format!("zoneadm: {text}")],
        // What was found comes without a prefix.
        Error::Verify(problems) => problems
            .iter()
            .cloned()
            .chain([format!("zoneadm: zone {zone} failed to verify")])
            .collect(),
        Error::Daemon(text) => vec![
            format!("zone '{zone}': {text}"),
            format!("zoneadm: zone '{zone}': call to zoneadmd failed"),
        ],
        other => vec![format!("zoneadm: zone '{zone}': {}", flatten(other))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_form() {
        let form = |error| lines("web1", &error).join("\n");
        assert_eq!(
            form(Error::Refused("is already installed.".into())),
            "zoneadm: zone 'web1': is already installed."
        );
        assert_eq!(
            form(Error::Store(store::Error::NoSuchZone(
                "web1".parse().unwrap()
            ))),
            "zoneadm: web1: No such zone configured"
        );
        assert_eq!(
            form(Error::Verify(vec!["/z must not be group readable.".into()])),
            "/z must not be group readable.\nzoneadm: zone web1 failed to verify"
        );
        assert_eq!(
            form(Error::Daemon("no".into())),
            "zone 'web1': no\nzoneadm: zone 'web1': call to zoneadmd failed"
        );
        assert_eq!(
            form(Error::Store(store::Error::Locked("web1".parse().unwrap()))),
            "zoneadm: zone 'web1': another zoneadm may have an operation in progress."
        );
    }
}
