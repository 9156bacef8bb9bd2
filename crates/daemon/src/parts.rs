//! Changes the parts of a running kernel zone's machine.

use crate::error::PartError;
use crate::server::Server;
use control::protocol::Part;
use host::flatten;

impl Server<'_> {
    /// Changes a part of the machine, and logs the result.
    pub(super) fn change_part(&mut self, part: &Part) -> Result<(), PartError> {
        let done = self.changed_part(part);
        match &done {
            Ok(()) => self.log(&text(part)),
            Err(why) => self.log(&format!("not done: {}: {}", text(part), flatten(why))),
        }
        done
    }

    fn changed_part(&mut self, part: &Part) -> Result<(), PartError> {
        // The machine may run on another host, and this QEMU may have released the disks.
        self.refuse_away()?;
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(PartError::NotAMachine)?;
        let monitor = machine.monitor.as_mut();
        let monitor = monitor.ok_or(PartError::Unresponsive)?;
        match part {
            Part::GrowDisk { id, size } => Ok(vm::parts::grow_disk(monitor, *id, *size)?),
        }
    }
}

fn text(part: &Part) -> String {
    match part {
        Part::GrowDisk { id, size } => {
            format!("disk {id} grows to {}", model::table::exact_size(*size))
        }
    }
}
