//! The label of the files in a zonepath, which an attach must not lower.

use std::path::Path;

use model::Config;
use model::config::LABEL;
use store::xml::{self, manifest::Manifest};
use subject::identity::{FILE, Identity};

use crate::verify::labels::admit_copy;
use host::Error;

/// Refuses to attach files at a label that does not dominate their label: the label of the zone when
/// it was detached or exported, and when it last booted.
pub(super) fn keep(
    config: &Config,
    zonepath: &Path,
    manifest: Option<&Manifest>,
    identity: &Identity,
) -> Result<(), Error> {
    if let Some(manifest) = manifest {
        admit_copy(&manifest.config, config)?;
    }
    let booted = identity.configuration.as_ref();
    // Most zones have no label.
    if let Some(booted) = booted.filter(|booted| booted.text.contains(LABEL)) {
        let path = zonepath.join(FILE);
        let before = xml::parse_any(&booted.text, &path, config.name())?;
        admit_copy(&before, config)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use store::identity::Configuration;

    use super::*;

    const LOW: &str = "0x0002-08-00";
    const HIGH: &str = "0x0004-08-68";
    const ASIDE: &str = "0x0004-08-10";

    fn zone(label: &str) -> Config {
        let mut config = Config::new("web".parse().unwrap());
        if !label.is_empty() {
            config.set(LABEL, label).unwrap();
        }
        config
    }

    fn booted(text: &str) -> Identity {
        Identity {
            configuration: Some(Configuration {
                generation: 1,
                text: text.to_owned(),
            }),
            ..Identity::default()
        }
    }

    #[test]
    fn the_label_of_files_is_not_lowered() {
        let none = Identity::default();
        let path = Path::new("/zones/web");
        for (files, now, admitted) in [
            ("", "", true),
            ("", LOW, true),
            (LOW, LOW, true),
            (LOW, HIGH, true),
            (HIGH, LOW, false),
            (HIGH, ASIDE, false),
            (HIGH, "", false),
        ] {
            let text = xml::render(&zone(files));
            let manifest = Manifest::parse(&text, path).unwrap();
            let detached = keep(&zone(now), path, Some(&manifest), &none);
            assert_eq!(detached.is_ok(), admitted, "{files} {now} {detached:?}");
            let lost = keep(&zone(now), path, None, &booted(&text));
            assert_eq!(lost.is_ok(), admitted, "{files} {now} {lost:?}");
        }
        let damaged = keep(&zone(HIGH), path, None, &booted("<zone label="));
        assert!(damaged.is_err());
    }
}
