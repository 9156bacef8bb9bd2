//! The target of an archive: a new file, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use host::Error;

/// An open target for an archive. A file is named `FILE.part` until [`Target::publish`] renames it.
/// Dropping the target before that removes the file.
pub(super) struct Target {
    file: File,
    /// The final name of the file, and its name until [`Target::publish`]; `None` for standard
    /// output.
    names: Option<(PathBuf, PathBuf)>,
}

impl Target {
    /// Opens the target that `to` names; `-` is standard output.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if `to` exists and is not a regular file, for example a folder
    /// or /dev/null. Fails with [`Error::Io`] if the file cannot be made.
    pub(super) fn open(to: &Path) -> Result<Self, Error> {
        if to == Path::new("-") {
            let file = rustix::io::dup(rustix::stdio::stdout())
                .map_err(|errno| Error::Io("write to standard output".to_owned(), errno.into()))?;
            return Ok(Self {
                file: file.into(),
                names: None,
            });
        }
        // The archive replaces an existing file.
        if fs::metadata(to).is_ok_and(|found| !found.is_file()) {
            return Err(Error::Refused(format!(
                "{} exists and is no regular file: name the file to write, or - for standard output.",
                to.display()
            )));
        }
        let aside = part(to);
        // The file of a killed export is not reused, because another process may have it open.
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Io(format!("write {}", to.display()), error));
            }
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&aside)
            .map_err(Error::io(format!("write {}", to.display())))?;
        Ok(Self {
            file,
            names: Some((to.to_owned(), aside)),
        })
    }

    /// Returns a handle through which the archive is written.
    pub(super) fn writer(&self) -> Result<File, Error> {
        let writer = self.file.try_clone();
        writer.map_err(Error::io("write the archive"))
    }

    /// Syncs a file and gives it its final name.
    ///
    /// # Errors
    /// Fails if the sync or the rename fails. The file is then removed.
    pub(super) fn publish(mut self) -> Result<(), Error> {
        let Some((to, aside)) = &self.names else {
            return Ok(());
        };
        self.file
            .sync_all()
            .map_err(Error::io(format!("write {}", to.display())))?;
        store::atomic::rename(aside, to)?;
        self.names = None;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((_, aside)) = &self.names {
            let _ = fs::remove_file(aside);
        }
    }
}

/// Returns the name of an archive file until it is complete.
fn part(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_file_appears_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("web.tar.zst");
        let target = Target::open(&to).unwrap();
        target.writer().unwrap().write_all(b"half").unwrap();
        assert!(part(&to).exists() && !to.exists());
        drop(target);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

        // The file of a killed export is removed.
        fs::write(part(&to), "left by a killed export").unwrap();
        let target = Target::open(&to).unwrap();
        target.writer().unwrap().write_all(b"whole").unwrap();
        target.publish().unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_a_device_and_a_file_in_no_folder_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for other in [dir.path(), Path::new("/dev/null")] {
            let error = Target::open(other).err().unwrap().to_string();
            assert!(error.contains("is no regular file"), "{error}");
        }
        assert!(Target::open(&dir.path().join("none/web.tar.zst")).is_err());
        fs::create_dir(dir.path().join("web.part")).unwrap();
        assert!(Target::open(&dir.path().join("web")).is_err());
    }
}
