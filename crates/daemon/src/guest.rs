//! Serves a kernel zone: handles events of QEMU, and sends commands to QEMU.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use rustix::time::Timespec;
use vm::qmp::Monitor;

use crate::error::{ButtonError, CoreError, MachineError};
use crate::server::Server;
use host::flatten;
use platform::guest::MONITOR_TIMEOUT;

/// Maximum number of characters of a QEMU message that are logged at once: a guest may make QEMU
/// write without end.
const MAX_LOGGED_BYTES: usize = 300;

impl Server<'_> {
    /// Shows the output of the zone's console.
    pub(super) fn show_output(&mut self) {
        self.silent = !self.console.show_zone_output(&self.platform.console);
    }

    /// Handles the events that QEMU has sent about the guest.
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
                self.log(&flatten(&error));
            }
        }
    }

    /// Logs the messages that QEMU wrote to its standard error.
    pub(super) fn log_complaint(&mut self) {
        let Some(machine) = &self.platform.machine else {
            return;
        };
        let complaint = machine.complaint();
        if !complaint.is_empty() && self.complaints < MAX_LOGGED_TEXTS {
            self.complaints += 1;
            let text: String = complaint.chars().take(MAX_LOGGED_BYTES).collect();
            self.log(&format!("QEMU: {text}"));
        }
    }

    /// Writes the memory of the guest to a new file. The guest is paused during this and then
    /// resumed.
    pub(super) fn save_core(&mut self, path: &Path) -> Result<(), CoreError> {
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(MachineError::NotAMachine)?;
        // Memory that came while the guest ran is in the configuration of the running zone.
        let running = store::xml::load_running(&self.host.root, self.zone);
        let size = running.map_or(0, |config| config.machine_memory());
        let size = size.max(machine.size);
        let monitor = machine.monitor.as_mut();
        let monitor = monitor.ok_or(MachineError::Unresponsive)?;
        let core = Core::make(path)?;
        let done = written(monitor, &core.file, size).and_then(|()| core.sync());
        match &done {
            Ok(()) => self.log(&format!("its memory is in {}", path.display())),
            Err(why) => {
                // An incomplete core is of no use.
                core.remove();
                self.log(&format!("its memory was not written: {}", flatten(why)));
            }
        }
        done
    }

    /// Asks the guest to power off, like the power button of a computer.
    pub(super) fn press_power_button(&mut self) -> Result<(), ButtonError> {
        // A guest that may run on another host is paused. It would see the button only when it runs
        // again, when the shutdown is no longer wanted.
        self.refuse_away()?;
        let machine = self.platform.machine.as_mut();
        let monitor = machine
            .and_then(|machine| machine.monitor.as_mut())
            .ok_or(ButtonError::Unresponsive)?;
        monitor.execute("system_powerdown", None, MONITOR_TIMEOUT)?;
        Ok(())
    }
}

/// Maximum number of QEMU messages that are logged while a zone runs.
const MAX_LOGGED_TEXTS: u32 = 100;

/// The file that gets the memory of a guest, and the folder of the file.
struct Core {
    folder: OwnedFd,
    name: OsString,
    file: File,
}

impl Core {
    /// Makes the core file. Its folder must belong to this process's user, and no other user may be
    /// able to change names in the folder: the core contains all memory of the zone, and on some
    /// hosts every user can write to /var/crash.
    fn make(path: &Path) -> Result<Self, CoreError> {
        let at = path.to_owned();
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(CoreError::NoName { path: at });
        };
        let failed = |errno: Errno| CoreError::Make {
            path: at.clone(),
            source: errno.into(),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, folder, flags, Mode::empty());
        let opened = opened.map_err(failed)?;
        let meta = fstat(&opened).map_err(failed)?;
        if meta.st_uid != rustix::process::geteuid().as_raw() || meta.st_mode & 0o022 != 0 {
            return Err(CoreError::OpenFolder {
                path: at,
                folder: folder.to_owned(),
            });
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&opened, name, flags, Mode::RUSR | Mode::WUSR);
        Ok(Self {
            folder: opened,
            name: name.to_owned(),
            file: File::from(file.map_err(failed)?),
        })
    }

    fn sync(&self) -> Result<(), CoreError> {
        self.file.sync_all().map_err(CoreError::Write)?;
        rustix::fs::fsync(&self.folder).map_err(|errno| CoreError::Write(errno.into()))
    }

    fn remove(&self) {
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Timeout for QEMU to close the pipe after it has reported success.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes QEMU write the memory of the guest, of `size` bytes, through a pipe. So a QEMU that a
/// guest has taken over keeps no file of the host open, and cannot fill the disk.
fn written(monitor: &mut Monitor, file: &File, size: u64) -> Result<(), CoreError> {
    let pipe = pipe_with(PipeFlags::CLOEXEC);
    let (from, to) = pipe.map_err(|errno| CoreError::Pipe(errno.into()))?;
    // A larger pipe is only quicker, so an error is ignored.
    let _ = rustix::pipe::fcntl_setpipe_size(&to, 1 << 20);
    // Compressed, the core is not larger than the memory, except for the table of its pages.
    let most = size.saturating_add(size / 8).saturating_add(64 << 20);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let copied = scope.spawn(|| copy(from, file, most, (&over, PIPE_CLOSE_TIMEOUT)));
        let dumped = vm::dump::write(monitor, to.as_fd());
        drop(to);
        over.store(true, Ordering::Release);
        let copied = copied.join();
        copied.unwrap_or(Err(CoreError::Panicked))?;
        Ok(dumped.map_err(MachineError::from)?)
    })
}

