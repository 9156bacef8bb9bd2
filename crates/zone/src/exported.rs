//! The files that a zone with a label has in /export, in verbs that copy or remove a zone.
//!
//! They lie in `export/root` of the zonepath, outside the zone's root. So no snapshot, archive or
//! backup has them, and a new zone must not find those of a former zone in its zonepath.

use std::fs;
use std::path::{Path, PathBuf};

use host::{Error, Host};
use storage::{EXPORT, ROOT};

/// Returns the folder with the files if it has any.
fn files(zonepath: &Path) -> Option<PathBuf> {
    let folder = zonepath.join(EXPORT).join(ROOT);
    let mut entries = fs::read_dir(&folder).ok()?;
    entries.next().map(|_| folder)
}

/// Returns a remark if a copy of the zone leaves files out. `copy` names the copy.
pub(crate) fn left_out(host: &Host, zonepath: &Path, copy: &str) -> Option<String> {
    let folder = files(zonepath)?;
    Some(format!(
        "the {copy} leaves out the files in /export: save {} on the host.",
        host.root.shown(&folder).display()
    ))
}

/// Refuses a migration that would lose files: it sends the root alone, and then removes the
/// zonepath.
///
/// # Errors
/// Fails with [`Error::Refused`] if /export has files.
pub fn refuse_migration(host: &Host, zonepath: &Path) -> Result<(), Error> {
    match files(zonepath) {
        None => Ok(()),
        Some(folder) => Err(Error::Refused(format!(
            "has files in /export, which do not migrate: move the content of {0} to another place, migrate the zone, and copy the content to {0} of the other host.",
            host.root.shown(&folder).display()
        ))),
    }
}

/// Returns the problem of a zonepath that still has the exported files of a former zone. A new zone
/// would show them at its own label.
#[must_use]
pub fn problem_of_new(host: &Host, zonepath: &Path) -> Option<String> {
    let folder = zonepath.join(EXPORT);
    folder.symlink_metadata().ok()?;
    Some(format!(
        "{} has the exported files of a former zone: move it away.",
        host.root.shown(&folder).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_export_are_named_and_an_unused_folder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(store::Root::new(folder.path()), PathBuf::new(), None);
        let zonepath = folder.path().join("zones/web");
        let root = zonepath.join(EXPORT).join(ROOT);
        assert_eq!(problem_of_new(&host, &zonepath), None);
        fs::create_dir_all(&root).unwrap();
        assert_eq!(left_out(&host, &zonepath, "backup"), None);
        assert!(refuse_migration(&host, &zonepath).is_ok());
        fs::write(root.join("f"), "").unwrap();
        let remark = left_out(&host, &zonepath, "backup").unwrap();
        assert_eq!(
            remark,
            "the backup leaves out the files in /export: save /zones/web/export/root on the host."
        );
        let refused = refuse_migration(&host, &zonepath).unwrap_err().to_string();
        assert!(refused.contains("/zones/web/export/root"), "{refused}");
        assert_eq!(
            problem_of_new(&host, &zonepath).unwrap(),
            "/zones/web/export has the exported files of a former zone: move it away."
        );
    }
}
