//! Downloads single files with the program zonefetch.

use std::ffi::OsStr;
use std::path::Path;

use host::{Error, Host};

use super::chosen::refused;
use crate::images::fetch;

/// The reason why a file was not downloaded.
#[derive(Debug)]
pub enum Failed {
    /// The server cannot be reached, or cannot answer now.
    Away(String),
    /// The server has no such file.
    Missing(String),
    /// Any other error.
    Other(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Away(text) | Failed::Missing(text) => refused(text),
            Failed::Other(error) => error,
        }
    }
}

/// Downloads a file of at most `size` bytes; with a digest, of exactly this size.
pub(super) fn fetch(
    host: &Host,
    url: &str,
    into: &Path,
    size: u64,
    digest: Option<&str>,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Failed> {
    let program = fetch::program(host)?;
    let size = size.to_string();
    let digest = digest.map(|hex| format!("sha256:{hex}"));
    let mut words = vec![
        OsStr::new("file"),
        OsStr::new("--into"),
        into.as_os_str(),
        OsStr::new("--size"),
        OsStr::new(&size),
    ];
    if let Some(digest) = &digest {
        words.extend([OsStr::new("--digest"), OsStr::new(digest)]);
    }
    words.extend([OsStr::new("--"), OsStr::new(url)]);
    let ended = match fetch::call(&program, &words, "", progress)? {
        Ok(()) => return Ok(()),
        Err(ended) => ended,
    };
    let text = match ended.text.is_empty() {
        true => format!("{url}: {}", ended.status),
        false => ended.text,
    };
    Err(match ended.status.code() {
        Some(3) => Failed::Away(text),
        Some(4) => Failed::Missing(text),
        _ => Failed::Other(refused(text)),
    })
}
