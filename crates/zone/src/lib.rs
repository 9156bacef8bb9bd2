//! The life of a zone: one verb per file, over plans that say what will be done.
//!
//! | folder | holds |
//! |---|---|
//! | this one | the verbs: install, clone, boot, halt, ... and what they share |
//! | `plan` | pure: from configuration and host facts to a plan |
//! | `platform` | building and taking down the virtual platform (in zoneadmd) |
//! | `service` | all zones when the host boots and shuts down |
//! | `daemon` | zoneadmd: serving an active zone, its socket and console |

mod answerer;
pub mod apply;
mod arriving;
pub mod attach;
pub mod boot;
pub mod clone;
pub mod controls;
pub mod daemon;
pub mod detach;
mod devices;
pub mod enter;
pub mod environments;
mod error;
pub mod export;
mod fault;
mod freeze;
pub mod halt;
mod host;
pub mod images;
pub mod import;
pub mod install;
mod inventory;
pub mod job;
pub mod links;
pub mod list;
pub mod live;
pub mod machine;
pub mod mark;
pub mod merge;
pub mod migrate;
pub mod mount;
mod names;
pub mod network;
pub mod parallel;
pub mod plan;
pub mod platform;
mod pools;
pub mod progress;
pub mod quota;
pub mod rctl;
pub mod reboot;
mod received;
pub mod rollback;
pub mod savecore;
pub mod service;
pub mod shutdown;
pub mod snapshot;
pub mod snapshots;
pub mod space;
mod spawn;
pub mod subject;
pub mod suspend;
mod undo;
pub mod uninstall;
pub mod verify;

pub use error::{Error, flatten};
pub use fault::Fault;
pub use host::Host;
pub use subject::Subject;
