//! What verbs fail with; the commands turn it into messages and exit statuses.

/// Why a verb did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The zone's state, or a rule, forbids it.
    #[error("{0}")]
    Refused(String),
    /// The zone that should be copied cannot be; the text names it.
    #[error("{0}")]
    Source(String),
    /// The command line is wrong (exit status 2).
    #[error("{0}")]
    Usage(String),
    /// The zone cannot run as it is configured or as things lie; a line each.
    #[error("{}", .0.join("\n"))]
    Verify(Vec<String>),
    /// zoneadmd or the zone's first process said so.
    #[error("{0}")]
    Daemon(String),
    /// A step of a plan failed; what was done before was undone unless `left` tells otherwise.
    #[error("could not {step}: {why}{}", left.as_ref().map(|text| format!("; {text}")).unwrap_or_default())]
    Step {
        /// The step.
        step: String,
        /// The reason.
        why: String,
        /// What is left and how to go on.
        left: Option<String>,
    },
    /// The configuration or the index.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The zone's data.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Control groups.
    #[error(transparent)]
    Limits(#[from] limits::Error),
    /// The brand.
    #[error(transparent)]
    Brand(#[from] brand::Error),
    /// The choice of an init.
    #[error(transparent)]
    Init(#[from] brand::BootError),
    /// A privilege list.
    #[error(transparent)]
    Privilege(#[from] model::privilege::Error),
    /// A system call.
    #[error("could not {0}")]
    Io(String, #[source] std::io::Error),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io(what.into(), source)
    }

    /// True where the exit status is 2.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Usage(_) => true,
            Self::Brand(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// An error and its causes on one line.
#[must_use]
pub fn flatten(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
