//! lxc: `lxc-copy -s` (`-B overlayfs`, or of a subvolume), `lxc-start`, `lxc-stop -k`, `lxc-destroy`.
//!
//! It gets the same root, init and namespaces. lxc 5.0 has no id-mapped layers
//! under overlayfs (it hands its `idmap` option on to overlay, which refuses
//! it), so it works on a copy of the root whose owners are already shifted, made
//! beforehand and not measured.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tool::{LOGIN, Step, TRUE, Tool, version};
use crate::lane::Call;
use crate::options::Options;
use crate::root::{self, BASE_ID, IDS, Roots};

const PROGRAM: &str = "/usr/bin/lxc-start";

/// The storage of a container of lxc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backing {
    Overlay,
    Btrfs,
}

/// lxc.
#[derive(Debug)]
pub struct Lxc {
    folder: PathBuf,
    rootfs: PathBuf,
    backing: Backing,
}

impl Lxc {
    /// Containers on overlays.
    #[must_use]
    pub fn new(options: &Options, roots: &Roots) -> Self {
        Self {
            folder: options.scratch.join("lxc"),
            rootfs: roots.shifted.clone(),
            backing: Backing::Overlay,
        }
    }

    /// Containers on snapshots, on the btrfs that is mounted there.
    #[must_use]
    pub fn on_btrfs(mount: &Path, roots: &Roots) -> Self {
        Self {
            folder: mount.join("lxc"),
            rootfs: roots.shifted.clone(),
            backing: Backing::Btrfs,
        }
    }

    /// Returns the folder of the containers.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The base's root, as lxc wants it named.
    fn base_root(&self) -> Result<String> {
        if self.backing == Backing::Overlay {
            return Ok(format!("dir:{}", self.rootfs.display()));
        }
        let root = self.folder.join("base/rootfs");
        let make = ["subvolume", "create"];
        root::run(Call::new("/usr/bin/btrfs").args(make).args([&root]))?;
        let (from, to) = (self.rootfs.join("."), root.as_os_str());
        root::run(Call::new("cp").args(["-a"]).args([from.as_os_str(), to]))?;
        Ok(format!("btrfs:{}", root.display()))
    }

    fn call(&self, program: &str) -> Call {
        // It would use newuidmap when it finds that, which maps only what /etc/subuid has.
        Call::new(Path::new("/usr/bin").join(program))
            .env("PATH", "/usr/sbin:/sbin")
            .args(["-P"])
            .args([&self.folder])
    }
}

impl Tool for Lxc {
    fn title(&self) -> String {
        let copies = match self.backing {
            Backing::Overlay => "",
            Backing::Btrfs => " on btrfs",
        };
        format!("lxc {}{copies}", version(PROGRAM))
    }

    fn prepare(&self) -> Result<()> {
        let base = self.folder.join("base");
        std::fs::create_dir_all(&base)?;
        let config = format!(
            "lxc.rootfs.path = {}\n\
             lxc.uts.name = base\n\
             lxc.init.cmd = /zinit\n\
             lxc.net.0.type = empty\n\
             lxc.idmap = u 0 {BASE_ID} {IDS}\n\
             lxc.idmap = g 0 {BASE_ID} {IDS}\n\
             lxc.time.offset.boot = 1s\n\
             lxc.seccomp.profile = /usr/share/lxc/config/common.seccomp\n\
             lxc.mount.auto = proc:mixed sys:mixed\n\
             lxc.mount.entry = /usr usr none ro,bind 0 0\n",
            self.base_root()?
        );
        std::fs::write(base.join("config"), config).context("lxc config")
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        vec![match step {
            Step::Clone => {
                let copy = self.call("lxc-copy").args(["-n", "base", "-N", zone, "-s"]);
                match self.backing {
                    Backing::Overlay => copy.args(["-B", "overlayfs"]),
                    Backing::Btrfs => copy,
                }
            }
            Step::Boot => self.call("lxc-start").args(["-n", zone]),
            Step::Enter => self.call("lxc-attach").args(["-n", zone, "--", TRUE]),
            Step::Login => self.call("lxc-attach").args(["-n", zone, "--"]).args(LOGIN),
            Step::Halt => self.call("lxc-stop").args(["-k", "-n", zone]),
            Step::Remove => self.call("lxc-destroy").args(["-n", zone]),
        }]
    }

    fn keeper(&self) -> Option<(&Path, String)> {
        Some((Path::new(PROGRAM), self.folder.display().to_string()))
    }
}
