//! Checks whether a zone's suspend image exists, and whether the zone can use the configured path
//! for its image.

use std::path::{Path, PathBuf};

use model::brands::Family;
use model::{Config, State};
use store::index::Entry;

use super::{exists, path, why_not_there};
use host::{Error, Host};
use subject::Subject;

/// Returns the path of the image of a kernel zone; `None` for other zones, and for kernel zones
/// that cannot be suspended.
fn of(host: &Host, config: &Config) -> Option<PathBuf> {
    path(host, config).filter(|_| config.family() == Family::Kz)
}

/// Returns true if a zone that is not active has an image of its memory.
pub fn is_suspended(host: &Host, entry: &Entry, config: &Config) -> bool {
    entry.state == State::Installed && of(host, config).is_some_and(|path| exists(&path))
}

/// Returns the reason why the configured path of a zone's image cannot be used: the path names
/// another kind of file, or the path of another zone's image.
///
/// # Errors
/// Fails with [`Error::Store`] if the configuration of another zone cannot be read.
pub fn why_not_usable(
    host: &Host,
    subject: &Subject,
    config: &Config,
) -> Result<Option<String>, Error> {
    let Some(path) = of(host, config) else {
        return Ok(None);
    };
    let shown = path.display();
    if let Some(why) = why_not_there(&path) {
        return Ok(Some(format!("could not verify suspend {shown}: {why}")));
    }
    let place = resolved(&path);
    for other in subject.index.entries() {
        if other.name == subject.entry.name {
            continue;
        }
        // A zone whose configuration cannot be read cannot use its image.
        let Ok(theirs) = store::xml::load(&host.root, &other.name) else {
            continue;
        };
        if of(host, &theirs).is_some_and(|theirs| resolved(&theirs) == place) {
            return Ok(Some(format!(
                "could not verify suspend {shown}: zone {} is suspended to there",
                other.name
            )));
        }
    }
    Ok(None)
}

/// Returns the path of a file, with the symbolic links in its folder's path resolved.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}
