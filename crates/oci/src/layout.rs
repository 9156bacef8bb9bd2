//! Images in a local folder: OCI layouts, and archives of `docker save`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use serde::Deserialize;

use crate::manifest::{Document, choose};
use crate::{
    Config, Descriptor, Digest, Error, Hasher, MAX_CONFIG, MAX_LAYER, MAX_LAYERS, MAX_MANIFEST,
    Manifest, Platform, shown,
};

/// The file that marks a folder as an OCI layout.
pub const MARK: &str = "oci-layout";

/// The file that lists the images of a layout.
pub const INDEX: &str = "index.json";

/// The file that lists the images that `docker save` wrote.
pub const SAVED: &str = "manifest.json";

/// The folder of a layout's blobs.
pub const BLOBS: &str = "blobs/sha256";

/// Maximum depth of indexes inside indexes.
const MAX_INDEX_DEPTH: usize = 3;

/// A folder with images.
#[derive(Debug)]
pub struct Layout {
    folder: OwnedFd,
    path: PathBuf,
}

/// An image in a layout. All its documents match their digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The digest of the image's manifest; `None` for an archive of `docker save`.
    pub digest: Option<Digest>,
    /// The configuration of the image.
    pub config: Config,
    /// The text of the configuration, unchanged.
    pub config_text: Vec<u8>,
    /// The layers of the image, the lowest first.
    pub layers: Vec<Layer>,
}

/// A layer of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The file of the layer in the layout.
    pub file: String,
    /// The expected digest and size of the file; `None` for an archive of `docker save`.
    pub blob: Option<Descriptor>,
    /// The digest of the uncompressed tar archive.
    pub diff_id: Digest,
    /// The chain id of the stack up to this layer, see [`Digest::on`].
    pub chain_id: Digest,
}

