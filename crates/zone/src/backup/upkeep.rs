//! Checks a repository, and removes moments that are no longer wanted.

use std::str::FromStr;

use model::ZoneName;
use serde::Deserialize;

use super::moments::{self, Moment};
use super::repository::Backups;
use host::Error;

/// Maximum number of moments of one kind that a policy keeps.
const MAX_KEPT: u32 = 10_000;

/// The kinds of moments that a policy can keep.
const KINDS: [&str; 6] = ["last", "hourly", "daily", "weekly", "monthly", "yearly"];

/// The number of moments of each kind that stay, such as `daily=7,weekly=4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep(Vec<(&'static str, u32)>);

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut kept: Vec<(&'static str, u32)> = Vec::new();
        for part in text.split(',') {
            let bad = || {
                format!(
                    "{part}: expected {}, each with =number, separated by commas",
                    KINDS.join(", ")
                )
            };
            let (kind, number) = part.split_once('=').ok_or_else(bad)?;
            let kind = KINDS.into_iter().find(|one| *one == kind).ok_or_else(bad)?;
            let number: u32 = number.parse().map_err(|_| bad())?;
            let is_new = kept.iter().all(|(one, _)| *one != kind);
            if !(1..=MAX_KEPT).contains(&number) || !is_new {
                return Err(bad());
            }
            kept.push((kind, number));
        }
        Ok(Self(kept))
    }
}

/// The part of the engine's answer that lists the moments to remove.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    remove: Option<Vec<Removed>>,
}

#[derive(Deserialize)]
struct Removed {
    id: String,
}

impl Backups {
    /// Reads and verifies all data of the repository. Returns the number of moments.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if a part of the repository is damaged or missing.
    pub fn check(&self) -> Result<usize, Error> {
        self.answer(&["check", "--read-data"])?;
        Ok(self.moments()?.len())
    }

    /// Removes the moments of a zone that a policy does not keep, and returns them. With `dry_run`
    /// removes nothing. Their data stays until [`Backups::prune`].
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the repository cannot be read or changed.
    pub fn forget(
        &self,
        zone: &ZoneName,
        keep: &Keep,
        dry_run: bool,
    ) -> Result<Vec<Moment>, Error> {
        let all = self.moments()?;
        let words = words(zone, keep, dry_run);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let removed = removed(&self.answer(&words)?)?;
        let own = moments::of_zone(&all, zone, None).into_iter();
        Ok(own.filter(|moment| removed.contains(&moment.id)).collect())
    }

    /// Removes data that no moment uses.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the repository cannot be read or changed.
    pub fn prune(&self) -> Result<(), Error> {
        self.answer(&["prune", "--quiet"]).map(drop)
    }
}

fn words(zone: &ZoneName, keep: &Keep, dry_run: bool) -> Vec<String> {
    let mut words: Vec<String> = ["forget", "--json", "--group-by", ""]
        .map(str::to_owned)
        .into();
    words.extend(["--tag".to_owned(), format!("zone={zone}")]);
    for (kind, number) in &keep.0 {
        words.extend([format!("--keep-{kind}"), number.to_string()]);
    }
    if dry_run {
        words.push("--dry-run".to_owned());
    }
    words
}

/// Returns the ids in the engine's answer. Without moments the answer is empty.
fn removed(answer: &[u8]) -> Result<Vec<String>, Error> {
    if answer.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let groups: Option<Vec<Group>> = serde_json::from_slice(answer)
        .map_err(|error| Error::Refused(format!("restic's list of removed moments: {error}")))?;
    let groups = groups.unwrap_or_default().into_iter();
    Ok(groups
        .flat_map(|group| group.remove.unwrap_or_default())
        .map(|one| one.id)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_kinds_and_numbers() {
        let keep: Keep = "daily=7,weekly=4".parse().unwrap();
        let zone: ZoneName = "web".parse().unwrap();
        assert_eq!(
            words(&zone, &keep, true).join(" "),
            "forget --json --group-by  --tag zone=web --keep-daily 7 --keep-weekly 4 --dry-run"
        );
        for wrong in [
            "",
            "7",
            "daily",
            "daily=0",
            "daily=x",
            "daily=1,daily=2",
            "tag=1",
            "last=99999",
        ] {
            assert!(wrong.parse::<Keep>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_answer_lists_removed_moments() {
        assert!(removed(b"\n").unwrap().is_empty());
        let text = br#"[{"tags":null,"keep":[{"id":"a"}],"remove":[{"id":"b"}]},{"remove":null}]"#;
        assert_eq!(removed(text).unwrap(), ["b"]);
        assert!(removed(b"[{").is_err());
    }
}
