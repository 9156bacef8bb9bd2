//! Messages and exit statuses of errors about a zone, for zoneadm(8) and the other programs.

use host::{Error, flatten};

use crate::status;

/// Returns the lines that `program` prints for an error about a zone.
#[must_use]
pub fn lines(program: &str, zone: &str, error: &Error) -> Vec<String> {
    match error {
        Error::Store(store::Error::NoSuchZone(name)) => {
            vec![format!("{program}: {name}: No such zone configured")]
        }
        Error::Store(inner @ store::Error::Locked(_)) => vec![format!("{program}: {inner}")],
        Error::Source(text) => vec![format!("{program}: {text}")],
        // Problems that a verification found are printed without a prefix.
        Error::Verify(problems) => problems
            .iter()
            .cloned()
            .chain([format!("{program}: zone {zone} failed to verify")])
            .collect(),
        Error::Mismatch(report) => report.clone(),
        Error::Daemon(text) => vec![
            format!("zone '{zone}': {text}"),
            format!("{program}: zone '{zone}': call to zoneadmd failed"),
        ],
        other => vec![format!("{program}: zone '{zone}': {}", flatten(other))],
    }
}

/// Returns the exit status for an error: 1, or 2 for a wrong command line, as on Solaris. If
/// `distinct` is true, some kinds of errors have their own statuses, which zoneadm(8) lists.
#[must_use]
pub const fn status(error: &Error, distinct: bool) -> u8 {
    if error.is_usage() {
        return status::USAGE;
    }
    if !distinct {
        return status::ERROR;
    }
    match error {
        Error::Store(store::Error::NoSuchZone(_)) => status::NO_SUCH_ZONE,
        Error::State(_) => status::WRONG_STATE,
        Error::Store(store::Error::Locked(_)) => status::LOCKED,
        Error::Verify(_) => status::NOT_VERIFIED,
        Error::Mismatch(_) => status::PACKAGES,
        Error::Root(_) => status::NO_ROOT,
        Error::Owner(_) => status::OTHER_OWNER,
        _ => status::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_status_where_that_is_asked_for() {
        let zone = || "web1".parse::<model::ZoneName>().unwrap();
        let text = String::new;
        for (error, distinct) in [
            (Error::Refused(text()), 1),
            (Error::Usage(text()), 2),
            (Error::Store(store::Error::NoSuchZone(zone())), 3),
            (Error::State(text()), 4),
            (Error::Store(store::Error::Locked(zone().into())), 5),
            (Error::Verify(Vec::new()), 6),
            (Error::Mismatch(Vec::new()), 7),
            (Error::Root(text()), 8),
            (Error::Owner(text()), 9),
        ] {
            assert_eq!(status(&error, true), distinct, "{error:?}");
            assert_eq!(
                status(&error, false),
                distinct.min(1 + u8::from(error.is_usage()))
            );
        }
    }

    #[test]
    fn each_kind_has_its_form() {
        let form = |error| lines("zoneadm", "web1", &error).join("\n");
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
            form(Error::Store(store::Error::Locked(
                "web1".parse::<model::ZoneName>().unwrap().into()
            ))),
            "zoneadm: zone 'web1': another zoneadm may have an operation in progress."
        );
    }
}
