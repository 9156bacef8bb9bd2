//! Imports container images layer by layer.

use std::path::{Path, PathBuf};

use oci::{Layer, Layout, Platform};
use storage::{About, Download, Image, Images, Part};

use crate::images::fetch::Fetch;
use crate::images::request::Request;
use crate::images::source::Source;
use host::{Error, Host};

/// Imports an image that consists of layers. Layers that this host has already are not imported
/// again.
pub(super) fn import(
    host: &Host,
    images: &Images,
    request: &Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, Error> {
    let platform = Platform::linux(&match &request.architecture {
        Some(name) => name.clone(),
        None => rustix::system::uname()
            .machine()
            .to_string_lossy()
            .into_owned(),
    });
    let opened = Opened::new(host, images, request, &platform, progress)?;
    let layout = &opened.layout;
    let image = layout.image(opened.name, &platform)?;
    check(request, &image)?;
    let stacks: Vec<String> = image
        .layers
        .iter()
        .map(|layer| layer.chain_id.to_string())
        .collect();
    let base = images.base(&stacks)?;
    let known = base.as_ref().map_or(0, storage::Base::known);
    let rest = &image.layers[known..];
    if known > 0 {
        progress(&format!(
            "{known} of {} layers are here already.",
            stacks.len()
        ));
    }
    if let (Some(fetch), false) = (&opened.fetch, rest.is_empty()) {
        fetch.layers(rest, progress)?;
    }
    let mut filled = Filled {
        images,
        parts: Vec::new(),
        done: About {
            name: request
                .name
                .clone()
                .unwrap_or_else(|| request.source.called()),
            source: request.source.to_string(),
            archive: image
                .digest
                .and_then(|digest| digest.to_string().parse().ok()),
            ..About::default()
        },
    };
    let below = base.as_ref().map_or(&[][..], |base| base.trees());
    for (n, layer) in rest.iter().enumerate() {
        progress(&format!("Layer {} of {}.", known + n + 1, stacks.len()));
        if let Err(error) = filled.add(layout, layer, below, progress) {
            filled.discard();
            return Err(error);
        }
    }
    let Filled { parts, done, .. } = filled;
    Ok(images.finish_on(base, parts, &done, Some(&image.config_text))?)
}

/// The OCI layout that contains the requested image.
struct Opened<'r> {
    layout: Layout,
    /// The name of the image in the layout; `None` if the layout contains only one image.
    name: Option<&'r str>,
    /// Downloads the layers when they are needed; `None` if the layout already contains them.
    fetch: Option<Fetch<'r>>,
    /// The folder of a layout that was downloaded or unpacked. Dropping this value removes the
    /// folder.
    _download: Option<Download>,
}

impl<'r> Opened<'r> {
    fn new(
        host: &'r Host,
        images: &Images,
        request: &'r Request,
        platform: &Platform,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        match &request.source {
            Source::Registry(reference) => {
                let download = images.download()?;
                let credentials = request.credentials.as_deref();
                let fetch = Fetch::new(host, reference, download.path(), credentials)?;
                progress(&format!("Fetching {reference}."));
                fetch.documents(&platform.to_string(), progress)?;
                Ok(Self {
                    layout: Layout::open(download.path())?,
                    name: None,
                    fetch: Some(fetch),
                    _download: Some(download),
                })
            }
            Source::Images { path, name } => {
                let mut unpacked = None;
                if !path.is_dir() {
                    let download = images.download()?;
                    brand::container::extract(path, download.path(), progress)?;
                    unpacked = Some(download);
                }
                let folder = unpacked.as_ref().map_or(path.as_path(), Download::path);
                Ok(Self {
                    layout: Layout::open(folder)?,
                    name: name.as_deref(),
                    fetch: None,
                    _download: unpacked,
                })
            }
            other @ (Source::Files(_) | Source::Catalogue(_)) => {
                Err(Error::Refused(format!("{other}: no container image")))
            }
        }
    }
}

/// Fails if the digest of an image is not the requested digest.
fn check(request: &Request, image: &oci::Image) -> Result<(), Error> {
    let Some(wanted) = request.digest.map(|digest| digest.to_string()) else {
        return Ok(());
    };
    let found = image.digest.map(|digest| digest.to_string());
    if found.as_ref() == Some(&wanted) {
        return Ok(());
    }
    let found = found.unwrap_or_else(|| "none, as docker save writes it".to_owned());
    Err(Error::Refused(format!(
        "{}: not {wanted}: the digest of its manifest is {found}",
        request.source
    )))
}

/// The layers that were unpacked so far.
struct Filled<'i> {
    images: &'i Images,
    parts: Vec<Part>,
    done: About,
}

impl Filled<'_> {
    fn add(
        &mut self,
        layout: &Layout,
        layer: &Layer,
        below: &[PathBuf],
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let file = layout.open_layer(layer)?;
        let import = self.images.begin()?;
        let own = self
            .parts
            .iter()
            .rev()
            .map(|part| part.import.tree().to_owned());
        let lowers: Vec<PathBuf> = own.chain(below.iter().cloned()).collect();
        let tree = import.tree().to_owned();
        // The layer is added to the list before it is filled, so that an error also removes it.
        self.parts.push(Part {
            import,
            stack: Some(layer.chain_id.to_string()),
        });
        let shown = layer.blob.as_ref().map_or_else(
            || oci::shown(&layer.file),
            |blob| format!("layer {}", blob.digest),
        );
        let (done, found) = brand::unpack_layer(&tree, &lowers, file, Path::new(&shown), progress)?;
        if found != layer.diff_id {
            let expected = layer.diff_id;
            return Err(Error::Refused(format!(
                "{shown}: its content is {found}, and the image says {expected}"
            )));
        }
        self.done.entries += done.files + done.directories + done.links;
        self.done.bytes += done.bytes;
        Ok(())
    }

    fn discard(self) {
        for part in self.parts {
            part.import.discard();
        }
    }
}
