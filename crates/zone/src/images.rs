//! The images of a host. Each image is imported once and can be used by any number of zones.

pub mod by_name;
mod container;
mod fetch;
mod request;
mod source;
pub(crate) mod wanted;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use brand::ImageSource;
use model::ZoneName;
use model::plan::Recipe;
use storage::{About, Digest, Image, Images, Pruned};
use store::lock;

use host::{Error, Host};

pub use request::Request;
pub use source::{BadSource, Source};

/// The folder of the images, relative to the alternate root.
const IMAGES: &str = "/var/lib/zones/images";

/// Opens the folder of the host's images, and makes it if it is missing.
///
/// # Errors
/// Fails if the folder cannot be made or opened.
pub fn open(host: &Host) -> Result<Images, Error> {
    Ok(Images::open(&host.root.path(Path::new(IMAGES)))?)
}

/// Returns all images of a host. Makes no folder.
///
/// # Errors
/// Fails if the images cannot be read.
pub fn list(host: &Host) -> Result<Vec<Image>, Error> {
    match Images::existing(&host.root.path(Path::new(IMAGES)))? {
        Some(images) => Ok(images.list()?),
        None => Ok(Vec::new()),
    }
}

/// Returns the image that a word names, see [`Images::find`]. Makes no folder.
///
/// # Errors
/// Fails if no image or more than one image has this name.
pub fn find(host: &Host, word: &str) -> Result<Image, Error> {
    match Images::existing(&host.root.path(Path::new(IMAGES)))? {
        Some(images) => Ok(images.find(word)?),
        None => Err(storage::Error::NoImage(word.chars().take(100).collect()).into()),
    }
}

/// Opens the folder of the host's images; `None` if the folder does not exist.
pub(crate) fn open_existing(host: &Host) -> Result<Option<Images>, Error> {
    Ok(Images::existing(&host.root.path(Path::new(IMAGES)))?)
}

/// Returns the path of the folder with the layers of images. The folder need not exist.
pub(crate) fn layers(host: &Host) -> PathBuf {
    host.root.path(Path::new(IMAGES)).join(".layers")
}

/// Imports an image. If an image with the same files exists, returns the existing image.
///
/// # Errors
/// Fails with [`Error::Brand`] if the source is not an image, and with [`Error::Refused`] if the
/// image does not match the digest. No new image exists then.
pub fn import(
    host: &Host,
    request: &Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, Error> {
    let images = open(host)?;
    let path = match &request.source {
        Source::Files(path) => path,
        Source::Catalogue(chosen) => {
            return by_name::import(host, &images, request, chosen, progress);
        }
        _ => return container::import(host, &images, request, progress),
    };
    // The download is removed when the image is unpacked.
    let download;
    let (source, archive) = match (path.is_dir(), request.digest) {
        (true, _) => (ImageSource::Directory(path.clone()), None),
        // The digest is computed before the archive is read for unpacking.
        (false, None) => (
            ImageSource::Archive(path.clone()),
            Some(Digest::of_file(path)?),
        ),
        // The archive is copied first, so that the unpacked bytes are the bytes of the digest even
        // if the file changes meanwhile.
        (false, Some(_)) => {
            download = images.download()?;
            let name = path.file_name().unwrap_or("archive".as_ref());
            let copy = download.path().join(name);
            let digest = Digest::of_copy(path, &copy)?;
            (ImageSource::Archive(copy), Some(digest))
        }
    };
    let about = About {
        name: request
            .name
            .clone()
            .unwrap_or_else(|| request.source.called()),
        source: path.display().to_string(),
        archive,
        ..About::default()
    };
    let wanted = request.digest.filter(|wanted| archive != Some(*wanted));
    unpack(host, &images, &source, about, wanted, progress)
}

/// Makes an image from an archive or a folder. Fails if `wanted` is not the digest of the files.
fn unpack(
    host: &Host,
    images: &Images,
    source: &ImageSource,
    about: About,
    wanted: Option<Digest>,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, Error> {
    let import = images.begin()?;
    let mut fault = host.fault.clone();
    let fill = || -> Result<About, Error> {
        strike(fault.strikes("import"))?;
        let done = brand::unpack_image(import.tree(), source, progress)?;
        strike(fault.strikes("import"))?;
        if let Some(wanted) = wanted {
            let found = Digest::of_tree(import.tree())?;
            if found != wanted {
                let archive = about
                    .archive
                    .map(|digest| format!(", the archive {digest}"));
                return Err(Error::Refused(format!(
                    "{}: not {wanted}: the image is {found}{}",
                    about.source,
                    archive.unwrap_or_default()
                )));
            }
        }
        Ok(About {
            entries: done.files + done.directories + done.links,
            bytes: done.bytes,
            ..about
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

/// Makes the image of a recipe if it does not exist. Zones that are made from the same recipe share
/// the files of this image.
///
/// # Errors
/// Fails with [`Error::Brand`] and the last message of the bootstrap program. No image exists then.
pub fn bootstrap(
    host: &Host,
    zone: &ZoneName,
    recipe: &Recipe,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let images = open(host)?;
    // Other processes that want an image of a recipe wait for this lock.
    let _lock = lock::exclusive(&host.root.run().join("bootstrap.lock"))?;
    if let Ok(image) = images.find(&recipe.image) {
        progress(&format!(
            "On image {} of {}; without it (zoneimg remove) the next install makes a new one.",
            image.about.name,
            timestamp(image.imported)
        ));
        return Ok(());
    }
    let (mut log, path) = log_of(host, zone).map_err(Error::io("make the install log"))?;
    progress(&format!("Log: {}.", path.display()));
    progress(&format!(
        "Making image {} with {}.",
        recipe.image,
        recipe.program.display()
    ));
    let import = images.begin()?;
    let began = std::time::Instant::now();
    match brand::bootstrap::run(recipe, import.tree(), &mut log, progress) {
        Ok(()) => {
            let about = About {
                name: recipe.image.clone(),
                source: recipe.to_string(),
                ..About::default()
            };
            let image = images.finish(import, &about)?;
            let took = began.elapsed().as_secs();
            progress(&format!("Made image {} in {took} s.", image.digest));
            Ok(())
        }
        Err(error) => {
            import.discard();
            Err(error.into())
        }
    }
}

fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH);
    control::log::timestamp(since.map_or(0, |since| since.as_secs()))
}

/// Makes the log file of an install. Its name has the form that Solaris uses.
fn log_of(host: &Host, zone: &ZoneName) -> std::io::Result<(File, PathBuf)> {
    let now: String = timestamp(SystemTime::now())
        .chars()
        .filter(|char| !matches!(char, '-' | ':'))
        .collect();
    std::fs::create_dir_all(host.root.log())?;
    let path = host
        .root
        .log()
        .join(format!("zoneadm.{now}.{zone}.install"));
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o640).open(&path)?;
    Ok((file, path))
}

fn strike(struck: bool) -> Result<(), Error> {
    match struck {
        true => Err(Error::Refused(host::Fault::error().to_string())),
        false => Ok(()),
    }
}

/// Removes images that no zone uses, and leftovers of crashes beside images and zones.
///
/// # Errors
/// Fails with the image or leftover that cannot be removed.
pub fn prune(host: &Host) -> Result<Pruned, Error> {
    let mut pruned = open(host)?.prune()?;
    for folder in crate::layer_folders::of_zones(host) {
        let more = storage::collect(&folder, storage::Lost::Keep)?;
        pruned.collected.add(more);
    }
    Ok(pruned)
}
