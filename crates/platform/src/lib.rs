//! The virtual platform of a running zone: zoneadmd's side of a [`BootPlan`](model::plan::BootPlan).
//!
//! ```text
//! zoneadmd                                first process of the zone
//!   control groups, mount namespace
//!   clone ------------------------------> waits
//!   id maps, root, binds, console
//!   "go" -------------------------------> inside.rs: own mounts, /proc, /dev, pivot,
//!                                          privileges, filter
//!   <------------------------------ "ready"
//!   "boot" -----------------------------> exec init (the channel closes: it runs)
//! ```
//!
//! zoneadmd mounts everything that the zone must not undo (read-only binds, /sys of a shared-IP
//! zone) before the first process takes its own copy of the mounts. The kernel then locks these
//! mounts, because they are from a more privileged namespace.

mod answerer;
mod built_platform;
pub(crate) mod channel;
pub mod console;
pub mod controls;
mod credentials;
pub mod datasets;
pub mod enter;
mod error;
mod folders;
pub mod guest;
mod host_name;
mod immutable;
mod inside;
mod kernel;
pub mod kind;
pub(crate) mod place;
pub mod plan;
pub mod proc;
mod steps;
pub mod trusted;
pub mod views;
pub mod visit;

pub use built_platform::{KILL_TIMEOUT, Platform, take_down};
pub use channel::Channel;
pub use error::Error;
pub use host::error::flatten;
pub use inside::NAME_FILE;
