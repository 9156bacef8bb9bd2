//! The errors of building or taking down the platform.

use std::io;

/// The errors of building or taking down the platform.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step of the plan.
    #[error("could not {step}")]
    Step {
        /// The step, as the plan prints it.
        step: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The first process said why it could not go on.
    #[error("{0}")]
    Inside(String),
    /// The first process ended without a word.
    #[error("the zone's first process ended unexpectedly")]
    Ended,
    /// Talking to the first process.
    #[error("lost contact with the zone's first process")]
    Channel(#[source] io::Error),
    /// The plan does not hang together.
    #[error("the boot plan lacks {0}")]
    Plan(&'static str),
    /// Taking down left something behind; all of it is listed.
    #[error("{}", .0.join("; "))]
    Teardown(Vec<String>),
}
