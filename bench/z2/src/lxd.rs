//! LXD: a daemon with its state below the scratch folder. Its containers are btrfs snapshots, the
//! only storage of LXD on this machine that shares blocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use lifecycle::lane::Call;
use lifecycle::options::Options;
use lifecycle::root::{self, Roots};
use lifecycle::tools::{Step, Tool, version};

use crate::containers::needs;
use crate::disk::{Image, Space};
use crate::fleet::{Contestant, Inside};

const DAEMON: &str = "/usr/bin/lxd";
const CLIENT: &str = "/usr/bin/lxc";

/// LXD with privileged containers, which are its fastest.
#[derive(Debug)]
struct Lxd {
    /// The folder with the state of LXD.
    state: PathBuf,
    work: PathBuf,
    rootfs: PathBuf,
    pool: PathBuf,
    daemon: Child,
}

/// Returns a command of LXD for the daemon with this state folder.
fn call(program: &str, state: &Path) -> Call {
    let conf = state.with_file_name("client");
    Call::new(program)
        .env("LXD_DIR", state)
        .env("LXD_CONF", conf)
}

impl Lxd {
    fn start(options: &Options, roots: &Roots, pool: &Path) -> Result<Self> {
        let work = options.scratch.join("lxd");
        let state = work.join("state");
        fs::create_dir_all(&state)?;
        let log = fs::File::create(work.join("log"))?;
        // On a host with hybrid cgroups, LXD cannot use the second hierarchy if a controller is in
        // it.
        let daemon = Command::new("/usr/bin/unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg("umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$0\" --group root --logfile \"$1\"")
            .arg(DAEMON)
            .arg(work.join("lxd.log"))
            .env("LXD_DIR", &state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context(DAEMON)?;
        let lxd = Self {
            rootfs: roots.plain.clone(),
            pool: pool.to_owned(),
            state,
            work,
            daemon,
        };
        lxd.prepare()?;
        Ok(lxd)
    }

    fn client(&self) -> Call {
        call(CLIENT, &self.state)
    }
}

impl Drop for Lxd {
    fn drop(&mut self) {
        // bench/z2/run removes the rest.
        let _ = root::run(call(DAEMON, &self.state).args(["shutdown", "--timeout", "30"]));
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Tool for Lxd {
    fn title(&self) -> String {
        format!("LXD {} on btrfs", version(DAEMON))
    }

    fn prepare(&self) -> Result<()> {
        root::run(call(DAEMON, &self.state).args(["waitready", "--timeout", "30"]))?;
        let file = |name: &str| self.work.join(name);
        fs::write(
            file("metadata.yaml"),
            "architecture: x86_64\ncreation_date: 1\n",
        )?;
        for (archive, from, what) in [
            ("meta.tar", &self.work, "metadata.yaml"),
            ("root.tar", &self.rootfs, "."),
        ] {
            let archive = file(archive);
            let pack = Call::new("tar").args(["-C".as_ref(), from.as_os_str(), "-cf".as_ref()]);
            root::run(pack.args([archive.as_os_str(), what.as_ref()]))?;
        }
        let source = format!("source={}", self.pool.display());
        let client = |words: &[&str]| root::run(self.client().args(words.iter().copied()));
        client(&["storage", "create", "pool", "btrfs", &source])?;
        root::run(
            self.client()
                .args(["image", "import"])
                .args([file("meta.tar"), file("root.tar")])
                .args(["--alias", "base"]),
        )?;
        client(&[
            "init",
            "base",
            "base",
            "--storage",
            "pool",
            "-c",
            "security.privileged=true",
            "-c",
            "raw.lxc=lxc.init.cmd = /zinit",
        ])?;
        let usr = ["disk", "source=/usr", "path=/usr", "readonly=true"];
        client(&[&["config", "device", "add", "base", "usr"], usr.as_slice()].concat())
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        vec![match step {
            Step::Clone => self.client().args(["copy", "base", zone]),
            Step::Boot => self.client().args(["start", zone]),
            Step::Enter | Step::Login => return Vec::new(),
            Step::Halt => self.client().args(["stop", "-f", zone]),
            Step::Remove => self.client().args(["delete", zone]),
        }]
    }

    fn keeper(&self) -> Option<(&Path, String)> {
        // The daemon, and the monitor of each container.
        Some((Path::new(DAEMON), self.work.display().to_string()))
    }
}

/// Returns LXD with a daemon that is ready.
pub fn contestant(options: &Options, roots: &Roots) -> Result<(Contestant, usize)> {
    needs(DAEMON)?;
    needs(CLIENT)?;
    let disk = Image::make(&options.scratch, "btrfs", 2048)?;
    let pool = disk.at.join("pool");
    root::run(
        Call::new("/usr/bin/btrfs")
            .args(["subvolume", "create"])
            .args([&pool]),
    )?;
    let lxd = Lxd::start(options, roots, &pool)?;
    let (client, space) = (lxd.client(), Space::Mount(disk.at.clone()));
    let inside: Inside =
        Box::new(move |zone, program| client.clone().args(["exec", zone, "--", program]));
    let contestant = Contestant::new(
        Box::new(lxd),
        &options.scratch,
        Some(inside),
        space,
        Some(disk),
    );
    Ok((contestant, 20))
}
