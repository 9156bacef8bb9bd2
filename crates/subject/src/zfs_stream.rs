//! Roots from ZFS streams, for zones on ZFS.
//!
//! The stream is received into a dataset beside the new root, and its files are copied into the
//! root as from a directory. On any other storage the brand refuses the stream.

use std::path::Path;

use storage::driver_at;

use host::Error;
use host::outcome::AnyError;

/// The datasets that were received for an install; empty if the source is not a stream, or cannot
/// be received on this host.
#[derive(Debug, Default)]
pub struct Received {
    stream: Option<storage::Received>,
    options: Vec<String>,
}

impl Received {
    /// Refuses a stream that cannot become a root before any file of the zone is created.
    pub fn check(zonepath: &Path, options: &[String]) -> Result<(), Error> {
        if let Some((_, _, archive)) = archive(options) {
            if !driver_at(zonepath)?.has_layers() {
                // The brand handles a file that is not a stream or cannot be read.
                brand::ZfsStream::open(archive).map_err(Error::Brand)?;
            }
        }
        Ok(())
    }

    /// Receives the stream that the brand's option `-a PATH` names, for the root at a path.
    pub fn of(
        root: &Path,
        options: &[String],
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, AnyError> {
        let Some((at, length, archive)) = archive(options) else {
            return Ok(Self::default());
        };
        let zonepath = root.parent().unwrap_or(root);
        if driver_at(zonepath)?.has_layers() {
            return Ok(Self::default());
        }
        let Some(mut stream) = brand::ZfsStream::open(archive)? else {
            return Ok(Self::default());
        };
        progress(&format!(
            "Receiving {}, a stream of ZFS.",
            archive.display()
        ));
        let stream = storage::receive_beside(zonepath, &mut stream)?;
        let directory = ["-d".to_owned(), stream.path().to_string_lossy().into()];
        let mut options = options.to_vec();
        options.splice(at..at + length, directory);
        Ok(Self {
            stream: Some(stream),
            options,
        })
    }

    /// Returns the options with which the brand installs the received files.
    pub fn options<'a>(&'a self, given: &'a [String]) -> &'a [String] {
        match self.stream {
            Some(_) => &self.options,
            None => given,
        }
    }

    /// Removes the received datasets.
    pub fn discard(self) -> Result<(), AnyError> {
        Ok(self.stream.map_or(Ok(()), storage::Received::discard)?)
    }
}

/// Returns the position of the option that names the archive, its number of words, and the path of
/// the archive.
fn archive(options: &[String]) -> Option<(usize, usize, &Path)> {
    let at = options.iter().position(|word| word.starts_with("-a"))?;
    match options[at].strip_prefix("-a") {
        Some("") | None => Some((at, 2, Path::new(options.get(at + 1)?))),
        Some(path) => Some((at, 1, Path::new(path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_found_in_both_forms() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (text, at, length) in [("-u -a /s", 1, 2), ("-a/s -v", 0, 1)] {
            let words = words(text);
            assert_eq!(archive(&words), Some((at, length, Path::new("/s"))));
        }
        assert_eq!(archive(&words("-u -d /s")), None);
        assert_eq!(archive(&words("-u -a")), None);
    }
}
