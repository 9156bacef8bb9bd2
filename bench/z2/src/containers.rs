//! The other tools, if they run on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lifecycle::lane::{Call, Setup};
use lifecycle::options::Options;
use lifecycle::root::{self, Roots};
use lifecycle::tools::crun::without_hybrid_v2;
use lifecycle::tools::lxc::Lxc;
use lifecycle::tools::{Step, Tool, version};

use crate::disk::{Image, Space};
use crate::fleet::Contestant;
use crate::results::Skipped;

/// Creates a contestant, and the number of containers that it can handle in about half a minute on
/// this machine; or returns why it is skipped.
pub type Maker = fn(&Options, &Roots) -> Result<(Contestant, usize), Skipped>;

pub const MAKERS: [Maker; 5] = [lxc_overlay, lxc_btrfs, podman, nspawn, lxd];

/// Converts an error into the reason of a skip.
fn or_skip<T>(what: &str, made: Result<T>) -> Result<T, Skipped> {
    made.map_err(|error| Skipped {
        what: what.to_owned(),
        why: format!("{error:#}"),
    })
}

/// Fails if the program is not installed.
pub fn needs(program: &str) -> Result<()> {
    anyhow::ensure!(Path::new(program).exists(), "{program} is not installed");
    Ok(())
}

fn enter_lxc(folder: PathBuf) -> crate::fleet::Inside {
    Box::new(move |zone, program| {
        Call::new("/usr/bin/lxc-attach")
            .args(["-P"])
            .args([&folder])
            .args(["-n", zone, "--", program])
    })
}

fn lxc_overlay(options: &Options, roots: &Roots) -> Result<(Contestant, usize), Skipped> {
    or_skip(
        "lxc on overlayfs",
        (|| {
            needs("/usr/bin/lxc-copy")?;
            let lxc = Lxc::new(options, roots);
            lxc.prepare()?;
            let (inside, space) = (
                enter_lxc(lxc.folder().into()),
                Space::Tree(lxc.folder().into()),
            );
            let boxed = Box::new(lxc);
            Ok((
                Contestant::new(boxed, &options.scratch, Some(inside), space, None),
                100,
            ))
        })(),
    )
}

fn lxc_btrfs(options: &Options, roots: &Roots) -> Result<(Contestant, usize), Skipped> {
    or_skip(
        "lxc on btrfs",
        (|| {
            needs("/usr/bin/lxc-copy")?;
            let disk = Image::make(&options.scratch, "btrfs", 1024)?;
            let lxc = Lxc::on_btrfs(&disk.at, roots);
            lxc.prepare()?;
            let (inside, space) = (
                enter_lxc(lxc.folder().into()),
                Space::Mount(disk.at.clone()),
            );
            let boxed = Box::new(lxc);
            Ok((
                Contestant::new(boxed, &options.scratch, Some(inside), space, Some(disk)),
                100,
            ))
        })(),
    )
}

/// podman with crun, on overlays; its containers run as root, without a user namespace.
#[derive(Debug)]
struct Podman {
    folder: PathBuf,
    tar: PathBuf,
    rootfs: PathBuf,
    cgroup: String,
}

const PODMAN: &str = "/usr/bin/podman";
const CONMON: &str = "/usr/bin/conmon";

impl Podman {
    fn call(&self) -> Call {
        Call::new(PODMAN)
            .args(["--root"])
            .args([self.folder.join("root")])
            .args(["--runroot"])
            .args([self.folder.join("run")])
            .args(["--tmpdir"])
            .args([self.folder.join("tmp")])
            .args([
                "--storage-driver",
                "overlay",
                "--cgroup-manager",
                "cgroupfs",
            ])
            .args(["--runtime", "/usr/bin/crun", "--events-backend", "none"])
    }
}

impl Tool for Podman {
    fn title(&self) -> String {
        format!("podman {} + crun", version(PODMAN))
    }

    fn setup(&self) -> Option<Setup> {
        Some(without_hybrid_v2)
    }

