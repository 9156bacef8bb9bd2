//! Which migrations have brought a zone here. The zone's mark says so while it is here; of
//! one that has gone on since, a list does: its source may not have heard of it yet, and must
//! not run it again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use store::Root;

use crate::Error;

/// Stands in the zonepath of a zone that came by a migration; its text names that.
pub(crate) const ARRIVED: &str = ".arrived";

/// Longest name of a migration.
const LONGEST: usize = 64;

/// The name of a migration, as it came from elsewhere.
pub(super) fn name(text: &str) -> String {
    let legal = text.chars().filter(char::is_ascii_alphanumeric);
    legal.take(LONGEST).collect()
}

/// The migration that the zone in a zonepath came by.
pub(super) fn of(zonepath: &Path) -> Result<Option<String>, Error> {
    let path = zonepath.join(ARRIVED);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(name(&text))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Io(format!("read {}", path.display()), error)),
    }
}

/// Those whose zones have gone on, a line of some 30 bytes each.
fn list(root: &Root) -> PathBuf {
    root.lib().join("gone-on")
}

/// Remembers how a zone came here that goes on to somewhere else.
pub(crate) fn remember(root: &Root, zonepath: &Path) -> Result<(), Error> {
    let Some(id) = of(zonepath)? else {
        return Ok(());
    };
    if has_gone_on(root, &id)? {
        return Ok(());
    }
    let path = list(root);
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(root.lib())?;
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(&path)?;
        // As one: others may write, too.
        file.write_all(format!("{id}\n").as_bytes())?;
        file.sync_all()?;
        File::open(root.lib())?.sync_all()
    };
    write().map_err(Error::io(format!("write {}", path.display())))
}

/// Whether the zone of a migration came here, and has gone on.
pub(super) fn has_gone_on(root: &Root, id: &str) -> Result<bool, Error> {
    let path = list(root);
    let fail = || Error::io(format!("read {}", path.display()));
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.map_err(fail())?,
    };
    for line in BufReader::new(file).lines() {
        if !id.is_empty() && line.map_err(fail())? == id {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_has_gone_on_did_come() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let zonepath = folder.path().join("k1");
        std::fs::create_dir(&zonepath).unwrap();
        // One that was made here.
        remember(&root, &zonepath).unwrap();
        assert!(!has_gone_on(&root, "1f2e").unwrap());
        for id in ["1f2e", "77aa", "1f2e"] {
            std::fs::write(zonepath.join(ARRIVED), format!("{id}\n")).unwrap();
            remember(&root, &zonepath).unwrap();
        }
        assert!(has_gone_on(&root, "1f2e").unwrap() && has_gone_on(&root, "77aa").unwrap());
        assert!(!has_gone_on(&root, "1f").unwrap() && !has_gone_on(&root, "").unwrap());
        assert_eq!(std::fs::read_to_string(list(&root)).unwrap().len(), 10);
        assert_eq!(name("../a\nb\x1b0"), "ab0");
    }
}
