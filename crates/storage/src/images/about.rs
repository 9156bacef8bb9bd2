//! The properties of an image, which are stored as the texts of links in the image's folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::sha256::Digest;

/// Maximum length of a text about an image, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// The properties of an image besides its files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct About {
    /// The name of the image.
    pub name: String,
    /// The source of the image.
    pub source: String,
    /// The digest of the archive file from which the image was imported; `None` if the source was
    /// no file.
    pub archive: Option<Digest>,
    /// Number of files, folders and links in the image.
    pub entries: u64,
    /// Total size of the files in the image, in bytes.
    pub bytes: u64,
}

pub(super) fn write_about(folder: &Folder, about: &About) -> Result<()> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let archive = about.archive.map(|digest| digest.to_string());
    for (name, text) in [
        ("name", about.name.clone()),
        ("source", about.source.clone()),
        ("archive", archive.unwrap_or_default()),
        ("entries", about.entries.to_string()),
        ("bytes", about.bytes.to_string()),
        ("imported", now.as_secs().to_string()),
    ] {
        let mut text = text.into_bytes();
        text.truncate(MAX_TEXT_BYTES);
        if !text.is_empty() {
            folder.link(name, OsString::from_vec(text))?;
        }
    }
    Ok(())
}

pub(super) fn read_about(folder: &Folder) -> Result<(About, SystemTime)> {
    let text = |name: &str| -> Result<String> {
        match folder.read_link(name) {
            Ok(text) => Ok(text.unwrap_or_default().to_string_lossy().into_owned()),
            Err(Error::Io { source, .. })
                if source.raw_os_error() == Some(Errno::INVAL.raw_os_error()) =>
            {
                Ok(String::new())
            }
            Err(e) => Err(e),
        }
    };
    let number = |name: &str| Ok::<_, Error>(text(name)?.parse().unwrap_or(0));
    let about = About {
        name: text("name")?,
        source: text("source")?,
        archive: text("archive")?.parse().ok(),
        entries: number("entries")?,
        bytes: number("bytes")?,
    };
    let imported = Duration::from_secs(number("imported")?.min(u64::from(u32::MAX) * 16));
    Ok((about, SystemTime::UNIX_EPOCH + imported))
}
