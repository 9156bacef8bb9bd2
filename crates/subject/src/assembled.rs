//! The mark of an immutable zone that has assembled itself: it has booted writable once since its
//! installation, so that its services could write their first files.
//!
//! The text of the mark is the UUID of the zone. A clone has another UUID and no mark, so a clone
//! assembles itself, too.

use std::io::ErrorKind;
use std::path::Path;

use model::Uuid;
use store::atomic::{self, Durability};

use host::Error;

/// The name of the mark in the zonepath.
pub const ASSEMBLED: &str = ".assembled";

/// Returns true if the zone has assembled itself.
///
/// # Errors
/// Fails with [`Error::Io`] if the mark cannot be read.
pub fn is_assembled(zonepath: &Path, uuid: Option<Uuid>) -> Result<bool, Error> {
    let path = zonepath.join(ASSEMBLED);
    match sys::file::read_small(&path) {
        Ok(text) => Ok(text == text_of(uuid).as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::Io(format!("read {}", path.display()), error)),
    }
}

/// Marks the zone as assembled.
///
/// # Errors
/// Fails with [`Error::Store`]. The zone then assembles itself again at its next boot.
pub fn mark(zonepath: &Path, uuid: Option<Uuid>) -> Result<(), Error> {
    let text = text_of(uuid);
    let path = zonepath.join(ASSEMBLED);
    Ok(atomic::replace(
        &path,
        text.as_bytes(),
        0o600,
        Durability::Stable,
    )?)
}

fn text_of(uuid: Option<Uuid>) -> String {
    uuid.map(|uuid| uuid.to_string()).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_only_for_its_own_zone() {
        let zonepath = tempfile::tempdir().unwrap();
        let uuid = |text: &str| Some(text.parse().unwrap());
        let own = uuid("0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff");
        let other = uuid("00000000-0000-4000-8000-000000000000");
        assert!(!is_assembled(zonepath.path(), own).unwrap());
        mark(zonepath.path(), own).unwrap();
        assert!(is_assembled(zonepath.path(), own).unwrap());
        assert!(!is_assembled(zonepath.path(), other).unwrap());
        assert!(!is_assembled(zonepath.path(), None).unwrap());
    }
}
