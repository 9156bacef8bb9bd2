//! Finds the path of a zone's suspend image, and checks that the path can be used.

use std::path::{Path, PathBuf};

use model::{Config, Verb};
use store::index::Entry;

use host::{Error, Host};
use kernelzone::image;
use platform::kind;
use subject::Subject;

/// Returns the path of a running zone's image, and the running configuration.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone cannot be suspended, or if its configuration has no
/// path for an image.
pub fn place(host: &Host, subject: &Subject) -> Result<(PathBuf, Config), Error> {
    let config = subject.config(host)?;
    kind::of(&config).admit(Verb::Suspend, &config)?;
    // Both configurations must have the same path: the zone is suspended by the running
    // configuration, and the next boot looks for the image by the stored one.
    let running = store::xml::load_running(&host.root, &subject.entry.name)?;
    let (Some(path), Some(next)) = (image::path(host, &running), image::path(host, &config)) else {
        return Err(Error::Refused(
            "it has no place for an image: add the resource suspend, with zonecfg, and boot it again."
                .to_owned(),
        ));
    };
    if path != next {
        return Err(Error::Refused(format!(
            "it would be suspended to {} and looked for at {}: boot it again first.",
            path.display(),
            next.display()
        )));
    }
    must_be_there(&path)?;
    Ok((path, running))
}

/// Refuses an image whose folder does not exist, before the zone is changed.
fn must_be_there(image: &Path) -> Result<(), Error> {
    match image.parent() {
        Some(folder) if !folder.is_dir() => Err(Error::Refused(format!(
            "the folder {} of its image is not there: make it, or change the path of suspend with zonecfg and boot it again.",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// Returns true if an inactive zone has an image of its memory.
pub fn is_suspended(host: &Host, entry: &Entry, config: &Config) -> bool {
    kind::of(config).is_suspended(host, entry, config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_image_whose_folder_is_missing_is_refused_first() {
        let folder = tempfile::tempdir().unwrap();
        must_be_there(&folder.path().join("image")).unwrap();
        let error = must_be_there(&folder.path().join("none/image")).unwrap_err();
        assert!(
            error.to_string().contains("none of its image is not there"),
            "{error}"
        );
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(must_be_there(&folder.path().join("file/image")).is_err());
    }
}
