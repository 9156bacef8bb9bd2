//! The names of sensitivity labels, the labels of all zones, and those of the network.

mod place;
mod shown;

use std::fs::File;
use std::path::{Path, PathBuf};

use label::{BadEncodings, BadLabel, Encodings, Label};
use model::ZoneName;
use model::config::LABEL;

use crate::index::Index;
pub use crate::label_network as network;
use crate::{Root, lock, runtime, xml};

pub use place::of_path;
pub use shown::{Shown, UNREADABLE};

/// The errors of labels on this host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host has no names of labels.
    #[error("{}: no such file: labels need it; see docs/labels.md", .0.display())]
    Missing(PathBuf),
    /// The file with the names of labels is not valid.
    #[error("{}: {problem}", path.display())]
    Encodings {
        /// The path of the file.
        path: PathBuf,
        /// The problem of the file.
        problem: BadEncodings,
    },
    /// The label is not valid on this host.
    #[error(transparent)]
    Label(#[from] BadLabel),
    /// A path leads into the mounts of a zone, where the host cannot find its folders.
    #[error("{}: the mounts of this process do not have it: name its path on the host", .0.display())]
    Elsewhere(PathBuf),
    /// A file could not be read.
    #[error(transparent)]
    Store(#[from] crate::Error),
}

/// Reads the names of labels of the host.
///
/// # Errors
/// Fails with [`Error::Missing`] if there is no such file, or with the first error of the file.
pub fn encodings(root: &Root) -> Result<Encodings, Error> {
    read_file(root, &root.label_encodings(), Encodings::read)
}

/// Reads the names of clearances of the host.
///
/// # Errors
/// Fails as [`encodings`].
pub fn clearances(root: &Root) -> Result<Encodings, Error> {
    read_file(root, &root.label_encodings(), Encodings::read_clearances)
}

fn read_file(
    root: &Root,
    path: &Path,
    read: impl Fn(&str) -> Result<Encodings, BadEncodings>,
) -> Result<Encodings, Error> {
    let text = xml::read_bounded(path)?.ok_or_else(|| Error::Missing(root.shown(path)))?;
    read(&text).map_err(|problem| Error::Encodings {
        path: root.shown(path),
        problem,
    })
}

/// Returns a label as text, or in hexadecimal if the host has no name for the label.
#[must_use]
pub fn text(root: &Root, label: Label) -> String {
    encodings(root).map_or_else(|_| label.to_string(), |names| names.text(label))
}

/// Returns the label of every zone of the index, in the order of the index; `None` for a zone that
/// has no label. A zone without a configuration has no label.
///
/// # Errors
/// Fails if the index or a configuration cannot be read.
pub fn of_zones(root: &Root) -> Result<Vec<(ZoneName, Option<Label>)>, crate::Error> {
    let index = Index::load(root)?;
    let zones = index.entries().iter().filter(|one| !one.name.is_global());
    zones
        .map(|entry| Ok((entry.name.clone(), of_zone(root, &entry.name)?)))
        .collect()
}

/// Returns the stored label of a zone.
///
/// # Errors
/// Fails if the configuration cannot be read.
pub fn of_zone(root: &Root, zone: &ZoneName) -> Result<Option<Label>, crate::Error> {
    // Most zones have no label. Reading their files as text is much quicker than parsing them.
    match xml::text(root, zone)? {
        Some(text) if text.contains(LABEL) => Ok(xml::load(root, zone)?.label()),
        _ => Ok(None),
    }
}

/// Returns false if no zone of this host can have a label and run. Hosts without labels read no
/// configuration of other zones at a boot.
#[must_use]
pub fn in_use(root: &Root) -> bool {
    // A label needs the names of labels when it is set and when its zone boots. The lock remains
    // from a zone with a label that was started since the boot of the host.
    [root.label_encodings(), root.labels_lock()]
        .iter()
        .any(|path| match std::fs::symlink_metadata(path) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        })
}

/// Takes the lock under which a zone is checked and started. Zones with labels take it one after
/// another, because two that start at once could each be checked before the other one runs. Zones
/// without a label share the lock. Returns `None` on a host without labels.
///
/// # Errors
/// Fails if the lock cannot be taken.
pub fn lock(root: &Root, label: Option<Label>) -> Result<Option<File>, crate::Error> {
    match label {
        Some(_) => lock::exclusive(&root.labels_lock()).map(Some),
        None if in_use(root) => lock::shared(&root.labels_lock()).map(Some),
        None => Ok(None),
    }
}

/// Returns a zone that has a label, if any zone of the host has one.
///
/// # Errors
/// Fails if the index or, before a zone with a label is found, a configuration cannot be read.
pub fn first_labeled(root: &Root) -> Result<Option<ZoneName>, crate::Error> {
    if !in_use(root) {
        return Ok(None);
    }
    let zones = of_zones(root)?;
    let labeled = zones.into_iter().find(|(_, label)| label.is_some());
    Ok(labeled.map(|(name, _)| name))
}

