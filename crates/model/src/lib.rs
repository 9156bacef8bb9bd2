//! The configuration and the plans of a zone, as data.
//!
//! This crate is pure: it uses no file, no clock and no kernel call. Names and states are those of
//! the Solaris manuals. The other crates turn this data into effects.

pub mod brands;
pub mod config;
pub mod controls;
#[cfg(feature = "generate")]
pub mod generate;
pub mod immutable;
pub mod live;
pub mod name;
pub mod plan;
pub mod privilege;
pub mod state;
pub mod table;
pub mod uuid;
pub mod verb;
pub mod verify;

pub use config::Config;
pub use name::ZoneName;
pub use state::State;
pub use uuid::Uuid;
pub use verb::Verb;