#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Layout {
    /// Opens a folder of images. The caller trusts the path of the folder.
    ///
    /// # Errors
    /// Fails if the folder cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| Error::io(path, errno))?;
        Ok(Self {
            folder,
            path: path.to_owned(),
        })
    }

    /// Returns true if the folder at `path` contains images.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        let has = |name: &str| {
            path.join(name)
                .symlink_metadata()
                .is_ok_and(|meta| meta.is_file())
        };
        (has(MARK) && has(INDEX)) || (has(SAVED) && !path.join("usr").exists())
    }

    /// Reads an image and all its documents. The files of its layers may be missing.
    ///
    /// # Errors
    /// Fails if the file is not an image, or not the requested image.
    pub fn image(&self, name: Option<&str>, wanted: &Platform) -> Result<Image, Error> {
        match self.is_file(INDEX)? {
            true => self.listed(name, wanted),
            false => self.saved(name, wanted),
        }
    }

    fn listed(&self, name: Option<&str>, wanted: &Platform) -> Result<Image, Error> {
        let mark = self.read(MARK, 4096)?;
        let mark: Mark = serde_json::from_slice(&mark)
            .map_err(|error| Error::bad(self.show(MARK), error.to_string()))?;
        if !mark.version.starts_with("1.") {
            let version = shown(&mark.version);
            return Err(Error::bad(
                self.show(MARK),
                format!("layout version {version}; 1 is read"),
            ));
        }
        let what = self.show(INDEX);
        let Document::Index(mut entries) = Document::read(&what, &self.read(INDEX, MAX_MANIFEST)?)?
        else {
            return Err(Error::bad(what, "not an index"));
        };
        if let Some(name) = name {
            entries.retain(|entry| entry.name.as_deref() == Some(name));
            if entries.is_empty() {
                return Err(Error::bad(what, format!("no image called {}", shown(name))));
            }
        }
        let mut entry = match entries.as_slice() {
            [] => return Err(Error::bad(what, "no image in it")),
            [one] => one.clone(),
            several => choose(&what, several, wanted)?.clone(),
        };
        for _ in 0..MAX_INDEX_DEPTH {
            let digest = entry.descriptor.digest;
            let what = digest.to_string();
            match Document::read(&what, &self.blob(&entry.descriptor, MAX_MANIFEST)?)? {
                Document::Index(entries) => entry = choose(&what, &entries, wanted)?.clone(),
                Document::Manifest(manifest) => return self.described(digest, &manifest, wanted),
            }
        }
        Err(Error::bad(
            what,
            format!("more than {MAX_INDEX_DEPTH} indexes in one another"),
        ))
    }

    /// Returns the image that a manifest describes.
    fn described(
        &self,
        digest: Digest,
        manifest: &Manifest,
        wanted: &Platform,
    ) -> Result<Image, Error> {
        let text = self.blob(&manifest.config, MAX_CONFIG)?;
        let files = manifest
            .layers
            .iter()
            .map(|layer| (blob_name(&layer.digest), Some(layer.clone())))
            .collect();
        image(
            Some(digest),
            text,
            &manifest.config.digest.to_string(),
            files,
            wanted,
        )
    }

    /// Finds the image in an archive of `docker save`.
    fn saved(&self, name: Option<&str>, wanted: &Platform) -> Result<Image, Error> {
        let what = self.show(SAVED);
        let list: Vec<Saved> = serde_json::from_slice(&self.read(SAVED, MAX_MANIFEST)?)
            .map_err(|error| Error::bad(&*what, format!("not a list of images: {error}")))?;
        let is_named = |saved: &&Saved| match name {
            None => true,
            Some(name) => saved.repo_tags.iter().flatten().any(|tag| tag == name),
        };
        let mut named = list.iter().filter(is_named);
        let saved = match (named.next(), named.next()) {
            (Some(one), None) => one,
            (Some(_), Some(_)) => return Err(Error::bad(what, "several images: name one")),
            (None, _) => return Err(Error::bad(what, "no such image in it")),
        };
        if saved.layers.len() > MAX_LAYERS {
            return Err(Error::bad(what, format!("more than {MAX_LAYERS} layers")));
        }
        let text = self.read(&saved.config, MAX_CONFIG)?;
        let files = saved.layers.iter().map(|file| (file.clone(), None));
        image(None, text, &shown(&saved.config), files.collect(), wanted)
    }

    /// Opens the file of a layer and checks its length and its digest. The returned file is at its
    /// beginning. The caller must also check the uncompressed data against the digest of the layer.
    ///
    /// # Errors
    /// Fails if the size or the digest of the file is wrong.
    pub fn open_layer(&self, layer: &Layer) -> Result<File, Error> {
        let (mut file, size) = self.open_file(&layer.file)?;
        let what = self.show(&layer.file);
        let Some(blob) = &layer.blob else {
            if size > MAX_LAYER {
                return Err(Error::bad(what, format!("more than {MAX_LAYER} bytes")));
            }
            return Ok(file);
        };
        if size != blob.size {
            let expected = blob.size;
            return Err(Error::bad(
                what,
                format!("{size} bytes, expected {expected}"),
            ));
        }
        let found = digest_of(&mut file).map_err(|error| Error::io(&*what, error))?;
        if found != blob.digest {
            return Err(Error::Mismatch {
                what,
                expected: blob.digest,
                found,
            });
        }
        io::Seek::rewind(&mut file).map_err(|error| Error::io(what, error))?;
        Ok(file)
    }

    /// Reads a document of the layout and checks its size and digest.
    fn blob(&self, blob: &Descriptor, most: u64) -> Result<Vec<u8>, Error> {
        let name = blob_name(&blob.digest);
        let bytes = self.read(&name, most)?;
        let found = Digest::of(&bytes);
        if found != blob.digest {
            return Err(Error::Mismatch {
                what: self.show(&name),
                expected: blob.digest,
                found,
            });
        }
        Ok(bytes)
    }

    fn show(&self, name: &str) -> String {
        format!("{}/{}", self.path.display(), shown(name))
    }

    fn is_file(&self, name: &str) -> Result<bool, Error> {
        match self.open_file(name) {
            Ok(_) => Ok(true),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, Error> {
        let (file, size) = self.open_file(name)?;
        let too_long = || Error::bad(self.show(name), format!("more than {most} bytes"));
        if size > most {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(self.show(name), error))?;
        match bytes.len() as u64 > most {
            true => Err(too_long()),
            false => Ok(bytes),
        }
    }

    /// Opens a regular file of the layout. Fails if the path leads through a symbolic link.
    fn open_file(&self, name: &str) -> Result<(File, u64), Error> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(&self.folder, name, flags, Mode::empty(), resolve)
            .map_err(|errno| Error::io(self.show(name), errno))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| Error::io(self.show(name), errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::bad(self.show(name), "not a regular file"));
        }
        Ok((file.into(), u64::try_from(stat.st_size).unwrap_or(0)))
    }
}

