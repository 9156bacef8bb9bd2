//! From configuration and host facts to what will be done; nothing here has effects.

pub mod boot;
pub(crate) mod machine;
pub mod syscalls;
