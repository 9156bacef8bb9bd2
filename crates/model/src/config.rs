//! Being written.
/// Being written.
#[derive(Debug)]
pub struct Config;
