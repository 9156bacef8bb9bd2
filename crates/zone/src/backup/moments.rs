//! The moments in a repository: the states of zones that were backed up.
//!
//! The engine stores each moment with the tags `zone=NAME` and `uuid=UUID`. A moment without these
//! tags belongs to another user of the repository and is ignored.

use host::Error;
use model::{Uuid, ZoneName};
use serde::{Deserialize, Serialize};

use crate::utc::seconds;

/// Maximum number of moments of which a list is accepted.
const MAX_MOMENTS: usize = 100_000;

/// Number of characters of an id in lists.
const SHORT_ID: usize = 8;

/// Minimum number of characters with which a user can name an id.
const MIN_ID: usize = 4;

/// The word for the newest moment.
const LATEST: &str = "latest";

/// The tag with the number of bytes that a backup added, for versions of the engine that do not
/// record this number.
pub(super) const ADDED: &str = "added=";

/// A moment of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// The name of the zone.
    pub zone: String,
    /// The uuid of the zone, which stays the same on every host.
    pub uuid: Option<String>,
    /// The id of the moment: 64 hexadecimal digits.
    pub id: String,
    /// The time of the backup in UTC.
    pub time: String,
    /// The time of the backup, in seconds since 1970.
    pub seconds: u64,
    /// The name of the host on which the zone was.
    pub host: String,
    /// Bytes that this backup added to the repository, before compression; `None` if unknown.
    pub added_bytes: Option<u64>,
}

impl Moment {
    /// Returns the beginning of the id, as lists show it.
    #[must_use]
    pub fn short_id(&self) -> &str {
        self.id.get(..SHORT_ID).unwrap_or(&self.id)
    }
}

/// A moment as the engine writes it.
#[derive(Deserialize)]
struct Raw {
    id: String,
    time: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    summary: Option<Summary>,
}

#[derive(Deserialize)]
struct Summary {
    #[serde(default)]
    data_added: Option<u64>,
}

/// Parses a list of the engine. Returns the moments of zones, the oldest first.
///
/// # Errors
/// Fails with [`Error::Refused`] if the list is damaged or too long.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Moment>, Error> {
    let bad = |why: String| Error::Refused(format!("the repository's list of moments: {why}"));
    // Older versions of the engine write null for an empty list.
    let raw: Option<Vec<Raw>> =
        serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
    let raw = raw.unwrap_or_default();
    if raw.len() > MAX_MOMENTS {
        return Err(bad(format!("more than {MAX_MOMENTS} moments")));
    }
    let mut moments = Vec::new();
    for one in raw {
        let tags = one.tags.unwrap_or_default();
        let tag = |name: &str| tags.iter().find_map(|tag| tag.strip_prefix(name));
        let Some(Ok(zone)) = tag("zone=").map(str::parse::<ZoneName>) else {
            continue;
        };
        let is_id = one.id.len() == 64 && one.id.bytes().all(|b| b.is_ascii_hexdigit());
        let seconds = seconds(&one.time).filter(|_| is_id);
        let seconds = seconds.ok_or_else(|| bad("a backup without id or time".to_owned()))?;
        let uuid = tag("uuid=").and_then(|uuid| uuid.parse::<Uuid>().ok());
        let added = tag(ADDED).and_then(|bytes| bytes.parse().ok());
        moments.push(Moment {
            zone: zone.to_string(),
            uuid: uuid.map(|uuid| uuid.to_string()),
            id: one.id,
            time: control::log::timestamp(seconds),
            seconds,
            host: one
                .hostname
                .chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .take(64)
                .collect(),
            added_bytes: one.summary.and_then(|summary| summary.data_added).or(added),
        });
    }
    moments.sort_by_key(|moment| moment.seconds);
    Ok(moments)
}

/// Returns the moments of a zone, the oldest first. A zone that was renamed has the same uuid.
pub(super) fn of_zone(all: &[Moment], zone: &ZoneName, uuid: Option<Uuid>) -> Vec<Moment> {
    let uuid = uuid.map(|uuid| uuid.to_string());
    let is_of =
        |moment: &&Moment| moment.zone == zone.as_str() || (uuid.is_some() && moment.uuid == uuid);
    all.iter().filter(is_of).cloned().collect()
}

