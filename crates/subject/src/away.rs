//! The mark in the zonepath of a zone that may already belong to another host. The mark names the
//! migration and the target host. While the mark exists, the zone does not run on this host: only
//! the named host knows to which host the zone belongs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host::Error;

/// The mark's name.
pub const AWAY: &str = ".migrating";

/// Maximum length of a word of the mark, in bytes.
const MAX_WORD_BYTES: usize = 255;

/// The content of the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// The name of the migration.
    pub id: String,
    /// The target host; `None` in a mark that an older zoneadm wrote.
    pub host: Option<String>,
}

impl Away {
    /// Returns the mark of a zone, if the zone has one.
    ///
    /// # Errors
    /// Fails when the mark cannot be read.
    pub fn of(zonepath: &Path) -> Result<Option<Self>, Error> {
        match fs::read_to_string(zonepath.join(AWAY)) {
            Ok(text) => {
                let mut words = text.split_whitespace().map(|word| {
                    let printable = word.chars().filter(|c| !c.is_control());
                    printable.take(MAX_WORD_BYTES).collect::<String>()
                });
                let id = words.next().unwrap_or_default();
                let host = words.next();
                Ok(Some(Self { id, host }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Io(
                format!("read {}/{AWAY}", zonepath.display()),
                error,
            )),
        }
    }

    /// Refuses to ask a host other than the target of the migration: the answer of any other host
    /// says nothing about the zone. `asked` is `[user@]host`.
    ///
    /// # Errors
    /// Fails if `asked` names another host.
    pub fn refuse_other(&self, asked: &str) -> Result<(), Error> {
        match &self.host {
            Some(host) if without_user(host) != without_user(asked) => {
                Err(Error::Refused(format!(
                    "may already be on {host}, and {asked} cannot tell: give its zoneadm migrate {host} again."
                )))
            }
            _ => Ok(()),
        }
    }
}

fn without_user(host: &str) -> &str {
    host.rsplit('@').next().unwrap_or(host)
}

/// Returns whether a zone may already belong to another host; also true if this cannot be read.
pub fn is_away(zonepath: &Path) -> bool {
    zonepath.join(AWAY).try_exists().unwrap_or(true)
}

/// Writes the mark: from now on the zone may belong to `host`.
pub fn leave(zonepath: &Path, id: &str, host: &str) -> Result<(), Error> {
    let text = format!("{id}\n{host}\n");
    Ok(store::atomic::write(
        &zonepath.join(AWAY),
        text.as_bytes(),
        0o600,
    )?)
}

/// Removes the mark: the zone belongs to this host.
pub fn come_back(zonepath: &Path) -> Result<(), Error> {
    Ok(store::atomic::remove(&zonepath.join(AWAY))?)
}

/// Removes the zonepath of a zone that belongs to another host now, with the mark in it. The
/// zonepath is renamed first: a command that is killed leaves either a zonepath with its mark, or
/// the folder that [`clear_gone`] removes. A zonepath with files of the administrator, or with a
/// mount of its own, loses only the mark.
///
/// # Errors
/// [`Error::Store`] if the mark cannot be removed.
pub fn remove_zonepath(zonepath: &Path) -> Result<(), Error> {
    clear_gone(zonepath)?;
    if !holds_only_the_mark(zonepath) || fs::rename(zonepath, gone(zonepath)).is_err() {
        return come_back(zonepath);
    }
    clear_gone(zonepath).map(drop)
}

/// Removes the folder that a killed [`remove_zonepath`] left. Returns whether this folder existed.
///
/// # Errors
/// [`Error::Store`] if the mark in it cannot be removed.
pub fn clear_gone(zonepath: &Path) -> Result<bool, Error> {
    let gone = gone(zonepath);
    if !gone.is_dir() {
        return Ok(false);
    }
    come_back(&gone)?;
    let _ = fs::remove_dir(&gone);
    Ok(true)
}

/// Returns the name that a zonepath has while it is removed: a hidden name in the same folder.
fn gone(zonepath: &Path) -> PathBuf {
    let name = zonepath.file_name().unwrap_or_default().to_string_lossy();
    zonepath.with_file_name(format!(".{name}.gone"))
}

/// Returns the zonepath that a killed [`remove_zonepath`] renamed to this folder. Returns `None`
/// for any other path, and for a folder that holds more than the mark.
#[must_use]
pub fn was_zonepath(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix('.')?.strip_suffix(".gone")?;
    let is_folder = path.symlink_metadata().is_ok_and(|stat| stat.is_dir());
    let is_left = !name.is_empty() && is_folder && holds_only_the_mark(path);
    is_left.then(|| path.with_file_name(name))
}

fn holds_only_the_mark(zonepath: &Path) -> bool {
    fs::read_dir(zonepath).is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == AWAY))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_target_of_the_migration_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(!is_away(path) && Away::of(path).unwrap().is_none());
        leave(path, "1f2e", "root@two").unwrap();
        let away = Away::of(path).unwrap().unwrap();
        assert_eq!(away.id, "1f2e");
        away.refuse_other("root@two").unwrap();
        away.refuse_other("two").unwrap();
        let error = away.refuse_other("root@three").unwrap_err();
        assert!(error.to_string().contains("may already be on root@two"));
        // Older programs wrote only the name of the migration.
        fs::write(path.join(AWAY), "1f2e").unwrap();
        let away = Away::of(path).unwrap().unwrap();
        assert_eq!(away.id, "1f2e");
        away.refuse_other("three").unwrap();
        come_back(path).unwrap();
        come_back(path).unwrap();
        assert!(!is_away(path));
        // A zonepath that cannot be read counts as away.
        fs::write(path.join("file"), "").unwrap();
        assert!(is_away(&path.join("file")) && Away::of(&path.join("file")).is_err());
    }

    #[test]
    fn a_zonepath_goes_with_its_mark_and_files_of_the_administrator_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web");
        fs::create_dir(&path).unwrap();
        leave(&path, "1f2e", "two").unwrap();
        remove_zonepath(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        // A command was killed between the rename and the removal.
        fs::create_dir(folder.path().join(".web.gone")).unwrap();
        leave(&folder.path().join(".web.gone"), "1f2e", "two").unwrap();
        assert_eq!(
            was_zonepath(&folder.path().join(".web.gone")),
            Some(path.clone())
        );
        assert!(clear_gone(&path).unwrap() && !clear_gone(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fs::create_dir(&path).unwrap();
        fs::write(path.join("notes"), "").unwrap();
        leave(&path, "1f2e", "two").unwrap();
        remove_zonepath(&path).unwrap();
        assert!(!is_away(&path) && path.join("notes").exists());

        // These folders belong to the administrator.
        fs::create_dir_all(folder.path().join(".db.gone/notes")).unwrap();
        for name in [".db.gone", "web", ".gone"] {
            assert_eq!(was_zonepath(&folder.path().join(name)), None, "{name}");
        }
    }
}
