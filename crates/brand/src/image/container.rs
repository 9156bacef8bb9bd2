//! Archives that hold container images: the output of `docker save`, of `podman save`,
//! and of `skopeo copy` to an `oci-archive`.
//!
//! The archive is unpacked into a folder, which is then read as a layout. Only regular files with
//! plain names are created there, because images need no others.

use std::path::Path;

use oci::layout::{INDEX, MARK, SAVED};

use super::archive;
use super::decompress::Stream;
use super::limits::{LIMITS, Limits};
use super::unpack::Unpack;
use crate::Error;

/// Maximum number of members in such an archive.
const MAX_MEMBERS: u64 = 10_000;

/// Returns true if the file at `path` is a tar archive whose first member looks like that of an
/// image.
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

/// Unpacks the archive at `path` into an empty folder.
///
/// # Errors
/// Fails with [`Error::Member`] or [`Error::Source`] if the content is not acceptable.
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
