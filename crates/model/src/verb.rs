//! The subcommands of zoneadm that act on one zone, and the states that admit each one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::State;

/// A zoneadm subcommand that acts on one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Installs a configured zone: fills its root.
    Install,
    /// Installs a configured zone as a copy of an installed zone.
    Clone,
    /// Removes the root of an installed zone.
    Uninstall,
    /// Checks if the zone could run on this host.
    Verify,
    /// Makes the virtual platform, but starts no process in it.
    Ready,
    /// Makes the virtual platform and starts init in it.
    Boot,
    /// Ends every process of the zone and removes its virtual platform.
    Halt,
    /// Halts the zone and boots it again.
    Reboot,
    /// Asks init to end the zone in order, and waits for the end.
    Shutdown,
    /// Saves the memory of the zone and then ends the zone.
    Suspend,
    /// Writes the memory of the zone's guest into a file.
    Savecore,
    /// Mounts the root of a halted zone on the host.
    Mount,
    /// Unmounts the root that `mount` mounted.
    Unmount,
    /// Sets the state of the zone to incomplete.
    Mark,
    /// Saves the present state of the root as a named snapshot.
    Snapshot,
    /// Lists the snapshots of the zone.
    Snapshots,
    /// Compares the root of the zone at two moments.
    Diff,
    /// Lists folders and prints files of a snapshot.
    Files,
    /// Restores files of a snapshot into the zone.
    #[serde(rename = "files restore")]
    RestoreFiles,
    /// Shows how the root of the zone is stored, and how much space it uses.
    Storage,
    /// Lists the resource controls of the zone.
    Rctl,
    /// Lists the network links of the zone.
    Links,
    /// Limits the space of the files that the zone writes.
    Quota,
    /// Sets the root back to a snapshot.
    Rollback,
    /// Merges layers below the root of the zone.
    Merge,
    /// Removes a snapshot of the zone.
    #[serde(rename = "destroy-snapshot")]
    DestroySnapshot,
    /// Changes a running zone so that it matches its stored configuration.
    Apply,
    /// Makes an installed zone a configured one. The root of the detached zone stays, and a
    /// manifest is written.
    Detach,
    /// Makes a detached zone an installed zone again.
    Attach,
    /// Lists and changes the boot environments of the zone.
    Beadm,
    /// Writes the whole zone into a file.
    Export,
    /// Backs the whole zone up to a repository.
    Backup,
    /// Migrates the zone to another host.
    Migrate,
    /// Copies files of the host into the zone.
    Push,
    /// Copies files of the zone to the host.
    Pull,
    /// Moves the zonepath of the zone to another path of this host.
    Move,
}

/// The decision whether a state of the zone admits a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The verb is allowed.
    Go,
    /// The zone is already in the wanted state: print this notice and exit 0.
    Already(&'static str),
    /// The verb is refused: print this text and exit 1.
    Refuse(String),
}