/// Copies the data of a pipe to a file. If the copy fails, the pipe is closed, which tells QEMU.
/// After `over` is true, QEMU has the time `ending` to close the pipe.
fn copy(
    from: impl AsFd,
    to: &File,
    most: u64,
    (over, ending): (&AtomicBool, Duration),
) -> Result<(), CoreError> {
    let mut left = most;
    let mut since = None;
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    loop {
        // This check also ends a QEMU that writes without end.
        let waits = over.load(Ordering::Acquire);
        if waits && since.get_or_insert_with(Instant::now).elapsed() > ending {
            return Err(CoreError::Late);
        }
        let mut watched = [PollFd::new(&from, PollFlags::IN)];
        match poll(&mut watched, Some(&moment)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(CoreError::Wait(errno.into())),
        }
        let piece = usize::try_from(left.min(1 << 20)).unwrap_or(1 << 20);
        match splice(&from, None, to, None, piece, SpliceFlags::NONBLOCK) {
            Ok(0) => return Ok(()),
            Ok(length) => left = left.saturating_sub(length as u64),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(CoreError::Write(errno.into())),
        }
        if left == 0 {
            return Err(CoreError::TooLong);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn savecore_refuses_a_folder_that_other_users_can_change() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("k1");
        fs::create_dir(&folder).unwrap();
        let why = |path: &Path| {
            Core::make(path)
                .err()
                .map_or(String::new(), |why| flatten(&why))
        };
        for mode in [0o777, 0o1777, 0o770] {
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            let why = why(&folder.join("vmcore.0"));
            assert!(why.contains("other than root can change"), "{why}");
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
        // The core that was made is removed, even if its folder was renamed.
        fs::rename(&folder, dir.path().join("moved")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("vmcore.1"), "another").unwrap();
        core.remove();
        assert!(folder.join("vmcore.1").exists());
        assert!(!dir.path().join("moved/vmcore.1").exists());
    }

    /// Returns the result of copying these bytes from the pipe to a core file.
    fn copied(bytes: &[u8], most: u64, closes: bool) -> (Result<(), CoreError>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("core");
        let file = File::create(&path).unwrap();
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let over = AtomicBool::new(true);
        let ending = match closes {
            true => PIPE_CLOSE_TIMEOUT,
            false => Duration::ZERO,
        };
        let done = std::thread::scope(|scope| {
            let done = scope.spawn(|| copy(from, &file, most, (&over, ending)));
            let mut rest = bytes;
            while let Ok(length @ 1..) = rustix::io::write(&to, rest) {
                rest = &rest[length..];
            }
            let held = (!closes).then_some(to);
            let done = done.join().unwrap();
            drop(held);
            done
        });
        (done, fs::read(path).unwrap())
    }

    #[test]
    fn a_qemu_keeps_no_file_and_fills_no_disk() {
        let bytes = vec![7; 3 << 20];
        let (done, found) = copied(&bytes, 4 << 20, true);
        done.unwrap();
        assert!(found == bytes);
        // The test passes only if these two calls return.
        let (done, found) = copied(&bytes, 1 << 20, true);
        assert!(matches!(done, Err(CoreError::TooLong)), "{done:?}");
        assert_eq!(found.len(), 1 << 20);
        let (done, _) = copied(&bytes[..100], 1 << 20, false);
        assert!(matches!(done, Err(CoreError::Late)), "{done:?}");
    }
}