/// Returns the path of a digest's blob in a layout.
#[must_use]
pub fn blob_name(digest: &Digest) -> String {
    format!("{BLOBS}/{}", digest.hex())
}

/// Returns the digest of a file, from its current position to its end.
fn digest_of(file: &mut File) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn image(
    digest: Option<Digest>,
    text: Vec<u8>,
    what: &str,
    files: Vec<(String, Option<Descriptor>)>,
    wanted: &Platform,
) -> Result<Image, Error> {
    let config = Config::read(what, &text)?;
    let (have, said) = (files.len(), config.diff_ids.len());
    if have != said {
        return Err(Error::bad(
            what,
            format!("{said} layers, and the manifest has {have}"),
        ));
    }
    let platform = &config.platform;
    let differs = |one: &str, other: &str| !one.is_empty() && one != other;
    if differs(&platform.os, &wanted.os) || differs(&platform.architecture, &wanted.architecture) {
        return Err(Error::bad(
            what,
            format!("an image for {platform}, and {wanted} is wanted"),
        ));
    }
    let mut below = None;
    let mut layers = Vec::with_capacity(have);
    for ((file, blob), diff_id) in files.into_iter().zip(&config.diff_ids) {
        let chain_id = diff_id.on(below.as_ref());
        below = Some(chain_id);
        layers.push(Layer {
            file,
            blob,
            diff_id: *diff_id,
            chain_id,
        });
    }
    if layers.is_empty() {
        return Err(Error::bad(what, "no layers"));
    }
    Ok(Image {
        digest,
        config,
        config_text: text,
        layers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Made(tempfile::TempDir);

    impl Made {
        fn blob(&self, bytes: &[u8]) -> Digest {
            let digest = Digest::of(bytes);
            fs::write(self.0.path().join(blob_name(&digest)), bytes).unwrap();
            digest
        }

        fn describe(digest: &Digest, kind: &str, size: usize) -> String {
            format!(
                r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"{digest}","size":{size}}}"#
            )
        }

        fn new(layers: &[&[u8]]) -> Self {
            let made = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(made.0.path().join(BLOBS)).unwrap();
            let ids: Vec<String> = layers
                .iter()
                .map(|layer| format!("\"{}\"", Digest::of(layer)))
                .collect();
            let config = format!(
                r#"{{"os":"linux","architecture":"amd64","rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
                ids.join(",")
            );
            let all: Vec<String> = layers
                .iter()
                .map(|layer| Self::describe(&made.blob(layer), "layer.v1.tar", layer.len()))
                .collect();
            let manifest = format!(
                r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
                Self::describe(
                    &made.blob(config.as_bytes()),
                    "config.v1+json",
                    config.len()
                ),
                all.join(",")
            );
            let digest = made.blob(manifest.as_bytes());
            let entry = Self::describe(&digest, "manifest.v1+json", manifest.len());
            made.write(
                INDEX,
                &format!(r#"{{"schemaVersion":2,"manifests":[{entry}]}}"#),
            );
            made.write(MARK, r#"{"imageLayoutVersion":"1.0.0"}"#);
            made
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn image(&self) -> Result<Image, String> {
            let layout = Layout::open(self.0.path()).unwrap();
            layout
                .image(None, &Platform::linux("x86_64"))
                .map_err(|error| error.to_string())
        }

        fn layer(&self, image: &Image, n: usize) -> Result<String, String> {
            let layout = Layout::open(self.0.path()).unwrap();
            let mut text = String::new();
            let mut file = layout
                .open_layer(&image.layers[n])
                .map_err(|error| error.to_string())?;
            file.read_to_string(&mut text).unwrap();
            Ok(text)
        }
    }

    #[test]
    fn an_image_is_read_with_its_layers() {
        let made = Made::new(&[b"one", b"two"]);
        let image = made.image().unwrap();
        assert_eq!(image.layers.len(), 2);
        assert_eq!(made.layer(&image, 1).unwrap(), "two");
        let below = image.layers[0].chain_id;
        assert_eq!(below, Digest::of(b"one"));
        assert_eq!(
            image.layers[1].chain_id,
            Digest::of(b"two").on(Some(&below))
        );
        assert!(Layout::is_at(made.0.path()));
    }

    #[test]
    fn changed_blobs_are_refused() {
        let made = Made::new(&[b"one"]);
        let image = made.image().unwrap();
        let file = image.layers[0].file.clone();
        made.write(&file, "ONE");
        assert!(
            made.layer(&image, 0)
                .unwrap_err()
                .contains("expected sha256:")
        );
        made.write(&file, "longer");
        assert!(
            made.layer(&image, 0)
                .unwrap_err()
                .contains("6 bytes, expected 3")
        );
        fs::remove_file(made.0.path().join(&file)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", made.0.path().join(&file)).unwrap();
        assert!(made.layer(&image, 0).unwrap_err().contains("cannot read"));
        let config = Digest::of(&image.config_text);
        made.write(&blob_name(&config), "{}");
        assert!(made.image().unwrap_err().contains("found sha256:"));
    }

    #[test]
    fn another_machine_or_version_is_refused() {
        let made = Made::new(&[b"one"]);
        let layout = Layout::open(made.0.path()).unwrap();
        let error = layout.image(None, &Platform::linux("aarch64")).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("an image for linux/amd64, and linux/arm64 is wanted")
        );
        let error = layout
            .image(Some("x"), &Platform::linux("x86_64"))
            .unwrap_err();
        assert!(error.to_string().ends_with("no image called x"));
        made.write(MARK, r#"{"imageLayoutVersion":"2.0"}"#);
        assert!(made.image().unwrap_err().contains("layout version 2.0"));
    }

    #[test]
    fn archives_of_docker_save_are_read() {
        let made = Made::new(&[b"one"]);
        let config = fs::read(
            made.0
                .path()
                .join(blob_name(&Digest::of(&made.image().unwrap().config_text))),
        )
        .unwrap();
        fs::remove_file(made.0.path().join(INDEX)).unwrap();
        fs::write(made.0.path().join("c.json"), config).unwrap();
        fs::create_dir(made.0.path().join("1")).unwrap();
        made.write("1/layer.tar", "one");
        made.write(
            SAVED,
            r#"[{"Config":"c.json","RepoTags":["a:b"],"Layers":["1/layer.tar"]}]"#,
        );
        let image = made.image().unwrap();
        assert_eq!(
            (image.digest, made.layer(&image, 0).unwrap()),
            (None, "one".to_owned())
        );
        made.write(
            SAVED,
            r#"[{"Config":"../../etc/passwd","Layers":["1/layer.tar"]}]"#,
        );
        assert!(made.image().unwrap_err().contains("cannot read"));
        made.write(SAVED, r#"[{"Config":"c.json","Layers":[]}]"#);
        assert!(
            made.image()
                .unwrap_err()
                .contains("1 layers, and the manifest has 0")
        );
    }
}
