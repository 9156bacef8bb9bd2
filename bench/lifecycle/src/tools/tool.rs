//! The commands of a tool that are measured, and the steps that they belong to.

use std::path::Path;

use anyhow::Result;

use crate::lane::{Call, Setup};

/// The title of the program that makes the kernel calls alone.
pub const FLOOR: &str = "kernel floor";

/// The program that is run in a zone: of the host's /usr, which all tools bind.
pub const TRUE: &str = "/usr/bin/true";

/// The command of a login of root that runs `true`: what zlogin runs in a zone unless it has -S.
pub const LOGIN: [&str; 5] = ["/usr/bin/su", "-", "root", "-c", TRUE];

/// A step of a zone's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Makes the zone.
    Clone,
    /// Starts the zone.
    Boot,
    /// Runs `true` in the zone, without a login.
    Enter,
    /// Runs `true` in the zone by a login of root: PAM and a login shell.
    Login,
    /// Stops the zone at once.
    Halt,
    /// Removes the zone.
    Remove,
}

impl Step {
    /// All steps, in the order of a zone's life.
    pub const ALL: [Self; 6] = [
        Self::Clone,
        Self::Boot,
        Self::Enter,
        Self::Login,
        Self::Halt,
        Self::Remove,
    ];

    /// As it stands in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Boot => "boot",
            Self::Enter => "true in it",
            Self::Login => "login: true",
            Self::Halt => "halt",
            Self::Remove => "remove",
        }
    }
}

/// The commands of a tool that are measured.
pub trait Tool {
    /// The name in the table, with the version where there is one.
    fn title(&self) -> String;

    /// Returns the tool's thread's first action.
    fn setup(&self) -> Option<Setup> {
        None
    }

    /// Prepares the host before zones can be made; not measured.
    ///
    /// # Errors
    /// When it cannot be made.
    fn prepare(&self) -> Result<()>;

    /// Prepares the host before this zone can be made; not measured.
    ///
    /// # Errors
    /// When it cannot be made.
    fn prepare_zone(&self, _zone: &str) -> Result<()> {
        Ok(())
    }

    /// The commands of a step; empty when the tool has no such step.
    fn calls(&self, step: Step, zone: &str) -> Vec<Call>;

    /// The program that stays with each running zone, to weigh it: its file, and
    /// a text that must stand in its command line (empty: any).
    fn keeper(&self) -> Option<(&Path, String)> {
        None
    }
}

/// Returns the version of a program: the last word of the first line that `--version` prints.
#[must_use]
pub fn version(program: &str) -> String {
    let output = std::process::Command::new(program)
        .arg("--version")
        .output();
    let text = output.map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let word = text
        .lines()
        .next()
        .and_then(|line| line.split(' ').next_back());
    word.unwrap_or("?").to_owned()
}
