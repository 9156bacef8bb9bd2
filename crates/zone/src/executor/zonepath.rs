//! Makes the zonepath of a zone, closes it to all users except root, and removes it.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use store::xml::manifest;

use host::outcome::AnyError;
use host::undo::UndoStack;
use subject::{FORCED, UNFINISHED, UNPACKING};
use subject::{arrived, assembled, away, pending};

/// Files in a zonepath that describe the zone or its state.
const MARKS: [&str; 11] = [
    subject::identity::FILE,
    subject::identity::LOCK,
    UNFINISHED,
    UNPACKING,
    FORCED,
    manifest::DETACHED,
    arrived::INCOMING,
    arrived::ARRIVED,
    assembled::ASSEMBLED,
    away::AWAY,
    pending::MOVING,
];

/// Makes the zonepath of a zone, or closes an existing folder to all users except root. Returns the
/// former mode of a folder that was closed.
pub(super) fn make_zonepath(path: &Path, undo: &mut UndoStack) -> Result<Option<u32>, AnyError> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    match fs::create_dir(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => fs::create_dir_all(parent)?,
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            let made = path.to_owned();
            undo.push(format!("make {}", path.display()), move || {
                fs::remove_dir(&made).map_err(Into::into)
            });
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // The folder belongs to root, which verify has checked, so only its mode may be too
            // open. It is opened without following a symbolic link that another process may have
            // put there since.
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::open(path, flags, Mode::empty())?;
            close_zonepath(path, folder, undo)
        }
        Err(error) => Err(error.into()),
    }
}

/// Closes a folder that belongs to root to all other users, if the folder contains only files of a
/// zone. A folder such as `/usr` must not be closed, even if a configuration names it. Returns the
/// former mode if it was changed.
fn close_zonepath(
    path: &Path,
    folder: OwnedFd,
    undo: &mut UndoStack,
) -> Result<Option<u32>, AnyError> {
    let stat = rustix::fs::fstat(&folder)?;
    let before = Mode::from_raw_mode(stat.st_mode);
    if stat.st_uid != 0 {
        return Err(format!("{} is not root's", path.display()).into());
    }
    if before == Mode::RWXU {
        return Ok(None);
    }
    if !is_zonepath(path)? {
        return Err(format!(
            "{0} has other files in it and would be closed to all but root; if it is meant for the zone: chmod 700 {0}",
            path.display()
        )
        .into());
    }
    rustix::fs::fchmod(&folder, Mode::RWXU)?;
    undo.push(format!("close {}", path.display()), move || {
        rustix::fs::fchmod(&folder, before).map_err(Into::into)
    });
    Ok(Some(before.as_raw_mode()))
}

/// Returns true if a folder contains only files of a zonepath.
fn is_zonepath(path: &Path) -> std::io::Result<bool> {
    if path.parent().is_some() && path.join(storage::ROOT).symlink_metadata().is_ok() {
        return Ok(true);
    }
    // A new file system is not empty: it contains one of these.
    let ours = ["lost+found", ".zfs", ".layers"];
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !MARKS.iter().chain(&ours).any(|ours| name == *ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Marks the zonepath as the zonepath of an unfinished clone. The mark stays until the clone is
/// stored: after a crash the next clone may remove the files.
pub(super) fn mark_unfinished(path: &Path, undo: &mut UndoStack) -> Result<(), AnyError> {
    let mark = path.join(UNFINISHED);
    // The mark later becomes the file with the zone's identity, which only root may read.
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&mark)?;
    undo.push(format!("make {}", mark.display()), move || {
        fs::remove_file(&mark).map_err(Into::into)
    });
    Ok(())
}

/// Removes the zonepath if it contains only marks. If it contains other files, they stay and a
/// warning is reported.
pub(super) fn remove_zonepath(path: &Path, progress: &mut dyn FnMut(&str)) {
    let found = fs::read_dir(path).into_iter().flatten().flatten();
    let found: Vec<_> = found.map(|entry| entry.path()).collect();
    // The order matters: the mark of a migration must exist until the end, because it says that the
    // zone is on another host.
    for ours in MARKS.map(|mark| path.join(mark)) {
        // A command that was killed while it wrote a mark leaves such a temporary file.
        if found
            .iter()
            .any(|file| store::atomic::target_of(file).as_ref() == Some(&ours))
        {
            store::atomic::remove_aside(&ours);
        }
        // A stored clone may still have its unfinished mark if a crash interrupted the removal of
        // the mark.
        if found.contains(&ours) {
            let _ = fs::remove_file(&ours);
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            progress(&format!(
                "WARNING: unable to completely remove {} because it contains additional user data.",
                path.display()
            ));
        }
        // The zonepath does not exist, or is a mount point of the administrator, which stays.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn install_changes_the_mode_of_the_zonepath_only() {
        if !rustix::process::getuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let folder = |name: &str, file: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(file), "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let system = folder("usr", "bin");
        let mut undo = UndoStack::default();
        let refused = make_zonepath(&system, &mut undo).unwrap_err().to_string();
        assert!(refused.contains("has other files"), "{refused}");
        assert_eq!(mode(&system), 0o755);
        // A folder that an administrator closed is accepted as a zonepath.
        fs::set_permissions(&system, fs::Permissions::from_mode(0o700)).unwrap();
        make_zonepath(&system, &mut undo).unwrap();
        for file in [UNFINISHED, "lost+found", storage::ROOT] {
            let zonepath = folder(&format!("with-{file}"), file);
            let mut undo = UndoStack::default();
            make_zonepath(&zonepath, &mut undo).unwrap();
            assert_eq!(mode(&zonepath), 0o700, "{file}");
            assert!(undo.run().is_empty());
            assert_eq!(mode(&zonepath), 0o755, "{file}");
        }
    }

    #[test]
    fn a_zonepath_goes_with_all_marks_and_with_what_killed_writers_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web");
        let make = |names: &[&str]| {
            fs::create_dir(&path).unwrap();
            for name in names {
                fs::write(path.join(name), "").unwrap();
            }
        };
        make(&MARKS);
        fs::write(path.join("..identity.new"), "").unwrap();
        let mut told = Vec::new();
        remove_zonepath(&path, &mut |line| told.push(line.to_owned()));
        assert!(!path.exists() && told.is_empty(), "{told:?}");
        make(&[UNFINISHED, "notes", ".notes.new"]);
        remove_zonepath(&path, &mut |line| told.push(line.to_owned()));
        assert!(!path.join(UNFINISHED).exists() && told.len() == 1);
        assert!(path.join("notes").exists() && path.join(".notes.new").exists());
    }
}
