//! `beadm` in a zone, which asks zoneadmd, and the answers to the zone.

use std::io::ErrorKind;

use control::beadm_socket::{self, Answer};
use host::{Error, Host, flatten};
use model::ZoneName;

/// Sends the request in `words`. `confirmed` tells that the question of destroy was
/// answered.
pub fn ask(words: &[String], confirmed: bool) -> u8 {
    let mut words = words.to_vec();
    if confirmed {
        words.insert(1, "-F".to_owned());
    }
    let asked = beadm_socket::ask(&words, |answer| match answer {
        Answer::Output(text) => print!("{}", String::from_utf8_lossy(&text)),
        Answer::Errors(text) => eprint!("{}", String::from_utf8_lossy(&text)),
        Answer::Exit(_) => {}
    });
    match asked {
        Ok(status) => status,
        Err(error) => {
            let why = match error.kind() {
                ErrorKind::PermissionDenied => "only root of the zone may do that.",
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                    "the zone's zoneadmd is not there; any zoneadm command of the global zone brings it back."
                }
                ErrorKind::UnexpectedEof => "the zone's zoneadmd went away.",
                _ => {
                    eprintln!("beadm: {}: {error}", beadm_socket::SOCKET);
                    return cli::status::ERROR;
                }
            };
            eprintln!("beadm: {why}");
            cli::status::ERROR
        }
    }
}

/// Reports an error to a zone; details about the host are only in the zone's log on the
/// host.
pub fn tell(host: &Host, zone: &ZoneName, error: &Error) -> u8 {
    let text = for_zone(error);
    if text.is_none() {
        let text = flatten(error);
        control::log::note(host, zone, &format!("beadm: {text}"));
    }
    let text =
        text.unwrap_or_else(|| "that failed; the zone's log in the global zone says why.".into());
    eprintln!("beadm: {text}");
    cli::status::ERROR
}

/// Returns the part of an error that a zone may know.
fn for_zone(error: &Error) -> Option<String> {
    let text = match error {
        Error::Store(store::Error::Locked(_)) => {
            return Some("another operation on the zone is in progress.".to_owned());
        }
        Error::Refused(text) | Error::State(text) => text,
        _ => return None,
    };
    match text.split_once(" is mounted on ") {
        Some((what, _)) => Some(format!("{what} is mounted in the global zone.")),
        None => Some(text.clone()).filter(|text| !text.contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_sees_no_path_of_the_host() {
        let told = |text: &str| for_zone(&Error::Refused(text.to_owned()));
        assert_eq!(
            told("has no boot environment a.").as_deref(),
            Some("has no boot environment a.")
        );
        assert_eq!(
            told("boot environment a is mounted on /mnt; unmount it first.").as_deref(),
            Some("boot environment a is mounted in the global zone.")
        );
        assert_eq!(told("/zones/web/be/next: damaged"), None);
        assert_eq!(for_zone(&Error::Daemon("/x".to_owned())), None);
    }
}
