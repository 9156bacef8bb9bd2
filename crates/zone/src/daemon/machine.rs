//! Serving a zone that is a machine: what QEMU tells, and what it is asked for.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| format!("make {}: {error}", path.display()))?;
        let done = vm::dump::write(monitor, file.as_fd())
            .map_err(|error| flatten(&error))
            .and_then(|()| file.sync_all().map_err(|error| error.to_string()));
        match &done {
            Ok(()) => self.log(&format!("its memory is in {}", path.display())),
            Err(why) => {
                // Half of it helps nobody.
                let _ = std::fs::remove_file(path);
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
