//! The errors when a platform is built or torn down.

use std::io;

/// The reason why a platform could not be built or torn down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step of the plan failed.
    #[error("could not {step}")]
    Step {
        /// The step, in the words of the plan.
        step: String,
        /// The reason of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The first process reported the reason why it cannot continue.
    #[error("{0}")]
    Inside(String),
    /// The first process ended without a message.
    #[error("the zone's first process ended unexpectedly")]
    Ended,
    /// The socket to the first process failed.
    #[error("lost contact with the zone's first process")]
    Channel(#[source] io::Error),
    /// The plan contradicts itself.
    #[error("the boot plan lacks {0}")]
    Plan(&'static str),
    /// The teardown left objects behind. The text lists all of them.
    #[error("{}", .0.join("; "))]
    Teardown(Vec<String>),
}
