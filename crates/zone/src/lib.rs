//! The life of a zone: one verb per file, over plans that say what will be done.
//!
//! | folder | holds |
//! |---|---|
//! | this one | the verbs: install, clone, boot, halt, ... and what they share |
//! | `plan` | pure: from configuration and host facts to a plan |
//! | `platform` | building and taking down the virtual platform (in zoneadmd) |
//! | `daemon` | zoneadmd: serving an active zone, its socket and console |

pub mod apply;
pub mod boot;
pub mod clone;
pub mod controls;
pub mod daemon;
mod devices;
pub mod enter;
mod error;
mod fault;
mod freeze;
pub mod halt;
mod host;
pub mod images;
pub mod install;
pub mod list;
pub mod live;
pub mod mark;
pub mod mount;
pub mod plan;
pub mod platform;
pub mod quota;
pub mod reboot;
pub mod rollback;
pub mod shutdown;
pub mod snapshot;
pub mod snapshots;
pub mod space;
mod spawn;
pub mod subject;
mod undo;
pub mod uninstall;
pub mod verify;

pub use error::{Error, flatten};
pub use fault::Fault;
pub use host::Host;
pub use subject::Subject;
