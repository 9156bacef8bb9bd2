//! The errors of verbs; the commands turn them into messages and exit statuses.

/// The reason why a verb failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The zone's state, or a rule, forbids the verb.
    #[error("{0}")]
    Refused(String),
    /// The state of the zone forbids the verb.
    #[error("{0}")]
    State(String),
    /// The root of the zone is missing, or this host does not know it.
    #[error("{0}")]
    Root(String),
    /// Another host owns the zonepath.
    #[error("{0}")]
    Owner(String),
    /// The zone that is the source of a copy cannot be copied. The message names the zone that
    /// cannot be copied.
    #[error("{0}")]
    Source(String),
    /// The command line is wrong (exit status 2).
    #[error("{0}")]
    Usage(String),
    /// The configuration of the zone cannot run on this host as the host is now. Each line of the
    /// message is one problem.
    #[error("{}", .0.join("\n"))]
    Verify(Vec<String>),
    /// The packages of a zone do not match this host. The message has the lines of the report.
    #[error("{}", .0.join("\n"))]
    Mismatch(Vec<String>),
    /// zoneadmd or the zone's first process reported an error.
    #[error("{0}")]
    Daemon(String),
    /// A step of a plan failed; the earlier steps were undone, except those in `left`.
    #[error("could not {step}: {why}{}", left.as_ref().map(|text| format!("; {text}")).unwrap_or_default())]
    Step {
        /// The text of the step that failed.
        step: String,
        /// The reason why the step failed.
        why: String,
        /// The changes that remain, and how the user can continue.
        left: Option<String>,
    },
    /// A step failed as in [`Error::Step`], because a file system is full. On a full file system
    /// the same verb would also fail for every other zone.
    #[error("could not {step}: {why}{}", left.as_ref().map(|text| format!("; {text}")).unwrap_or_default())]
    Full {
        /// The text of the step that failed.
        step: String,
        /// The reason why the step failed.
        why: String,
        /// The changes that remain, and how the user can continue.
        left: Option<String>,
    },
    /// An error about the configuration or the index.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// An error about the zone's data.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// An error about control groups.
    #[error(transparent)]
    Limits(#[from] limits::Error),
    /// An error about a container image.
    #[error(transparent)]
    Oci(#[from] oci::Error),
    /// An error of the brand.
    #[error(transparent)]
    Brand(#[from] brand::Error),
    /// An error in the choice of an init.
    #[error(transparent)]
    Init(#[from] brand::BootError),
    /// An error in a privilege list.
    #[error(transparent)]
    Privilege(#[from] model::privilege::Error),
    /// A system call failed.
    #[error("could not {0}")]
    Io(String, #[source] std::io::Error),
}

impl Error {
    /// Makes an [`Error::Io`] from the error of a failed system call.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io(what.into(), source)
    }

    /// Returns true if a rule, the state of the zone the place of its root or its owner forbids the verb.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused(_) | Self::State(_) | Self::Root(_) | Self::Owner(_)
        )
    }

    /// Returns true if the exit status for this error is 2.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Usage(_) => true,
            Self::Brand(error) => error.is_usage(),
            _ => false,
        }
    }

    /// Returns true if the cause of the error is a full disk or a full quota.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. }) || is_full(self)
    }
}

/// Returns true if a full file system is among an error's causes.
pub fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::{self, ErrorKind};
    std::iter::successors(Some(error), |error| error.source()).any(|cause| {
        let kind = match cause.downcast_ref::<io::Error>() {
            Some(error) => error.kind(),
            None => match cause.downcast_ref::<rustix::io::Errno>() {
                Some(errno) => errno.kind(),
                None => return false,
            },
        };
        matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    })
}

/// Returns an error and its causes on one line. A cause is left out if the text already ends with
/// this cause, because the messages of some crates already contain their cause.
#[must_use]
pub fn flatten(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.ends_with(&why) {
            text.push_str(": ");
            text.push_str(&why);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once() {
        let missing = || std::io::Error::from_raw_os_error(2);
        let told = oci::Error::Io {
            path: "/x".into(),
            source: missing(),
        };
        let once = "cannot read /x: No such file or directory (os error 2)";
        assert_eq!(flatten(&Error::Oci(told)), once);
        let short = Error::Io("read /x".to_owned(), missing());
        assert_eq!(flatten(&short), once.replace("cannot", "could not"));
    }
}
