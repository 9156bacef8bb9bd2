//! Plans: the steps of a verb, as data that can be printed, compared and sent.
//!
//! [`ZonePlan`] is carried out by the command itself (install, clone, ...),
//! [`BootPlan`] by the zone's zoneadmd and by the first process of the zone.
//! Every step prints as one line: `-n` shows a plan and does nothing.

mod boot;
mod inside;
mod interpreter;
mod kernel;
pub mod network;
mod platform;
mod zone;

pub use boot::{BootPlan, Init, Resume};
pub use inside::InsideStep;
pub use interpreter::Interpreter;
pub use kernel::Kernel;
pub use platform::{DeviceNode, MachineFile, MachineParts, PlatformStep};
pub use zone::{Recipe, Step, ZonePlan};
