//! Being written.

/// Being written.
#[derive(Debug, thiserror::Error)]
pub enum Error {}
