//! Records the migrations that brought zones to this host. While the zone is on this host, a mark
//! in its zonepath names the migration. When the zone migrates to another host, a list keeps the
//! name: the source may not have heard of the migration's success, and must not run the zone again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use store::{Root, format};

use host::Error;

/// The mark in the zonepath of a zone that came by a migration; its text is the name of the
/// migration.
pub const ARRIVED: &str = ".arrived";

/// The mark in the zonepath of a zone whose migration to this host is not complete.
pub const INCOMING: &str = ".incoming";

/// Maximum length of a migration's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Returns the name of a migration from a text of another host, without the characters that a name
/// must not have.
pub fn name(text: &str) -> String {
    let legal = text.chars().filter(char::is_ascii_alphanumeric);
    legal.take(MAX_NAME_BYTES).collect()
}

/// Returns the name of the migration that brought the zone of this zonepath.
pub fn of(zonepath: &Path) -> Result<Option<String>, Error> {
    let path = zonepath.join(ARRIVED);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(name(&text))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Io(format!("read {}", path.display()), error)),
    }
}

/// The format of [`list`] that is written, in its first line. A list without this line has format
/// 1.
const FORMAT: u64 = 1;

/// Returns the path of the list of migrations whose zones have left this host. Each line has some
/// 30 bytes.
fn list(root: &Root) -> PathBuf {
    root.lib().join("gone-on")
}

/// Adds the migration of a zone to the list before the zone leaves this host.
pub fn remember(root: &Root, zonepath: &Path) -> Result<(), Error> {
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
        // A single write: other commands may append, too.
        let line = match file.metadata()?.len() {
            0 => format!("{}{FORMAT}\n{id}\n", format::LINE),
            _ => format!("{id}\n"),
        };
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        File::open(root.lib())?.sync_all()
    };
    write().map_err(Error::io(format!("write {}", path.display())))
}

/// Returns whether a migration brought its zone to this host, and the zone has left this host
/// since.
pub fn has_gone_on(root: &Root, id: &str) -> Result<bool, Error> {
    let path = list(root);
    let fail = || Error::io(format!("read {}", path.display()));
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.map_err(fail())?,
    };
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(fail())?;
        if number == 0 {
            format::check_lines(&path, &line, FORMAT)?;
        }
        if !id.is_empty() && line == id {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_that_moved_to_a_third_host_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let zonepath = folder.path().join("k1");
        std::fs::create_dir(&zonepath).unwrap();
        // A zone that was installed on this host.
        remember(&root, &zonepath).unwrap();
        assert!(!has_gone_on(&root, "1f2e").unwrap());
        for id in ["1f2e", "77aa", "1f2e"] {
            std::fs::write(zonepath.join(ARRIVED), format!("{id}\n")).unwrap();
            remember(&root, &zonepath).unwrap();
        }
        assert!(has_gone_on(&root, "1f2e").unwrap() && has_gone_on(&root, "77aa").unwrap());
        assert!(!has_gone_on(&root, "1f").unwrap() && !has_gone_on(&root, "").unwrap());
        let text = std::fs::read_to_string(list(&root)).unwrap();
        assert_eq!(text, "# format: 1\n1f2e\n77aa\n");
        // Older programs wrote no format. A newer format is refused.
        std::fs::write(list(&root), "1f2e\n").unwrap();
        assert!(has_gone_on(&root, "1f2e").unwrap());
        remember(&root, &zonepath).unwrap();
        let newer = "# format: 2\n1f2e\n";
        std::fs::write(list(&root), newer).unwrap();
        std::fs::write(zonepath.join(ARRIVED), "88bb\n").unwrap();
        let error = remember(&root, &zonepath).unwrap_err().to_string();
        assert!(error.contains("gone-on has format 2"), "{error}");
        assert_eq!(std::fs::read_to_string(list(&root)).unwrap(), newer);
        assert_eq!(name("../a\nb\x1b0"), "ab0");
    }
}
