//! Importing container images, layer by layer.

use std::path::{Path, PathBuf};

use oci::{Layer, Layout, Platform};
use storage::{About, Image, Images, Part};

use crate::images::fetch::Fetch;
use crate::images::request::Request;
use crate::images::source::Source;
use host::{Error, Host};

/// Imports an image of several layers. Those that are here are used as they are.
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
    // Made here, so that it lives until all is unpacked, and goes then.
    let download;
    let mut fetch = None;
    let (layout, name) = match &request.source {
        Source::Registry(reference) => {
            download = images.download()?;
            let ready = Fetch::new(
                host,
                reference,
                download.path(),
                request.credentials.as_deref(),
            )?;
            progress(&format!("Fetching {reference}."));
            ready.documents(&platform.to_string(), progress)?;
            fetch = Some(ready);
            (Layout::open(download.path())?, None)
        }
        Source::Images { path, name } if !path.is_dir() => {
            download = images.download()?;
            brand::container::extract(path, download.path(), progress)?;
            (Layout::open(download.path())?, name.as_deref())
        }
        Source::Images { path, name } => (Layout::open(path)?, name.as_deref()),
        Source::Files(path) => {
            return Err(Error::Refused(format!(
                "{}: no container image",
                path.display()
            )));
        }
    };
    let image = layout.image(name, &platform)?;
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
    if let (Some(fetch), false) = (&fetch, rest.is_empty()) {
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
        if let Err(error) = filled.add(&layout, layer, below, progress) {
            filled.discard();
            return Err(error);
        }
    }
    let Filled { parts, done, .. } = filled;
    Ok(images.finish_on(base, parts, &done, Some(&image.config_text))?)
}

/// Refuses an image that is not the one that was asked for.
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

/// Trees that were filled.
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
        // In its place first: whatever happens, it is cleared away with the others.
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
