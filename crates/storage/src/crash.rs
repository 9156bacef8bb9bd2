//! Crash points: places where tests end an operation as a power cut would.

pub(crate) use sys::crash::point;
#[cfg(test)]
pub(crate) use sys::crash::run;