/// Returns the running zones without a label, except `zone`.
///
/// # Errors
/// Fails if the index, the state or the configuration of a running zone cannot be read.
pub fn running_unlabeled(root: &Root, zone: &ZoneName) -> Result<Vec<ZoneName>, crate::Error> {
    let index = Index::load(root)?;
    let names = index.entries().iter().map(|entry| &entry.name);
    let mut found = Vec::new();
    for name in names.filter(|name| !name.is_global() && *name != zone) {
        if runtime::load(root, name)?.is_none() {
            continue;
        }
        let label = match xml::load_running(root, name) {
            Ok(config) => config.label(),
            Err(crate::Error::NoSuchZone(_)) => None,
            Err(error) => return Err(error),
        };
        if label.is_none() {
            found.push(name.clone());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use model::Config;

    use super::*;
    use crate::index::{self, Entry};

    fn root_with(zones: &[(&str, Option<&str>)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir_all(root.etc()).unwrap();
        std::fs::create_dir_all(root.run()).unwrap();
        for (name, label) in zones {
            let name: ZoneName = name.parse().unwrap();
            let mut config = Config::new(name.clone());
            config.set_zonepath("/zones/%{zonename}").unwrap();
            if let Some(label) = label {
                config.set(LABEL, label).unwrap();
            }
            xml::save(&root, &config).unwrap();
            index::update(&root, |index| {
                index.put(Entry::configured(name, "/zones/x".into()));
                Ok::<(), crate::Error>(())
            })
            .unwrap();
        }
        (folder, root)
    }

    #[test]
    fn labels_survive_the_stored_configuration() {
        let (_folder, root) = root_with(&[("plain", None), ("high", Some("0x0004-08-68"))]);
        let zones = of_zones(&root).unwrap();
        let label = "0x0004-08-68".parse().unwrap();
        assert_eq!(
            zones,
            [
                ("plain".parse().unwrap(), None),
                ("high".parse().unwrap(), Some(label))
            ]
        );
        assert_eq!(first_labeled(&root).unwrap(), None);
        std::fs::write(root.label_encodings(), "").unwrap();
        assert_eq!(first_labeled(&root).unwrap(), Some("high".parse().unwrap()));
        assert_eq!(text(&root, label), "0x0004-08-68");
        let (_folder, root) = root_with(&[("plain", None)]);
        assert_eq!(first_labeled(&root).unwrap(), None);
    }

    #[test]
    fn a_configuration_that_cannot_be_read_may_have_a_label() {
        let (_folder, root) = root_with(&[("plain", None), ("high", Some("0x0004-08-68"))]);
        std::fs::write(root.xml(&"high".parse().unwrap()), "<zone label=").unwrap();
        // A host without labels does not read it.
        assert_eq!(first_labeled(&root).unwrap(), None);
        assert!(lock(&root, None).unwrap().is_none());
        std::fs::write(root.label_encodings(), "").unwrap();
        let error = first_labeled(&root).unwrap_err().to_string();
        assert!(error.contains("high.xml"), "{error}");
        // A zone with a label that has been started counts without the names, too.
        std::fs::remove_file(root.label_encodings()).unwrap();
        drop(lock(&root, "0x0004-08-68".parse().ok()).unwrap());
        assert!(first_labeled(&root).is_err());
    }

    #[test]
    fn listings_read_nothing_on_a_host_without_labels() {
        let (_folder, root) = root_with(&[("plain", None), ("high", Some("0x0004-08-68"))]);
        let [plain, high] = ["plain", "high"].map(|name| name.parse::<ZoneName>().unwrap());
        let shown = |zone| Shown::of_host(&root).of_zone(zone);
        assert_eq!(shown(&high).unwrap(), None);
        std::fs::write(root.label_encodings(), "").unwrap();
        assert_eq!(shown(&high).unwrap().as_deref(), Some("0x0004-08-68"));
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../label/tests/label_encodings");
        std::fs::copy(example, root.label_encodings()).unwrap();
        let text = "CONFIDENTIAL : NEED TO KNOW";
        assert_eq!(shown(&high).unwrap().as_deref(), Some(text));
        assert_eq!(shown(&plain).unwrap(), None);
        // A configuration that cannot be read is an error, and not a zone without a label.
        std::fs::write(root.xml(&high), "<zone label=").unwrap();
        assert!(shown(&high).is_err());
        std::fs::remove_file(root.label_encodings()).unwrap();
        assert_eq!(shown(&high).unwrap(), None);
    }

    #[test]
    fn zones_without_a_label_start_at_the_same_time() {
        let (_folder, root) = root_with(&[]);
        std::fs::write(root.label_encodings(), "").unwrap();
        let (first, second) = (lock(&root, None).unwrap(), lock(&root, None).unwrap());
        assert!(first.is_some() && second.is_some());
        let path = root.labels_lock();
        assert!(lock::try_exclusive(&path).unwrap().is_none());
        drop((first, second));
        assert!(lock::try_exclusive(&path).unwrap().is_some());
    }

    #[test]
    fn a_missing_or_bad_file_of_names_is_named() {
        let (_folder, root) = root_with(&[]);
        let error = encodings(&root).unwrap_err().to_string();
        assert!(
            error.starts_with("/etc/zones/label_encodings: no such file"),
            "{error}"
        );
        std::fs::write(root.label_encodings(), "VERSION= x\nCLASSES:\n").unwrap();
        let error = encodings(&root).unwrap_err().to_string();
        assert!(error.contains("/etc/zones/label_encodings: "), "{error}");
        assert!(
            error.contains("line 3: expected section CLASSIFICATIONS:"),
            "{error}"
        );
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../label/tests/label_encodings");
        std::fs::copy(example, root.label_encodings()).unwrap();
        let label = "0x0004-08-68".parse().unwrap();
        assert_eq!(text(&root, label), "CONFIDENTIAL : NEED TO KNOW");
    }
}
