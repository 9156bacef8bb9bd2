//! Crash points: the points in an operation at which a test ends the process, as a power failure
//! would.

pub(crate) use sys::crash::point;
#[cfg(test)]
pub(crate) use sys::crash::{run, watched};
