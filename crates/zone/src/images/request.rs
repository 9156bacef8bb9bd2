//! The request to import an image.

use std::path::PathBuf;

use storage::Digest;

use super::source::Source;

/// An image to be imported.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source of the image.
    pub source: Source,
    /// The name of the image; by default the last part of its source.
    pub name: Option<String>,
    /// The required digest: that of the archive's bytes, or that of the image. Of a container
    /// image, that of its manifest.
    pub digest: Option<Digest>,
    /// The kind of machine, where a container image is for several; else the host's.
    pub architecture: Option<String>,
    /// A file with credentials for registries, if not the host's own.
    pub credentials: Option<PathBuf>,
}

impl Request {
    /// An image from there, whatever it is.
    #[must_use]
    pub fn of(source: Source) -> Self {
        Self {
            source,
            name: None,
            digest: None,
            architecture: None,
            credentials: None,
        }
    }
}
