//! Starts the process that ends the writable first boot of an immutable zone.

use model::State;
use model::immutable::Access;

use super::Server;
use host::{flatten, spawn};

impl Server<'_> {
    /// Starts `zoneadm assemble` if the zone runs and assembles itself in this boot.
    pub(super) fn assemble(&self) {
        let assembles = |one: model::immutable::Immutable| one.access == Access::Assembling;
        if self.runtime.state != State::Running || !self.runtime.immutable.is_some_and(assembles) {
            return;
        }
        self.log("assembles itself: it is writable until its services have started");
        let log = control::log::open(&self.host.root, self.zone).ok();
        if let Err(error) = spawn::assemble(self.host, self.zone, self.runtime.id, log.as_ref()) {
            self.log(&format!(
                "WARNING: stays writable until its next boot: {}",
                flatten(&error)
            ));
        }
    }
}
