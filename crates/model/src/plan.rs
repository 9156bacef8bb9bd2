//! Plans: the steps of a verb, as data that can be printed, compared and sent.
//!
//! The command itself carries out a [`ZonePlan`] (install, clone, ...). The zone's zoneadmd and the
//! first process of the zone carry out a [`BootPlan`]. Every step prints as one line: `-n` prints a
//! plan and changes nothing.

mod boot;
mod inside;
mod interpreter;
mod kernel;
pub mod network;
mod platform;
mod zone;

pub use boot::{BootPlan, Init, Resume};
pub use inside::{InsideStep, ZoneResolver};
pub use interpreter::Interpreter;
pub use kernel::Kernel;
pub use platform::{DeviceNode, MachineFile, MachineParts, PlatformStep};
pub use zone::{Recipe, Step, ZonePlan};
