//! The path of a zone's image: whether there is one, and whether it can be used.

use std::path::{Path, PathBuf};

use model::Config;
use model::brands::Family;
use store::index::Entry;

use host::{Error, Host};
use kernelzone::image;
use subject::Subject;

/// Returns the path of a running zone's image, and the configuration that it runs with.
///
/// # Errors
/// [`Error::Refused`] when there is no such place.
pub fn place(host: &Host, subject: &Subject) -> Result<(PathBuf, Config), Error> {
    let config = subject.config(host)?;
    may_suspend(&config)?;
    // What counts is what it runs with: there it will be looked for.
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

/// Refuses an image whose folder is not there, before anything happens to the zone.
fn must_be_there(image: &Path) -> Result<(), Error> {
    match image.parent() {
        Some(folder) if !folder.is_dir() => Err(Error::Refused(format!(
            "the folder {} of its image is not there: make it, or change the path of suspend with zonecfg and boot it again.",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

fn may_suspend(config: &Config) -> Result<(), Error> {
    if config.family() == Family::Kz {
        return Ok(());
    }
    // Processes of the host's own kernel cannot be written down whole: what they hold
    // of it (connections, locks, files that have no name) stays behind.
    Err(Error::Refused(format!(
        "zones of brand {} cannot be suspended: their processes are the host's. Use shutdown \
         to stop it in order, snapshot to keep its files, or a zone of brand kz, which has a \
         kernel of its own.",
        config.brand()
    )))
}

/// Returns whether a zone that is not active has an image of its memory.
pub fn is_suspended(host: &Host, entry: &Entry, config: &Config) -> bool {
    entry.state == model::State::Installed
        && config.family() == Family::Kz
        && image::path(host, config).is_some_and(|path| image::exists(&path))
}

/// Returns why the configured path of a zone's image cannot be used: another file exists there, or
/// the image of another suspended zone.
pub(crate) fn why_no_place(
    host: &Host,
    subject: &Subject,
    config: &Config,
) -> Result<Option<String>, Error> {
    let Some(path) = image::path(host, config).filter(|_| config.family() == Family::Kz) else {
        return Ok(None);
    };
    let shown = path.display();
    if let Some(why) = image::why_not_there(&path) {
        return Ok(Some(format!("could not verify suspend {shown}: {why}")));
    }
    let place = resolved(&path);
    for other in subject.index.entries() {
        if other.name == subject.entry.name {
            continue;
        }
        // One that is damaged has no image that it could use.
        let Ok(theirs) = store::xml::load(&host.root, &other.name) else {
            continue;
        };
        let theirs = image::path(host, &theirs).filter(|_| theirs.family() == Family::Kz);
        if theirs.is_some_and(|theirs| resolved(&theirs) == place) {
            return Ok(Some(format!(
                "could not verify suspend {shown}: zone {} is suspended to there",
                other.name
            )));
        }
    }
    Ok(None)
}

/// A path as it is whatever links lead to its folder.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
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
