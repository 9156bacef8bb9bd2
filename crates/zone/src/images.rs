//! The images of a host: imported once, for any number of zones.

use std::path::{Path, PathBuf};

use brand::ImageSource;
use storage::{About, Digest, Image, Images, Pruned};
use store::index::Index;

use crate::{Error, Host};

/// Where images are kept, below the alternate root.
const IMAGES: &str = "/var/lib/zones/images";

/// An image to be imported.
#[derive(Clone, Debug)]
pub struct Request {
    /// An archive or a folder of the host.
    pub path: PathBuf,
    /// What people shall call it; by default what the path ends with.
    pub name: Option<String>,
    /// What it must be: the digest of the archive's bytes, or that of the image.
    pub digest: Option<Digest>,
}

/// Opens the images of a host.
///
/// # Errors
/// When the folder cannot be made.
pub fn open(host: &Host) -> Result<Images, Error> {
    Ok(Images::open(&host.root.path(Path::new(IMAGES)))?)
}

/// Imports an image. One with the same files is returned as it is.
///
/// # Errors
/// [`Error::Brand`] for a source that is none, [`Error::Refused`] when it is not what
/// the digest says; there is then no new image.
pub fn import(
    host: &Host,
    request: &Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, Error> {
    let images = open(host)?;
    let folder = request.path.is_dir();
    let (source, archive) = match folder {
        true => (ImageSource::Directory(request.path.clone()), None),
        false => {
            // Before anything of it is looked at.
            let digest = Digest::of_file(&request.path)?;
            (ImageSource::Archive(request.path.clone()), Some(digest))
        }
    };
    let import = images.begin()?;
    let mut fault = host.fault.clone();
    let mut fill = || -> Result<About, Error> {
        strike(fault.strikes("import"))?;
        let done = brand::unpack_image(import.tree(), &source, progress)?;
        strike(fault.strikes("import"))?;
        if let Some(wanted) = request.digest.filter(|wanted| archive != Some(*wanted)) {
            let found = Digest::of_tree(import.tree())?;
            if found != wanted {
                let archive = archive.map(|digest| format!(", the archive {digest}"));
                return Err(Error::Refused(format!(
                    "{}: not {wanted}: the image is {found}{}",
                    request.path.display(),
                    archive.unwrap_or_default()
                )));
            }
        }
        Ok(About {
            name: request
                .name
                .clone()
                .unwrap_or_else(|| called(&request.path)),
            source: request.path.display().to_string(),
            archive,
            entries: done.files + done.directories + done.links,
            bytes: done.bytes,
        })
    };
    match fill() {
        Ok(about) => Ok(images.finish(import, &about)?),
        Err(error) => {
            import.discard();
            Err(error)
        }
    }
}

fn strike(struck: bool) -> Result<(), Error> {
    match struck {
        true => Err(Error::Refused(crate::Fault::error().to_string())),
        false => Ok(()),
    }
}

/// A name for what lies at `path`: `debian-12` for `/tmp/debian-12.tar.xz`.
fn called(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = [".gz", ".xz", ".zst", ".bz2", ".tgz", ".txz", ".tar"];
    let mut name = name.as_ref();
    while let Some(rest) = ends.iter().find_map(|end| name.strip_suffix(end)) {
        name = rest;
    }
    name.chars()
        .filter(|char| !char.is_control())
        .take(64)
        .collect()
}

/// Removes images that nothing stands on, and what crashes left beside images and zones.
///
/// # Errors
/// What cannot be removed.
pub fn prune(host: &Host) -> Result<Pruned, Error> {
    let mut pruned = open(host)?.prune()?;
    let index = Index::load(&host.root)?;
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in index.entries() {
        let zonepath = host.root.path(&entry.zonepath);
        // Layers lie beside zonepaths, or in those that are file systems.
        folders.push(zonepath.join(".layers"));
        folders.extend(zonepath.parent().map(|at| at.join(".layers")));
    }
    folders.sort();
    folders.dedup();
    for folder in folders {
        let more = storage::collect(&folder, storage::Lost::Keep)?;
        pruned.collected.stale_refs += more.stale_refs;
        pruned.collected.removed += more.removed;
        pruned.collected.lost.extend(more.lost);
    }
    Ok(pruned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_called_like_its_file() {
        for (path, name) in [
            ("/tmp/debian-12.tar.xz", "debian-12"),
            ("/tmp/alpine.tgz", "alpine"),
            ("/srv/root", "root"),
            ("/srv/v1.2", "v1.2"),
            ("/", ""),
        ] {
            assert_eq!(called(Path::new(path)), name);
        }
    }
}
