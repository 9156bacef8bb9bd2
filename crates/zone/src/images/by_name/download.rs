//! Downloads an image of a catalogue, checks it, and unpacks it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use brand::ImageSource;
use catalogue::{Form, Protocol, product};
use host::{Error, Host};
use oci::Hasher;
use storage::{About, Digest, Image, Images};

use super::chosen::{Chosen, refused};
use super::web;
use crate::images::{Request, unpack};

/// The member of the metadata that describes the image.
const DESCRIPTION: &str = "metadata.yaml";

/// Maximum size of the description, in bytes.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// Imports an image of a catalogue. If an image of the same file exists, returns this image without
/// a download.
pub(in crate::images) fn import(
    host: &Host,
    images: &Images,
    request: &Request,
    chosen: &Chosen,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, Error> {
    let product = &chosen.product;
    let roots = &product.roots;
    let fingerprint = roots.first().map_or("", |root| root.fingerprint.as_str());
    check_request(request, chosen)?;
    let size = roots.first().map_or(0, |root| root.file.size);
    progress(&format!(
        "{chosen} is {}, version {}, {} KiB, fingerprint {}.",
        product.name,
        product.version,
        size.div_ceil(1024),
        if fingerprint.is_empty() {
            "none"
        } else {
            fingerprint
        }
    ));
    if let Some(image) = present(images, chosen)? {
        progress(&format!(
            "This image is here already, with the name {}.",
            image.about.name
        ));
        return Ok(image);
    }
    let download = images.download()?;
    let folder = download.path();
    let metadata = match &product.metadata {
        Some(file) => {
            let into = folder.join("metadata.tar.xz");
            fetch(host, chosen, file, &into, progress)?;
            if let Some(text) = describe(&into)? {
                progress(&text);
            }
            Some(into)
        }
        None => None,
    };
    let mut rest = roots.iter();
    let (root, path) = loop {
        let Some(root) = rest.next() else {
            return Err(refused(format!(
                "{chosen}: the catalogue has no root of this image"
            )));
        };
        let path = folder.join(root.form.file_name());
        fetch(host, chosen, &root.file, &path, progress)?;
        let readable = root.form != Form::Squashfs
            || brand::is_supported_squashfs(&path)
                .map_err(Error::io(format!("read {}", path.display())))?;
        // The last root is unpacked in any case: the message names its compression.
        if readable || rest.len() == 0 {
            break (root, path);
        }
        progress("The compression of this squashfs is not supported; taking the tar archive.");
    };
    check_fingerprint(chosen, root, metadata.as_deref(), &path)?;
    let about = About {
        name: request
            .name
            .clone()
            .unwrap_or_else(|| request.source.called()),
        source: origin(chosen, root),
        archive: format!("sha256:{}", root.file.sha256).parse().ok(),
        ..About::default()
    };
    unpack(
        host,
        images,
        &ImageSource::Archive(path),
        about,
        None,
        progress,
    )
}

/// Returns the source that `zoneimg inspect` shows.
fn origin(chosen: &Chosen, root: &product::Root) -> String {
    let product = &chosen.product;
    let mut text = format!("{chosen} ({} {}", product.name, product.version);
    if !root.fingerprint.is_empty() {
        text.push_str(&format!(" {}", root.fingerprint));
    }
    text.push(')');
    text
}

/// Fails if the digest of the command line is neither that of a root nor the fingerprint.
fn check_request(request: &Request, chosen: &Chosen) -> Result<(), Error> {
    let Some(wanted) = request.digest.map(|digest| digest.to_string()) else {
        return Ok(());
    };
    let roots = &chosen.product.roots;
    let digits = wanted.strip_prefix("sha256:").unwrap_or(&wanted);
    let fits = |root: &product::Root| root.fingerprint == digits || root.file.sha256 == digits;
    match roots.iter().any(fits) {
        true => Ok(()),
        false => Err(refused(format!(
            "{chosen}: expected {wanted}, the catalogue has the fingerprint {}",
            roots
                .first()
                .map_or("none", |root| root.fingerprint.as_str())
        ))),
    }
}

/// Returns the image that was imported from the same file.
fn present(images: &Images, chosen: &Chosen) -> Result<Option<Image>, Error> {
    let digests: Vec<Digest> = chosen
        .product
        .roots
        .iter()
        .filter_map(|root| format!("sha256:{}", root.file.sha256).parse().ok())
        .collect();
    let all = images.list()?;
    let same = |image: &Image| {
        image
            .about
            .archive
            .is_some_and(|archive| digests.contains(&archive))
    };
    Ok(all.into_iter().find(same))
}

fn fetch(
    host: &Host,
    chosen: &Chosen,
    file: &product::File,
    into: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let Protocol::SimpleStreams(base) = &chosen.remote.protocol else {
        return Err(refused(format!("{chosen}: not an image of a catalogue")));
    };
    let url = base.join(&file.path);
    let url = url.ok_or_else(|| refused(format!("{}: not a path", oci::shown(&file.path))))?;
    progress(&format!("Downloading {}.", file.path));
    Ok(web::fetch(
        host,
        &url,
        into,
        file.size,
        Some(&file.sha256),
        progress,
    )?)
}

/// Fails if the digest of the metadata followed by the root is not the fingerprint.
fn check_fingerprint(
    chosen: &Chosen,
    root: &product::Root,
    metadata: Option<&Path>,
    path: &Path,
) -> Result<(), Error> {
    if root.fingerprint.is_empty() {
        return Ok(());
    }
    let mut hasher = Hasher::default();
    let with = metadata.filter(|_| root.form != Form::Unified);
    for path in with.into_iter().chain([path]) {
        let fail = || Error::io(format!("read {}", path.display()));
        let mut file = File::open(path).map_err(fail())?;
        let mut buffer = vec![0; 128 << 10];
        loop {
            match file.read(&mut buffer).map_err(fail())? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
    }
    let found = hasher.finish().hex();
    match found == root.fingerprint {
        true => Ok(()),
        false => Err(refused(format!(
            "{chosen}: expected the fingerprint {}, found {found}; the catalogue contradicts itself",
            root.fingerprint
        ))),
    }
}

/// Returns the system that the metadata describes. Only three properties are read; templates and
/// everything else are ignored.
fn describe(path: &Path) -> Result<Option<String>, Error> {
    let text = brand::first_member(path, DESCRIPTION, MAX_DESCRIPTION)?;
    let Some(text) = text.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Ok(None);
    };
    let words: Vec<String> = ["os", "release", "variant"]
        .iter()
        .filter_map(|key| property(&text, key))
        .collect();
    Ok((!words.is_empty()).then(|| format!("Its metadata says: {}.", words.join(", "))))
}

/// Returns a property of `metadata.yaml`, a scalar below `properties:`.
fn property(text: &str, key: &str) -> Option<String> {
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim_end() != "properties:");
    lines.next()?;
    let inside = lines.take_while(|line| line.starts_with([' ', '\t']));
    let mut values = inside.filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
    let value = values.next()?.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| oci::shown(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_properties_of_the_metadata_are_read() {
        let text = "architecture: x86_64\nproperties:\n  os: Debian\n  release: \"trixie\"\n  variant: a\u{1b}b\n\
                    templates:\n  /etc/hostname:\n    os: other\n";
        assert_eq!(property(text, "os").as_deref(), Some("Debian"));
        assert_eq!(property(text, "release").as_deref(), Some("trixie"));
        assert_eq!(property(text, "variant").as_deref(), Some("a\\u{1b}b"));
        assert_eq!(property(text, "serial"), None);
        assert_eq!(property("os: x\n", "os"), None);
    }
}
