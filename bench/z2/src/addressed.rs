//! Zones of this project that have an address each, in their own network namespace, which the
//! machine's network does not notice.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use lifecycle::lane::{Call, Setup};
use lifecycle::options::Options;
use lifecycle::root;
use lifecycle::tools::zones::{Removal, Zones};
use lifecycle::tools::{Step, Tool};

/// The link of the host over which the zones' addresses are reached.
const LINK: &str = "uplink0";

pub struct Addressed {
    zones: Zones,
    programs: PathBuf,
    root: PathBuf,
}

impl Addressed {
    pub fn new(options: &Options) -> Self {
        Self {
            zones: Zones::new(options, Removal::OneCommand),
            programs: options.scratch.join("bin"),
            root: root::zones_root(options),
        }
    }
}

impl Tool for Addressed {
    fn title(&self) -> String {
        "zones, an address each".to_owned()
    }

    fn setup(&self) -> Option<Setup> {
        Some(network)
    }

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Configures one zone: each zone has its own address, so one command cannot configure all.
    fn prepare_zone(&self, zone: &str) -> Result<()> {
        let digits = zone.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number: u32 = digits.parse().context("a zone without a number")?;
        let lines = format!(
            "create -t {}; add net; set address=10.64.{}.{}/16; set physical={LINK}; end",
            root::MASTER,
            number / 250,
            number % 250 + 1
        );
        let call = root::zones_call(&self.programs, &self.root, "zonecfg");
        run(&call.args(["-z", zone, &lines]))
    }

    fn calls(&self, step: Step, zone: &str) -> Vec<Call> {
        if step != Step::Clone {
            return self.zones.calls(step, zone);
        }
        let call = root::zones_call(&self.programs, &self.root, "zoneadm");
        vec![call.args(["-z", zone, "clone", root::MASTER])]
    }

    fn keeper(&self) -> Option<(&Path, String)> {
        self.zones.keeper()
    }
}

/// Folder of the state of the host's network that all zones of the host share.
const SHARED_STATE: &str = "/run/zones-network";

/// Gives the calling thread a network namespace with one link, and a mount namespace in which the
/// state of the host's network is on a tmpfs, as on every host: /run of a test machine may be on
/// its disk.
fn network() -> Result<()> {
    let namespaces = sys::process::ns::NET | sys::process::ns::MOUNT;
    sys::namespace::unshare(namespaces).context("a network of its own")?;
    std::fs::create_dir_all(SHARED_STATE).context(SHARED_STATE)?;
    run(&Call::new("mount").args(["--make-rprivate", "/"]))?;
    run(&Call::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "run", SHARED_STATE]))?;
    for words in [
        "link set lo up",
        // Not every kernel has links of the type dummy.
        "link add uplink0 type veth peer name uplink1",
        "address add 10.64.255.254/16 dev uplink0",
        "link set uplink0 up",
        "link set uplink1 up",
    ] {
        run(&Call::new("ip").args(words.split(' ')))?;
    }
    Ok(())
}

fn run(call: &Call) -> Result<()> {
    let mut command = Command::new(&call.program);
    command.args(&call.args);
    command.envs(call.env.iter().map(|(name, value)| (name, value)));
    let output = command
        .output()
        .with_context(|| call.program.display().to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} {:?}: {said}", call.program.display(), call.args);
    }
    Ok(())
}
