//! The mark in the zonepath of a zone that may be another host's by now: which migration took
//! it along, and where to. Nothing runs here while it is there; only the host that it names
//! knows whose the zone is.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::Options;
use crate::Error;

/// The mark's name.
pub(crate) const AWAY: &str = ".migrating";

/// Longest word of it that is taken.
const LONGEST: usize = 255;

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Away {
    /// The migration.
    pub id: String,
    /// The host; none in one that an older zoneadm wrote.
    host: Option<String>,
}

impl Away {
    /// That of a zone, if it has one.
    ///
    /// # Errors
    /// When nobody can tell.
    pub fn of(zonepath: &Path) -> Result<Option<Self>, Error> {
        match fs::read_to_string(zonepath.join(AWAY)) {
            Ok(text) => {
                let mut words = text.split_whitespace().map(|word| {
                    let printable = word.chars().filter(|c| !c.is_control());
                    printable.take(LONGEST).collect::<String>()
                });
                let id = words.next().unwrap_or_default();
                let host = words.next();
                Ok(Some(Self { id, host }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Io(
                format!("read {}/{AWAY}", zonepath.display()),
                error,
            )),
        }
    }

    /// Refuses to ask another host than the one that it went to: that does not have it,
    /// which says nothing.
    pub fn refuse_other(&self, options: &Options) -> Result<(), Error> {
        match &self.host {
            Some(host) if without_user(host) != without_user(&options.host) => {
                Err(Error::Refused(format!(
                    "may be on {host} by now, and {} cannot know: give its zoneadm migrate {host} again.",
                    options.host
                )))
            }
            _ => Ok(()),
        }
    }
}

fn without_user(host: &str) -> &str {
    host.rsplit('@').next().unwrap_or(host)
}

/// Whether a zone may be another host's by now; also when nobody can tell.
pub(crate) fn is_away(zonepath: &Path) -> bool {
    zonepath.join(AWAY).try_exists().unwrap_or(true)
}

/// Stores that a zone may be that host's from now on.
pub(super) fn leave(zonepath: &Path, id: &str, host: &str) -> Result<(), Error> {
    let text = format!("{id}\n{host}\n");
    Ok(store::atomic::write(
        &zonepath.join(AWAY),
        text.as_bytes(),
        0o600,
    )?)
}

/// Stores that it is ours.
pub(super) fn come_back(zonepath: &Path) -> Result<(), Error> {
    Ok(store::atomic::remove(&zonepath.join(AWAY))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_that_it_went_to_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let to = |host: &str| Options {
            host: host.to_owned(),
            ..Options::default()
        };
        assert!(!is_away(path) && Away::of(path).unwrap().is_none());
        leave(path, "1f2e", "root@two").unwrap();
        let away = Away::of(path).unwrap().unwrap();
        assert_eq!(away.id, "1f2e");
        away.refuse_other(&to("root@two")).unwrap();
        away.refuse_other(&to("two")).unwrap();
        let error = away.refuse_other(&to("root@three")).unwrap_err();
        assert!(error.to_string().contains("may be on root@two by now"));
        // What an older one wrote.
        fs::write(path.join(AWAY), "1f2e").unwrap();
        let away = Away::of(path).unwrap().unwrap();
        assert_eq!(away.id, "1f2e");
        away.refuse_other(&to("three")).unwrap();
        come_back(path).unwrap();
        come_back(path).unwrap();
        assert!(!is_away(path));
        // What cannot be looked at may be away.
        fs::write(path.join("file"), "").unwrap();
        assert!(is_away(&path.join("file")) && Away::of(&path.join("file")).is_err());
    }
}
