//! From configuration and host facts to what will be done; nothing here has effects.

pub mod boot;
pub mod guest;
pub mod syscalls;
