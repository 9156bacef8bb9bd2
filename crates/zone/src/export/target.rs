//! The place where an archive goes: a new file, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use host::Error;

/// The open place of an archive. A file has the name `FILE.part` until [`Target::publish`]
/// renames it; dropped before that, it removes the file.
pub(super) struct Target {
    file: File,
    /// The final name and the name until then; none for standard output.
    names: Option<(PathBuf, PathBuf)>,
}

impl Target {
    /// Opens the place that `to` names; `-` is standard output.
    ///
    /// # Errors
    /// [`Error::Refused`] if `to` is something else than a file, as a folder or /dev/null;
    /// [`Error::Io`] if no file can be made there.
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
        // The file that a killed export left may have other readers.
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

    /// Returns a handle to write through.
    pub(super) fn writer(&self) -> Result<File, Error> {
        let writer = self.file.try_clone();
        writer.map_err(Error::io("write the archive"))
    }

    /// Syncs a file and gives it its final name.
    ///
    /// # Errors
    /// [`Error`] if one of the two fails; the file is then removed.
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

/// Returns the name of a file until it is whole.
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

        // The file of a killed export goes.
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
