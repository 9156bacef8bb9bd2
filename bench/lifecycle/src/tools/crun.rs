//! crun: `crun run -d`, `crun delete -f` on bundles that are ready.
//!
//! It has no clone: all its containers share one root, whose owners are already
//! shifted. crun 1.8 does not know time namespaces.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{MountPropagationFlags, UnmountFlags};

use super::tool::{LOGIN, Step, TRUE, Tool, version};
use crate::lane::{Call, Setup};
use crate::options::Options;
use crate::root::{BASE_ID, IDS, Roots};

const PROGRAM: &str = "/usr/bin/crun";

/// crun.
#[derive(Debug)]
pub struct Crun {
    folder: PathBuf,
    rootfs: PathBuf,
    cgroup: String,
}

impl Crun {
    /// For this run.
    #[must_use]
    pub fn new(options: &Options, roots: &Roots) -> Self {
        Self {
            folder: options.scratch.join("crun"),
            rootfs: roots.shifted.clone(),
            cgroup: roots.cgroup.clone(),
        }
    }

    fn call(&self) -> Call {
        Call::new(PROGRAM).args(["--root".into(), self.folder.join("state")])
    }
}

impl Tool for Crun {
    fn title(&self) -> String {
        format!("crun {}", version(PROGRAM))
    }

    fn setup(&self) -> Option<Setup> {
        Some(without_hybrid_v2)
    }

    fn prepare(&self) -> Result<()> {
        Ok(std::fs::create_dir_all(self.folder.join("bundles"))?)
    }

    fn prepare_zone(&self, zone: &str) -> Result<()> {
        let bundle = self.folder.join("bundles").join(zone);
        std::fs::create_dir_all(&bundle)?;
        let config = BUNDLE
            .replace("ZONE", zone)
            .replace("ROOTFS", &self.rootfs.display().to_string())
            .replace("CGROUP", &self.cgroup)
            .replace("BASE", &BASE_ID.to_string())
            .replace("IDS", &IDS.to_string());
        std::fs::write(bundle.join("config.json"), config).context("config.json")
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        match step {
            Step::Boot => {
                let bundle = self.folder.join("bundles").join(zone);
                let call = self.call().args(["run", "-d", "--bundle"]);
                vec![call.args([bundle.into_os_string(), zone.into()])]
            }
            Step::Enter => vec![self.call().args(["exec", zone, TRUE])],
            Step::Login => vec![self.call().args(["exec", zone]).args(LOGIN)],
            Step::Halt => vec![self.call().args(["delete", "-f", zone])],
            Step::Clone | Step::Remove => Vec::new(),
        }
    }
}

/// Gives the calling thread a view without the second cgroup tree of a hybrid
/// host, which crun 1.8 refuses when there is a controller in it. The machine's
/// own mounts stay as they are.
///
/// # Errors
/// When the kernel refuses.
pub fn without_hybrid_v2() -> Result<()> {
    let unified = Path::new("/sys/fs/cgroup/unified");
    if !unified.exists() {
        return Ok(());
    }
    sys::namespace::unshare(sys::process::ns::MOUNT).context("unshare")?;
    // Nothing may travel from here to the machine's mounts.
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    Ok(rustix::mount::unmount(unified, UnmountFlags::DETACH)?)
}

const BUNDLE: &str = r#"{
 "ociVersion": "1.0.0",
 "hostname": "ZONE",
 "root": {"path": "ROOTFS", "readonly": false},
 "process": {
  "terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/zinit"], "cwd": "/",
  "env": ["PATH=/usr/bin"], "noNewPrivileges": false,
  "capabilities": {
   "bounding": ["CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SYS_BOOT"],
   "effective": ["CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SYS_BOOT"],
   "permitted": ["CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SYS_BOOT"]
  }
 },
 "mounts": [
  {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=1m"]},
  {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
  {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
  {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["bind", "ro"]}
 ],
 "linux": {
  "cgroupsPath": "/CGROUP/crun-ZONE",
  "uidMappings": [{"containerID": 0, "hostID": BASE, "size": IDS}],
  "gidMappings": [{"containerID": 0, "hostID": BASE, "size": IDS}],
  "namespaces": [
   {"type": "pid"}, {"type": "mount"}, {"type": "uts"}, {"type": "ipc"},
   {"type": "network"}, {"type": "user"}, {"type": "cgroup"}
  ],
  "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
  "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger"]
 }
}
"#;
