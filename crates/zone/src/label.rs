//! The rules of sensitivity labels that a zone must meet before it is installed or booted.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use label::Label;
use model::{Config, Verb, ZoneName};
use store::{Root, labels};

use host::{Error, Host};

pub use crate::verify::labels::admit_copy;

/// The facts about labels on which the checks depend.
struct Facts {
    /// The problem of the zone's label with the names of labels on this host.
    invalid: Option<String>,
    /// Another zone of the host that has a label; found only for a zone without one.
    labeled: Option<ZoneName>,
    /// The running zones without a label; found only for a zone with one.
    unlabeled: Vec<ZoneName>,
}

/// Returns the problems of a zone's label for a verb.
///
/// # Errors
/// Fails if the index of zones, or the state or configuration of another zone cannot be read.
pub(crate) fn problems(host: &Host, config: &Config, verb: Verb) -> Result<Vec<String>, Error> {
    let starts = matches!(verb, Verb::Boot | Verb::Ready);
    let facts = match config.label() {
        Some(label) => Facts {
            invalid: check(&host.root, label)
                .err()
                .map(|error| host::flatten(&error)),
            labeled: None,
            unlabeled: match starts {
                true => labels::running_unlabeled(&host.root, config.name())?,
                false => Vec::new(),
            },
        },
        None if starts => Facts {
            invalid: None,
            labeled: labels::first_labeled(&host.root)?,
            unlabeled: Vec::new(),
        },
        None => return Ok(Vec::new()),
    };
    Ok(decide(&facts))
}

fn check(root: &Root, label: Label) -> Result<(), labels::Error> {
    let names = labels::encodings(root)?;
    Ok(names.check_accredited(label)?)
}

fn decide(facts: &Facts) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(why) = &facts.invalid {
        problems.push(format!("{VERIFY}{why}"));
    }
    if let Some(other) = &facts.labeled {
        problems.push(format!(
            "{VERIFY}it has none, and zone {other} of this host has one: detach \
             it, set its label with zonecfg, and attach it"
        ));
    }
    if !facts.unlabeled.is_empty() {
        let names: Vec<&str> = facts.unlabeled.iter().map(|zone| zone.as_str()).collect();
        problems.push(format!(
            "{VERIFY}it has one, and these running zones have none: {}: halt them, or also \
             detach each, set its label with zonecfg, and attach it",
            names.join(", ")
        ));
    }
    problems
}

/// Refuses files in the zonepath of another zone as the source of a root, if the label of the new
/// zone does not dominate the label of that zone.
///
/// # Errors
/// Fails with [`Error::Refused`], or if the configuration of a zone cannot be read.
pub(crate) fn admit_source(host: &Host, config: &Config, from: &Path) -> Result<(), Error> {
    // The command that reads the source reports a source that does not exist. A pipe, and the file
    // without a name to which an import decrypts an archive, lie in no zonepath.
    let named = |stat: &Metadata| stat.nlink() > 0 && (stat.is_file() || stat.is_dir());
    if !from.metadata().is_ok_and(|stat| named(&stat)) {
        return Ok(());
    }
    // The label is that of a zone on this host, or of the host.
    let low = match labels::of_path(&host.root, from) {
        Ok(Label::ADMIN_LOW) => return Ok(()),
        Ok(low) => low,
        Err(error) => return Err(Error::Refused(host::flatten(&error))),
    };
    if config.label().is_some_and(|high| high.dominates(low)) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{} is a file of a zone with the label {low}: a copy at a label that does not dominate {low} would lower the label of the files.",
        from.display()
    )))
}

/// The beginning of every problem of this module.
const VERIFY: &str = "could not verify label: ";

/// Returns true for a problem that [`problems`] has found.
pub(crate) fn is_about(problem: &str) -> bool {
    problem.starts_with(VERIFY)
}

/// Returns the primary zone of a label: the first zone of the index that has the label. All other
/// zones with the same label are secondary.
///
/// # Errors
/// Fails if the index or a configuration cannot be read.
pub fn primary(root: &Root, label: Label) -> Result<Option<ZoneName>, store::Error> {
    let zones = labels::of_zones(root)?;
    let same = |(_, other): &(ZoneName, Option<Label>)| *other == Some(label);
    Ok(zones.into_iter().find(same).map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_zone_without_a_label_beside_one_that_has_one() {
        let facts = |invalid: Option<&str>, labeled: Option<&str>| Facts {
            invalid: invalid.map(str::to_owned),
            labeled: labeled.map(|name| name.parse().unwrap()),
            unlabeled: Vec::new(),
        };
        assert_eq!(decide(&facts(None, None)), [""; 0]);
        let problems = decide(&facts(None, Some("secret")));
        assert_eq!(
            problems,
            [
                "could not verify label: it has none, and zone secret of this host has one: detach it, set its label with zonecfg, and attach it"
            ]
        );
        let problems = decide(&facts(Some("unknown word"), None));
        assert_eq!(problems, ["could not verify label: unknown word"]);
    }

    #[test]
    fn refuses_a_zone_with_a_label_beside_running_zones_without_one() {
        let facts = Facts {
            invalid: None,
            labeled: None,
            unlabeled: vec!["db".parse().unwrap(), "web".parse().unwrap()],
        };
        assert_eq!(
            decide(&facts),
            [
                "could not verify label: it has one, and these running zones have none: db, web: halt them, or also detach each, set its label with zonecfg, and attach it"
            ]
        );
    }
}
