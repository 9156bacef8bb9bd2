//! Reads and writes the files about the host's network, with a format number.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use store::atomic::{self, Durability};
use store::format::{self, Stored};

use crate::network::error::{AnyError, NetworkError};

/// Largest file that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// The format number that is written to the files about the host's network. A file without a number
/// has format 1.
const FORMAT: u64 = 1;

/// Replaces a file without fsync: a power cut may lose the change, but also ends the links.
pub(super) fn save(path: &Path, what: &impl Serialize) -> Result<(), AnyError> {
    let text = serde_json::to_vec(&Stored {
        format: FORMAT,
        content: what,
    })?;
    Ok(atomic::replace(path, &text, 0o644, Durability::Volatile)?)
}

/// Returns the content of a file, or nothing if the file does not exist.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, NetworkError> {
    let path_of = || path.to_owned();
    let fail = |source| NetworkError::Read {
        path: path_of(),
        source,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
        Ok(meta) if meta.len() > MAX_SIZE => {
            return Err(NetworkError::TooLarge { path: path_of() });
        }
        Ok(_) => {}
    }
    let text = fs::read(path).map_err(fail)?;
    format::check_json(path, &text, FORMAT)?;
    let parsed = serde_json::from_slice(&text).map_err(|source| NetworkError::Parse {
        path: path_of(),
        source,
    })?;
    Ok(Some(parsed))
}

#[cfg(test)]
mod tests {
    use net::Record;

    use super::*;

    #[test]
    fn files_say_their_format_and_a_newer_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web");
        // The content as programs before format numbers wrote it.
        let old = r#"{"namespace":4026531840,"numbers":2,"links":[]}"#;
        fs::write(&path, old).unwrap();
        let record: Record = read(&path).unwrap().unwrap();
        assert_eq!(record.numbers, 2);
        save(&path, &record).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(r#"{"format":1,"namespace""#), "{text}");
        assert_eq!(read(&path).unwrap(), Some(record));
        fs::write(&path, r#"{"format":2,"links":7}"#).unwrap();
        let error = read::<Record>(&path).unwrap_err().to_string();
        assert!(
            error.contains("has format 2") && error.contains("use newer programs"),
            "{error}"
        );
    }
}