impl Verb {
    /// Returns the word of the verb on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Clone => "clone",
            Self::Uninstall => "uninstall",
            Self::Verify => "verify",
            Self::Ready => "ready",
            Self::Boot => "boot",
            Self::Halt => "halt",
            Self::Reboot => "reboot",
            Self::Shutdown => "shutdown",
            Self::Suspend => "suspend",
            Self::Savecore => "savecore",
            Self::Mount => "mount",
            Self::Unmount => "unmount",
            Self::Mark => "mark",
            Self::Snapshot => "snapshot",
            Self::Snapshots => "snapshots",
            Self::Diff => "diff",
            Self::Files => "files",
            Self::RestoreFiles => "files restore",
            Self::Storage => "storage",
            Self::Rctl => "rctl",
            Self::Links => "links",
            Self::Quota => "quota",
            Self::Rollback => "rollback",
            Self::Merge => "merge",
            Self::DestroySnapshot => "destroy-snapshot",
            Self::Apply => "apply",
            Self::Detach => "detach",
            Self::Attach => "attach",
            Self::Beadm => "beadm",
            Self::Export => "export",
            Self::Backup => "backup",
            Self::Migrate => "migrate",
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Move => "move",
        }
    }

    /// Decides if a verb is allowed in a state, by the transition table of zones(7).
    // This function is long because it is the transition table of zones(7).
    #[must_use]
    pub fn admission(self, state: State) -> Admission {
        use Admission::{Already, Go, Refuse};
        let invalid = || Refuse(format!("{self} operation is invalid for {state} zones."));
        let incomplete = || Refuse("zone is incomplete; uninstall required.".to_owned());
        let before_installed = || Refuse(format!("must be installed before {self}."));
        let active_or_mounted = state.is_active() || state == State::Mounted;
        match self {
            Self::Install | Self::Clone | Self::Attach => match state {
                State::Configured => Go,
                State::Installed => Refuse("is already installed.".to_owned()),
                State::Incomplete => incomplete(),
                _ => invalid(),
            },
            Self::Detach | Self::Move => match state {
                State::Installed => Go,
                State::Configured => before_installed(),
                State::Incomplete => incomplete(),
                _ => invalid(),
            },
            Self::Uninstall => match state {
                State::Configured => Refuse("is already in state 'configured'.".to_owned()),
                _ if active_or_mounted => invalid(),
                _ => Go,
            },
            Self::Rctl | Self::Links => Go,
            Self::Verify => match state {
                State::Incomplete => incomplete(),
                _ => Go,
            },
            Self::Mark => match state {
                _ if active_or_mounted => invalid(),
                _ => Go,
            },
            Self::Ready | Self::Boot => match (self, state) {
                (_, State::Configured) => before_installed(),
                (_, State::Incomplete) => incomplete(),
                (_, State::Installed) | (Self::Boot, State::Ready) => Go,
                (Self::Ready, State::Ready) => Already("zone is already ready"),
                (_, State::Running) => Already("zone is already booted"),
                _ => invalid(),
            },
            Self::Halt => match state {
                State::Ready | State::Running | State::ShuttingDown | State::Down => Go,
                State::Installed => Already("zone is already halted"),
                State::Mounted => invalid(),
                State::Configured => before_installed(),
                State::Incomplete => incomplete(),
            },
            Self::Apply => match state {
                State::Running => Go,
                _ => Refuse("not running".to_owned()),
            },
            Self::Reboot | Self::Shutdown | Self::Suspend | Self::Savecore => match state {
                State::Running => Go,
                State::Ready if self == Self::Reboot => Go,
                State::Configured | State::Incomplete | State::Installed => {
                    Refuse("not running".to_owned())
                }
                _ => invalid(),
            },
            Self::Mount => match state {
                State::Installed => Go,
                State::Mounted => Already("zone is already mounted"),
                State::Configured => before_installed(),
                State::Incomplete => incomplete(),
                _ => invalid(),
            },
            Self::Beadm | Self::Export | Self::Backup | Self::Migrate => match state {
                State::Configured => before_installed(),
                State::Incomplete => incomplete(),
                State::ShuttingDown | State::Down => invalid(),
                State::Mounted if self != Self::Beadm => invalid(),
                _ => Go,
            },
            Self::Push | Self::Pull | Self::RestoreFiles => match state {
                State::Installed | State::Running => Go,
                State::Configured => before_installed(),
                State::Incomplete => incomplete(),
                State::Ready => Refuse(format!(
                    "{self} needs a zone that is running or halted: boot or halt it first."
                )),
                _ => invalid(),
            },
            // Any process of the host may write to the root of a mounted zone. No command can
            // freeze a process of the host, so the root of a mounted zone cannot be copied
            // consistently.
            Self::Snapshot
            | Self::Snapshots
            | Self::Diff
            | Self::Files
            | Self::Storage
            | Self::Quota
            | Self::Rollback
            | Self::Merge
            | Self::DestroySnapshot => match (self, state) {
                (_, State::Configured) => before_installed(),
                (_, State::Incomplete) => incomplete(),
                (_, State::Installed) => Go,
                (Self::Snapshot | Self::Merge, State::Ready | State::Running) => Go,
                (Self::Snapshot | Self::Merge | Self::Rollback, _) => invalid(),
                _ => Go,
            },
            Self::Unmount => match state {
                State::Mounted => Go,
                State::Installed => Already("zone is already unmounted"),
                _ => Refuse("must be mounted before unmount.".to_owned()),
            },
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotent_verbs_only_give_notice() {
        assert_eq!(
            Verb::Boot.admission(State::Running),
            Admission::Already("zone is already booted")
        );
        assert_eq!(
            Verb::Halt.admission(State::Installed),
            Admission::Already("zone is already halted")
        );
        assert_eq!(
            Verb::Ready.admission(State::Ready),
            Admission::Already("zone is already ready")
        );
        assert_eq!(
            Verb::Unmount.admission(State::Installed),
            Admission::Already("zone is already unmounted")
        );
    }

    #[test]
    fn refusals_name_state_or_remedy() {
        let text = |verb: Verb, state| match verb.admission(state) {
            Admission::Refuse(text) => text,
            other => panic!("{verb} in {state}: {other:?}"),
        };
        assert_eq!(
            text(Verb::Boot, State::Configured),
            "must be installed before boot."
        );
        assert_eq!(
            text(Verb::Install, State::Installed),
            "is already installed."
        );
        assert_eq!(
            text(Verb::Clone, State::Incomplete),
            "zone is incomplete; uninstall required."
        );
        assert_eq!(
            text(Verb::Uninstall, State::Running),
            "uninstall operation is invalid for running zones."
        );
        assert_eq!(text(Verb::Reboot, State::Installed), "not running");
        assert_eq!(
            text(Verb::Mount, State::Running),
            "mount operation is invalid for running zones."
        );
        assert_eq!(
            text(Verb::Move, State::Ready),
            "move operation is invalid for ready zones."
        );
        assert_eq!(
            text(Verb::Move, State::Configured),
            "must be installed before move."
        );
    }
}
