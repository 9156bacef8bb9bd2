//! Failures, with the exit statuses of Solaris Cluster.

use model::ZoneName;

/// The command line or the configuration is wrong.
pub const INVALID: u8 = 3;
/// The caller is not root.
pub const ACCESS: u8 = 6;
/// A host does not answer.
pub const UNREACHABLE: u8 = 35;
/// The zone cluster or node does not exist.
pub const MISSING: u8 = 36;
/// The command failed or was refused on a host.
pub const FAILED: u8 = 37;
/// The object exists already.
pub const EXISTS: u8 = 39;

/// A failure.
#[derive(Debug)]
pub struct Fault {
    /// The exit status.
    pub status: u8,
    /// The message.
    pub text: String,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "map_err passes errors by value"
)]
impl Fault {
    pub fn failed(text: impl ToString) -> Self {
        Self {
            status: FAILED,
            text: text.to_string(),
        }
    }

    pub fn unreachable(text: impl ToString) -> Self {
        Self {
            status: UNREACHABLE,
            text: text.to_string(),
        }
    }

    pub fn missing(name: &ZoneName) -> Self {
        let text = format!(
            "zone cluster {name}: this host knows none of this name; if another host does, run there: clzonecluster apply {name}"
        );
        Self {
            status: MISSING,
            text,
        }
    }
}

impl From<anyhow::Error> for Fault {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("{error:#}"))
    }
}
