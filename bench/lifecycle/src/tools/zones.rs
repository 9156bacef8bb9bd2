//! Our own commands.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::tool::{Step, TRUE, Tool};
use crate::lane::Call;
use crate::options::Options;
use crate::root;

/// The commands that remove a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// `zoneadm uninstall --delete`
    OneCommand,
    /// `zoneadm uninstall`, and then `zonecfg delete`
    TwoCommands,
}

/// Our own commands.
#[derive(Debug)]
pub struct Zones {
    removal: Removal,
    programs: PathBuf,
    root: PathBuf,
    daemon: PathBuf,
}

impl Zones {
    /// For this run.
    #[must_use]
    pub fn new(options: &Options, removal: Removal) -> Self {
        let programs = options.scratch.join("bin");
        Self {
            removal,
            root: root::zones_root(options),
            daemon: programs.join("zoneadmd"),
            programs,
        }
    }

    fn call(&self, program: &str, zone: &str) -> Call {
        root::zones_call(&self.programs, &self.root, program).args(["-z", zone])
    }

    fn login(&self) -> Call {
        root::zones_call(&self.programs, &self.root, "zlogin")
    }
}

impl Tool for Zones {
    fn title(&self) -> String {
        match self.removal {
            Removal::OneCommand => "zones".to_owned(),
            Removal::TwoCommands => "zones, removed by two commands".to_owned(),
        }
    }

    fn prepare(&self) -> Result<()> {
        // The master is there: the others' roots are copies of it.
        Ok(())
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        let adm = |words: &[&str]| self.call("zoneadm", zone).args(words);
        match step {
            // Like a peer's copy command it makes configuration and root in one.
            Step::Clone => vec![adm(&["clone", "--create", root::MASTER])],
            Step::Boot => vec![adm(&["boot"])],
            // Peers run the program itself, without a login, too.
            Step::Enter => vec![self.login().args(["-S", zone, TRUE])],
            Step::Login => vec![self.login().args([zone, TRUE])],
            Step::Halt => vec![adm(&["halt"])],
            Step::Remove if self.removal == Removal::OneCommand => {
                vec![adm(&["uninstall", "--delete", "-F"])]
            }
            Step::Remove => vec![
                adm(&["uninstall", "-F"]),
                self.call("zonecfg", zone).args(["delete", "-F"]),
            ],
        }
    }

    fn keeper(&self) -> Option<(&Path, String)> {
        Some((&self.daemon, String::new()))
    }
}
