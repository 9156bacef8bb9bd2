//! The states of a zone (zones(7)) and their order.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state of a zone. The order is that of the original: `list -i` means "installed or beyond",
/// `list -c` "configured or beyond".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A verified configuration is stored; nothing on disk belongs to the zone.
    Configured,
    /// An install, clone or uninstall is under way or died; only uninstall leaves this state.
    Incomplete,
    /// The root is populated; no virtual platform.
    Installed,
    /// The virtual platform stands: id, file systems, namespaces; no user process.
    Ready,
    /// Init was started.
    Running,
    /// Halt has begun.
    ShuttingDown,
    /// Processes are gone, the platform is being taken down.
    Down,
    /// The root of a halted zone is shown on the host for maintenance.
    Mounted,
}

impl State {
    /// Every state, in order.
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

    /// The printable name, as `zoneadm list` shows it.
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

    /// True where the kernel holds a virtual platform and the zone has a numeric id.
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

/// The text names no state.
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
