//! The states of a zone (zones(7)) and their order.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state of a zone. The order of the states is that of Solaris: `list -i` means "installed or
/// beyond", `list -c` "configured or beyond".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A verified configuration is stored, but the zone has no data on disk.
    Configured,
    /// An install, clone or uninstall runs or was interrupted. Only uninstall leaves this state.
    Incomplete,
    /// The root is populated, but the zone has no virtual platform.
    Installed,
    /// The virtual platform exists: id, file systems and namespaces. No user process runs.
    Ready,
    /// The init of the zone was started.
    Running,
    /// The halt of the zone has begun.
    ShuttingDown,
    /// All processes have ended, and the virtual platform is being removed.
    Down,
    /// The root of a halted zone is mounted on the host for maintenance.
    Mounted,
}

impl State {
    /// All states, in their order.
    pub const ALL: [Self; 8] = [
        Self::Configured,
        Self::Incomplete,
        Self::Installed,
        Self::Ready,
        Self::Running,
        Self::ShuttingDown,
        Self::Down,
        Self::Mounted,
    ];

    /// Returns the printable name, as `zoneadm list` shows it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Incomplete => "incomplete",
            Self::Installed => "installed",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::ShuttingDown => "shutting_down",
            Self::Down => "down",
            Self::Mounted => "mounted",
        }
    }

    /// Returns true if the zone has a virtual platform in the kernel, and a numeric id.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Ready | Self::Running | Self::ShuttingDown | Self::Down
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for a text that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: no such zone state")]
pub struct BadState(pub String);

impl FromStr for State {
    type Err = BadState;

    fn from_str(text: &str) -> Result<Self, BadState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| BadState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_in_order() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!(State::ALL.is_sorted());
    }
}