/// Finds the moment that a user names: the newest by default, or by the beginning of its id, or the
/// newest whose time begins so. An id may belong to another zone, whose content `zone` then gets.
///
/// # Errors
/// Fails with [`Error::Refused`] if there is no such moment, or if an id is not unique.
pub(super) fn find(
    all: &[Moment],
    zone: &ZoneName,
    uuid: Option<Uuid>,
    word: Option<&str>,
) -> Result<Moment, Error> {
    let own = of_zone(all, zone, uuid);
    let Some(word) = word.filter(|word| *word != LATEST) else {
        return own.last().cloned().ok_or_else(|| {
            Error::Refused("has no backup in the repository; zoneadm backups lists all.".to_owned())
        });
    };
    if word.len() >= MIN_ID && word.bytes().all(|b| b.is_ascii_hexdigit()) {
        let mut found = all.iter().filter(|moment| moment.id.starts_with(word));
        match (found.next(), found.next()) {
            (Some(one), None) => return Ok(one.clone()),
            (Some(_), Some(_)) => {
                return Err(Error::Refused(format!(
                    "{word} is the beginning of several moments: give more digits."
                )));
            }
            _ => {}
        }
    }
    let of_time = own
        .iter()
        .rev()
        .find(|moment| moment.time.starts_with(word));
    of_time.cloned().ok_or_else(|| {
        Error::Refused(format!(
            "has no backup {word}: expected an id or the beginning of a time of zoneadm backups."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "298e665fd9fec3daacb0cec320dfcf252bcc420b6aa4f415bce5ef8a8889b209";

    fn raw(id: &str, time: &str, tags: &str) -> String {
        format!(r#"{{"time":"{time}","tree":"x","hostname":"a\u001bb","tags":{tags},"id":"{id}"}}"#)
    }

    fn zone() -> ZoneName {
        "web".parse().unwrap()
    }

    #[test]
    fn moments_of_zones_are_listed_and_others_are_ignored() {
        assert_eq!(parse(b"null").unwrap(), []);
        let other = ID.replace('2', "3");
        let text = format!(
            "[{},{},{}]",
            raw(ID, "2026-01-02T00:00:00Z", r#"["zone=web","added=5"]"#),
            raw(&other, "2026-01-01T00:00:00Z", r#"["zone=web"]"#),
            raw(ID, "bad", "null"),
        );
        let all = parse(text.as_bytes()).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].id, other);
        assert_eq!((all[1].host.as_str(), all[1].added_bytes), ("a?b", Some(5)));
        let found = |word: Option<&str>| find(&all, &zone(), None, word).map(|one| one.id);
        assert_eq!(found(None).unwrap(), ID);
        assert_eq!(found(Some("latest")).unwrap(), ID);
        assert_eq!(found(Some("398e")).unwrap(), other);
        assert_eq!(found(Some("2026-01-01")).unwrap(), other);
        for wrong in ["2025", "98e6", "398f", "x"] {
            assert!(found(Some(wrong)).is_err(), "{wrong}");
        }
        let db: ZoneName = "db".parse().unwrap();
        assert!(find(&all, &db, None, None).is_err());
        assert!(find(&all, &db, None, Some("398e")).is_ok());
    }

    #[test]
    fn a_list_of_a_repository_that_lies_is_refused() {
        for wrong in [
            "{}".to_owned(),
            "[".to_owned(),
            format!(
                "[{}]",
                raw("../x", "2026-01-02T00:00:00Z", r#"["zone=web"]"#)
            ),
            format!("[{}]", raw(ID, "later", r#"["zone=web"]"#)),
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let bad_name = raw(ID, "2026-01-02T00:00:00Z", r#"["zone=../x"]"#);
        assert_eq!(parse(format!("[{bad_name}]").as_bytes()).unwrap(), []);
    }
}
