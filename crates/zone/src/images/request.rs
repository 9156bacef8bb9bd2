//! The request to import an image.

use std::path::PathBuf;

use storage::Digest;

use super::source::Source;

/// A request to import an image.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source of the image.
    pub source: Source,
    /// The name that the image gets; `None` for the last part of its source.
    pub name: Option<String>,
    /// The required digest: of the archive's bytes or of the image's files. For a container image:
    /// of its manifest.
    pub digest: Option<Digest>,
    /// The architecture to select from a container image for several architectures; `None` for the
    /// host's architecture.
    pub architecture: Option<String>,
    /// The file with credentials for registries; `None` for the host's own file.
    pub credentials: Option<PathBuf>,
}

impl Request {
    /// Returns a request to import the image of a source, with default values for all options.
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