    fn prepare(&self) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        let pack = Call::new("tar").args(["-C".as_ref(), self.rootfs.as_os_str()]);
        root::run(pack.args(["-cf".as_ref(), self.tar.as_os_str(), ".".as_ref()]))?;
        root::run(
            self.call()
                .args(["import", "-q"])
                .args([&self.tar])
                .args(["base"]),
        )
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        vec![match step {
            Step::Clone => self.call().args([
                "create",
                "--name",
                zone,
                "--hostname",
                zone,
                "--network",
                "none",
                "--cgroup-parent",
                &format!("/{}/podman", self.cgroup),
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=1024:1024",
                "-v",
                "/usr:/usr:ro",
                "--entrypoint",
                "/zinit",
                "base",
            ]),
            Step::Boot => self.call().args(["start", zone]),
            Step::Enter | Step::Login => return Vec::new(),
            Step::Halt => self.call().args(["stop", "-t", "0", zone]),
            Step::Remove => self.call().args(["rm", "-f", "-t", "0", zone]),
        }]
    }

    fn keeper(&self) -> Option<(&Path, String)> {
        Some((Path::new(CONMON), self.folder.display().to_string()))
    }
}

fn podman(options: &Options, roots: &Roots) -> Result<(Contestant, usize), Skipped> {
    or_skip(
        "podman",
        (|| {
            needs(PODMAN)?;
            needs("/usr/bin/crun")?;
            let podman = Podman {
                folder: options.scratch.join("podman"),
                tar: options.scratch.join("root.tar"),
                rootfs: roots.plain.clone(),
                cgroup: roots.cgroup.clone(),
            };
            podman.prepare()?;
            let space = Space::Tree(podman.folder.clone());
            let inside: crate::fleet::Inside = {
                let base = podman.call();
                Box::new(move |zone, program| base.clone().args(["exec", zone, program]))
            };
            let boxed = Box::new(podman);
            Ok((
                Contestant::new(boxed, &options.scratch, Some(inside), space, None),
                40,
            ))
        })(),
    )
}

/// systemd-nspawn has no clone and stays in the foreground: one command mounts an overlay over the
/// root, boots it, and removes all after the container has ended.
#[derive(Debug)]
struct Nspawn {
    rootfs: PathBuf,
}

const NSPAWN: &str = "/usr/bin/systemd-nspawn";

impl Nspawn {
    fn cycle(&self, name: &str) -> Call {
        Call::new(NSPAWN)
            .args(["-q", "--register=no", "--keep-unit", "--private-network"])
            .args(["--link-journal=no", "--resolv-conf=off", "--timezone=off"])
            .args(["--volatile=overlay", "--bind-ro=/usr", "--as-pid2"])
            .args([format!("--machine={name}")])
            .args(["-D".as_ref(), self.rootfs.as_os_str()])
            .args(["/bin/true"])
    }
}

impl Tool for Nspawn {
    fn title(&self) -> String {
        // "systemd 252 (252.39-1~deb12u2)"
        let text = std::process::Command::new(NSPAWN).arg("--version").output();
        let text = text.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let number = text.split_whitespace().nth(1).unwrap_or("?");
        format!("systemd-nspawn {number} (boot to end)")
    }

    fn prepare(&self) -> Result<()> {
        root::run(self.cycle("try"))
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        match step {
            Step::Boot => vec![self.cycle(zone)],
            _ => Vec::new(),
        }
    }
}

fn nspawn(options: &Options, roots: &Roots) -> Result<(Contestant, usize), Skipped> {
    or_skip(
        "systemd-nspawn",
        (|| {
            needs(NSPAWN)?;
            let nspawn = Nspawn {
                rootfs: roots.plain.clone(),
            };
            nspawn.prepare().context("it does not run here")?;
            let space = Space::Tree(options.scratch.join("plain"));
            let boxed = Box::new(nspawn);
            Ok((
                Contestant::new(boxed, &options.scratch, None, space, None),
                40,
            ))
        })(),
    )
}

fn lxd(options: &Options, roots: &Roots) -> Result<(Contestant, usize), Skipped> {
    or_skip("LXD", crate::lxd::contestant(options, roots))
}
