//! Serving a zone that is a machine: what QEMU tells, and what it is asked for.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, unlinkat};

use super::server::Server;
use crate::flatten;
use crate::platform::machine::MOMENT;

/// Longest text of QEMU that is logged at once: a guest may make it complain without end.
const LONGEST: usize = 300;

impl Server<'_> {
    /// Shows what the zone wrote to its console.
    pub(super) fn show_output(&mut self) {
        self.silent = !self.console.show_zone_output(&self.platform.console);
    }

    /// Takes notice of what has happened in the machine.
    pub(super) fn hear_machine(&mut self) {
        let Some(machine) = &mut self.platform.machine else {
            return;
        };
        let before = machine.panicked;
        machine.events();
        if machine.panicked && !before {
            self.console.notice("Zone panicked");
            self.log("the kernel of the zone has given up");
            self.runtime.auxiliary = "panicked".to_owned();
            if let Err(error) = self.save() {
                self.log(&error);
            }
        }
    }

    /// Logs what QEMU has written to its own terminal.
    pub(super) fn log_complaint(&mut self) {
        let Some(machine) = &self.platform.machine else {
            return;
        };
        let complaint = machine.complaint();
        if !complaint.is_empty() && self.complaints < MOST_COMPLAINTS {
            self.complaints += 1;
            let text: String = complaint.chars().take(LONGEST).collect();
            self.log(&format!("QEMU: {text}"));
        }
    }

    /// Writes the memory of the machine to a new file; the machine stands still meanwhile,
    /// and goes on as it was.
    pub(super) fn save_core(&mut self, path: &Path) -> Result<(), String> {
        let machine = self.platform.machine.as_mut();
        let monitor = machine
            .and_then(|machine| machine.monitor.as_mut())
            .ok_or("QEMU does not answer")?;
        let core = Core::make(path)?;
        let done = vm::dump::write(monitor, core.file.as_fd())
            .map_err(|error| flatten(&error))
            .and_then(|()| core.sync());
        match &done {
            Ok(()) => self.log(&format!("its memory is in {}", path.display())),
            Err(why) => {
                // Half of it helps nobody.
                core.remove();
                self.log(&format!("its memory was not written: {why}"));
            }
        }
        done
    }

    /// Asks the guest to power off, as the button of a machine does.
    pub(super) fn press_power_button(&mut self) -> Result<(), String> {
        let machine = self.platform.machine.as_mut();
        let monitor = machine
            .and_then(|machine| machine.monitor.as_mut())
            .ok_or("QEMU does not answer; halt the zone")?;
        monitor
            .execute("system_powerdown", None, MOMENT)
            .map_err(|error| flatten(&error))?;
        Ok(())
    }
}

/// Most complaints of QEMU that are logged while a zone runs.
const MOST_COMPLAINTS: u32 = 100;

/// A file for the memory of a machine, and the folder that it is in.
struct Core {
    folder: OwnedFd,
    name: OsString,
    file: File,
}

impl Core {
    /// Makes it in a folder where nobody but its owner, who we are, can change names: all
    /// that was in the zone is in there, and /var/crash is everybody's on some hosts.
    fn make(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("make {}: {error}", path.display());
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(&"no name of a file"));
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, folder, flags, Mode::empty());
        let opened = opened.map_err(|errno| failed(&errno))?;
        let meta = fstat(&opened).map_err(|errno| failed(&errno))?;
        if meta.st_uid != rustix::process::geteuid().as_raw() || meta.st_mode & 0o022 != 0 {
            return Err(failed(&format!(
                "others than root can change what is in {}",
                folder.display()
            )));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&opened, name, flags, Mode::RUSR | Mode::WUSR);
        Ok(Self {
            folder: opened,
            name: name.to_owned(),
            file: File::from(file.map_err(|errno| failed(&errno))?),
        })
    }

    fn sync(&self) -> Result<(), String> {
        let synced = self.file.sync_all();
        synced.map_err(|error| error.to_string())?;
        rustix::fs::fsync(&self.folder).map_err(|errno| errno.to_string())
    }

    fn remove(&self) {
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_core_is_where_nobody_else_can_move_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("k1");
        fs::create_dir(&folder).unwrap();
        let why = |path: &Path| Core::make(path).err().unwrap_or_default();
        for mode in [0o777, 0o1777, 0o770] {
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            let why = why(&folder.join("vmcore.0"));
            assert!(why.contains("others than root can change"), "{why}");
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        symlink(&folder, dir.path().join("k2")).unwrap();
        assert_ne!(why(&dir.path().join("k2/vmcore.0")), "");
        symlink("/nowhere/else", folder.join("vmcore.0")).unwrap();
        assert_ne!(why(&folder.join("vmcore.0")), "");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);

        let core = Core::make(&folder.join("vmcore.1")).unwrap();
        core.sync().unwrap();
        assert_ne!(why(&folder.join("vmcore.1")), "");
        // What goes is what was made, wherever its folder is by then.
        fs::rename(&folder, dir.path().join("moved")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("vmcore.1"), "another").unwrap();
        core.remove();
        assert!(folder.join("vmcore.1").exists());
        assert!(!dir.path().join("moved/vmcore.1").exists());
    }
}
