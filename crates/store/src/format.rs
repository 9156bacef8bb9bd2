//! Files that say which format they have. A file without a number has format 1.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Damage, Error};

/// The beginning of the line that says the format of a text file; older programs keep the line
/// as a comment.
pub const LINE: &str = "# format: ";

/// The content of a JSON file, an object, with its format.
#[derive(Debug, Serialize)]
pub struct Stored<'a, T> {
    /// The format.
    pub format: u64,
    /// Everything else.
    #[serde(flatten)]
    pub content: &'a T,
}

/// Fails with [`Error::Newer`] when a JSON file says a format above `known`. To be called before
/// anything else is read of the file: nothing in a newer one need be as it is here.
///
/// # Errors
/// See above.
pub fn check_json(path: &Path, text: &[u8], known: u64) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Said {
        format: u64,
    }
    let found = serde_json::from_slice::<Said>(text).map_or(1, |said| said.format);
    Error::unless_known(path, found, known)
}

/// Fails with [`Error::Newer`] when a text file says a format above `known` in a line that begins
/// with [`LINE`]. To be called before anything else is read of the file.
///
/// # Errors
/// See above; [`Error::Damaged`] when the format is no number.
pub fn check_lines(path: &Path, text: &str, known: u64) -> Result<(), Error> {
    let mut lines = text.lines().enumerate();
    let said = lines.find_map(|(number, line)| Some((number, line.strip_prefix(LINE)?)));
    let Some((number, said)) = said else {
        return Ok(());
    };
    let found = said.trim().parse().map_err(|_| Error::Damaged {
        path: path.to_owned(),
        line: number + 1,
        reason: Box::new(Damage::FormatNumber),
    })?;
    Error::unless_known(path, found, known)
}
