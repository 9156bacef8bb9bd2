//! Changes the parts of a running kernel zone's machine.

use std::os::fd::AsFd;

use model::State;

use crate::error::{ChangedError, MachineError, PartError};
use crate::server::Server;
use control::protocol::Part;
use host::flatten;
use kernelzone::image;

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
        if self.runtime.state != State::Running || self.leaving.is_some() {
            return Err(PartError::NotRunning);
        }
        // The machine may run on another host, and this QEMU may have released the disks.
        self.refuse_away()?;
        self.stop_merge();
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(PartError::NotAMachine)?;
        let monitor = machine.monitor.as_mut();
        let monitor = monitor.ok_or(PartError::Unresponsive)?;
        match part {
            Part::AddDisk { disk, files } => {
                let files = files.iter().map(platform::guest::open);
                let files = files
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(PartError::Open)?;
                Ok(vm::parts::add_disk(monitor, disk, &files)?)
            }
            Part::RemoveDisk(id) => Ok(vm::parts::remove_disk(monitor, *id)?),
            Part::AddCard { card, link } => {
                let tap = platform::guest::tap(self.platform.init.pid, link);
                let tap = tap.map_err(PartError::Tap)?;
                Ok(vm::cards::add(monitor, card, tap.as_fd())?)
            }
            Part::RemoveCard(port) => Ok(vm::cards::remove(monitor, *port)?),
            Part::GrowDisk { id, size } => Ok(vm::parts::grow_disk(monitor, *id, *size)?),
            Part::Processors(number) => Ok(vm::more::add_processors(monitor, *number)?),
            Part::Memory(bytes) => Ok(vm::more::set_memory(monitor, *bytes)?),
        }
    }

    /// Fails if parts of the machine came or went since QEMU was started. No other QEMU could take
    /// the state of such a machine.
    pub(super) fn refuse_changed(&mut self) -> Result<(), ChangedError> {
        let words = image::words_of(self.platform.init.pid)?;
        let Some(machine) = self.platform.machine.as_mut() else {
            return Ok(());
        };
        let monitor = machine.monitor.as_mut();
        let monitor = monitor.ok_or(MachineError::Unresponsive)?;
        let changed = vm::parts::changed(monitor, words.iter().map(String::as_str));
        let changed = changed.map_err(MachineError::from)?;
        match changed.is_empty() {
            true => Ok(()),
            false => Err(ChangedError::Parts(changed.join(", "))),
        }
    }
}

fn text(part: &Part) -> String {
    match part {
        Part::AddDisk { disk, .. } => format!("disk {} is added", disk.id),
        Part::RemoveDisk(id) => format!("disk {id} is removed"),
        Part::AddCard { card, link } => format!("network card {} is added on {link}", card.mac),
        Part::RemoveCard(port) => format!("the network card in port {port} is removed"),
        Part::Processors(number) => format!("the machine has {number} processors"),
        Part::Memory(bytes) => {
            format!("the memory grows to {}", model::table::exact_size(*bytes))
        }
        Part::GrowDisk { id, size } => {
            format!("disk {id} grows to {}", model::table::exact_size(*size))
        }
    }
}
