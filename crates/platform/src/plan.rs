//! Makes plans from the configuration and facts of the host; no function here has
//! effects.

pub mod boot;
pub mod guest;
pub mod syscalls;
