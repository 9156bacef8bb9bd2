//! Archives that hold container images: the output of `docker save`, of `podman save`,
//! and of `skopeo copy` to an `oci-archive`.
//!
//! They are taken apart into a folder that is then read as a layout. Only plain files
//! with plain names are made there: no image needs more.

use std::path::Path;

use oci::layout::{INDEX, MARK, SAVED};

use super::archive;
use super::decompress::Stream;
use super::limits::{LIMITS, Limits};
use super::unpack::Unpack;
use crate::Error;

/// Most members of such an archive.
const MAX_MEMBERS: u64 = 10_000;

/// True when the file at `path` is a tar archive that begins as those of images do.
#[must_use]
pub fn is_container(path: &Path) -> bool {
    let Ok(Some(first)) = archive::first_name(path) else {
        return false;
    };
    let first = first.to_string_lossy();
    let is_id = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let stem = first
        .strip_suffix(".json")
        .or_else(|| first.strip_suffix(".tar"))
        .unwrap_or(&first);
    [MARK, INDEX, SAVED, "blobs", "repositories"].contains(&&*first) || is_id(stem)
}

/// Takes the archive at `path` apart into an empty folder.
///
/// # Errors
/// [`Error::Member`] and [`Error::Source`] for content that is not acceptable.
pub fn extract(path: &Path, into: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let limits = Limits {
        members: MAX_MEMBERS,
        ..LIMITS
    };
    progress(&format!("Reading {}.", path.display()));
    let mut unpack = Unpack::new(into, path, limits, progress)?;
    unpack.plain = true;
    let stream = Stream::open(path).map_err(|error| Error::io("open", path, error))?;
    archive::unpack(&mut unpack, stream)
}
