//! Checks the format number that a file states. A file without a number has format 1.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Damage, Error};

/// Start of the line that states the format of a text file. Older programs keep this line as a
/// comment.
pub const LINE: &str = "# format: ";

/// The content of a JSON file, together with its format number. The content is one JSON object.
#[derive(Debug, Serialize)]
pub struct Stored<'a, T> {
    /// The format number of the file.
    pub format: u64,
    /// All other fields of the file.
    #[serde(flatten)]
    pub content: &'a T,
}

/// Checks the format number of a JSON file. Call `check_json` before any other field of the file is
/// read, because a newer format may change every field.
///
/// # Errors
/// Fails with [`Error::Newer`] if the file states a format above `known`.
pub fn check_json(path: &Path, text: &[u8], known: u64) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Said {
        format: u64,
    }
    let found = serde_json::from_slice::<Said>(text).map_or(1, |said| said.format);
    Error::unless_known(path, found, known)
}

/// Checks the format number of a text file, in a line that begins with [`LINE`]. Call `check_lines`
/// before any other line of the file is read.
///
/// # Errors
/// Fails with [`Error::Newer`] if the file states a format above `known`, and with
/// [`Error::Damaged`] if the format is not a number.
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
