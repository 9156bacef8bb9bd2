//! The kernel's own cost: the program of src/bin/floor.rs, and nsenter for a command in a zone.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tool::{FLOOR, LOGIN, Step, TRUE, Tool};
use crate::lane::Call;
use crate::options::Options;
use crate::root::{BASE_ID, Roots};

/// The program of src/bin/floor.rs.
#[derive(Debug)]
pub struct Floor {
    program: PathBuf,
    folder: PathBuf,
    lower: PathBuf,
    init: PathBuf,
    cgroup: PathBuf,
}

impl Floor {
    /// For this run.
    ///
    /// # Errors
    /// Fails if the program's own path or the cgroup v2 tree is not found.
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
        let call = |verb: &str| Call::new(&self.program).args([verb]).args([&dir]);
        vec![match step {
            Step::Clone => call("clone"),
            Step::Boot => call("boot")
                .args([&self.lower, &self.init, &cgroup])
                .args([BASE_ID.to_string()]),
            Step::Enter => nsenter(&dir, &[TRUE]),
            Step::Login => nsenter(&dir, &LOGIN),
            Step::Halt => call("halt").args([&cgroup]),
            Step::Remove => call("remove"),
        }]
    }
}

/// Returns the command that runs `command` in all namespaces of the zone whose folder is `dir`.
fn nsenter(dir: &Path, command: &[&str]) -> Call {
    // A zone that does not run has no process: nsenter then says so.
    let pid = std::fs::read_to_string(dir.join("pid")).unwrap_or_default();
    Call::new("/usr/bin/nsenter")
        .args(["--target", &pid, "--all", "--"])
        .args(command)
}
