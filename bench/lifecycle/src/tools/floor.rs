//! The kernel's own cost: the program of src/bin/floor.rs.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::tool::{FLOOR, Step, Tool};
use crate::lane::Call;
use crate::options::Options;
use crate::root::{BASE_ID, Roots};

pub struct Floor {
    program: PathBuf,
    folder: PathBuf,
    lower: PathBuf,
    init: PathBuf,
    cgroup: PathBuf,
}

impl Floor {
    pub fn new(options: &Options, roots: &Roots) -> Result<Self> {
        let own = std::env::current_exe().context("own path")?;
        Ok(Self {
            program: own.with_file_name("floor"),
            folder: options.scratch.join("floor"),
            lower: roots.plain.clone(),
            init: roots.plain.join("zinit"),
            cgroup: cgroup2_mount()?.join(&roots.cgroup).join("floor"),
        })
    }
}

/// Returns the mount point of the cgroup v2 tree, alone or beside v1.
fn cgroup2_mount() -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let point = line.and_then(|line| line.split(' ').nth(1));
    point.map(PathBuf::from).context("no cgroup v2 mount")
}

impl Tool for Floor {
    fn title(&self) -> String {
        FLOOR.to_owned()
    }

    fn prepare(&self) -> Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        std::fs::create_dir_all(&self.cgroup).context("cgroup")
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        let dir = self.folder.join(zone);
        let cgroup = self.cgroup.join(zone);
        let call = Call::new(&self.program).args([step.name()]).args([&dir]);
        vec![match step {
            Step::Boot => call
                .args([&self.lower, &self.init, &cgroup])
                .args([BASE_ID.to_string()]),
            Step::Halt => call.args([&cgroup]),
            Step::Clone | Step::Remove => call,
        }]
    }
}
