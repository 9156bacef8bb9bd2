//! `zonecluster add`, `update` and `remove`.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use cluster::{Base, Device, Failover, View, group_id, has_id, with_failover};

use crate::call::{self, Zone};
use crate::guest;
use crate::shared::Disks;

/// The file in the zonepath with the configuration of the zone, which every host uses.
const CONFIG_FILE: &str = "cluster.cfg";
/// The first words of its first line; its number follows.
const GENERATION: &str = "# generation:";
/// Time for the first start of a zone, and for its last stop.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(240);

/// Puts a zone under Pacemaker, above the resource `storage` if one provides its storage.
pub fn add(wanted: &Failover, storage: Option<&str>, dry: bool) -> anyhow::Result<()> {
    let zone = local(&wanted.zone)?;
    let cib = call::run("cibadmin", &["--query"])?;
    let shared = match wanted.shared_config {
        Some(_) => Some(Disks::of(&zone)?),
        None => None,
    };
    let config = shared.as_ref().map_or_else(
        || Path::new(&zone.path).join(CONFIG_FILE),
        |disks| disks.config_path(&zone.name),
    );
    let failover = Failover {
        path: zone.path.clone(),
        shared_config: shared
            .as_ref()
            .map(|_| config.to_string_lossy().into_owned()),
        base: storage.map(|id| base(&cib, id)).transpose()?,
        ..wanted.clone()
    };
    let view = call::view()?;
    let members = view.members();
    for host in &failover.hosts {
        ensure!(
            members.contains(host),
            "{host}: no host of this cluster; it has: {}",
            members.join(" ")
        );
    }
    ensure!(
        !has_id(&cib, &group_id(&zone.name)),
        "zone {}: the cluster has it already",
        zone.name
    );
    if let Some(guest) = &failover.guest {
        guest::ensure_safe(&cib, guest)?;
    }
    let changed = with_failover(&cib, &failover, &members)?;
    call::with_input("crm_verify", &["--xml-pipe"], &changed)
        .context("Pacemaker would refuse the configuration; nothing was changed")?;
    if dry {
        println!("{}", failover.resources());
        println!("{}", failover.constraints(&members));
        return Ok(());
    }
    if failover.guest.is_some() {
        guest::ensure_key()?;
    }
    match &shared {
        Some(disks) if failover.hosts.is_empty() => disks.ensure_ready(&zone, &members)?,
        Some(disks) => disks.ensure_ready(&zone, &failover.hosts)?,
        None => ensure_ready(&zone)?,
    }
    ensure_fencing(&view, &cib)?;
    // From here on there are effects. Each leaves a zone that can be attached again by hand.
    save_config(&zone.name, &config)?;
    let again = let_go(&zone, &failover)?;
    replace(&cib, &changed).context(again)?;
    let view = call::wait_until("the start of the zone", CHANGE_TIMEOUT, |view| {
        view.zone(&zone.name)
            .is_some_and(|place| place.role == "Started" && place.hosts.len() == 1)
    })?;
    if let Some(place) = view.zone(&zone.name) {
        println!("zone {}: runs on {}", zone.name, place.hosts.join(" "));
    }
    Ok(())
}

/// Lets this host go of the zone. Returns a sentence for the user if a later step fails.
fn let_go(zone: &Zone, failover: &Failover) -> anyhow::Result<&'static str> {
    if failover.shared_config.is_some() {
        if zone.state == "installed" {
            call::run(
                "zoneadm",
                &["-z", &zone.name, "uninstall", "--shared-disks"],
            )?;
        }
        return Ok(
            "the zone is configured, and not in the cluster: try again, or give the zone back to this host (zoneadm attach --take-over)",
        );
    }
    call::run("zoneadm", &["-z", &zone.name, "detach"])?;
    if !failover.device.is_empty() {
        call::run("umount", &[&zone.path]).context(
            "the zone is detached, and not in the cluster: unmount its storage, attach the zone, and try again",
        )?;
    }
    Ok(
        "the zone is detached, and not in the cluster: mount its storage if it is not mounted, attach the zone, and try again",
    )
}

/// Replaces the configuration, unless another one has changed it since it was read.
fn replace(old: &str, new: &str) -> anyhow::Result<()> {
    let folder = Scratch::new()?;
    let (before, after) = (folder.put("old.xml", old)?, folder.put("new.xml", new)?);
    // crm_diff ends with 1 where there are differences.
    let words = ["--original", &before, "--new", &after, "--no-version"];
    let output = call::output("crm_diff", &words, "")?;
    ensure!(
        output.status.code() == Some(1),
        "crm_diff: expected differences: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let patch = String::from_utf8_lossy(&output.stdout);
    call::with_input("cibadmin", &["--patch", "--xml-pipe"], &patch)?;
    Ok(())
}

/// Writes the zone's configuration of this host to its storage, from which every host takes it.
pub fn update(name: &str) -> anyhow::Result<()> {
    let zone = local(name)?;
    ensure!(
        zone.state == "running",
        "zone {name}: it is {} here; change its configuration on the host on which it runs \
         ('zonecluster status' tells it)",
        zone.state
    );
    ensure!(
        call::view()?.zone(name).is_some(),
        "zone {name}: the cluster does not have it; 'zonecluster add' puts it there"
    );
    let cib = call::run("cibadmin", &["--query"])?;
    let config = cluster::setting(&cib, &cluster::zone_id(name), "config")?
        .map_or_else(|| Path::new(&zone.path).join(CONFIG_FILE), PathBuf::from);
    let generation = save_config(name, &config)?;
    println!("zone {name}: generation {generation}");
    Ok(())
}

/// Stops the zone, and takes it out of the cluster.
pub fn remove(name: &str) -> anyhow::Result<()> {
    let group = group_id(name);
    let view = call::view()?;
    ensure!(
        view.zone(name).is_some(),
        "zone {name}: the cluster does not have it"
    );
    let cib = call::run("cibadmin", &["--query"])?;
    let others = cluster::constraints_on(&cib, &group)?;
    ensure!(
        others.is_empty(),
        "zone {name}: constraints of other resources name its group {group}: {}; remove them first \
         (cibadmin --delete --xpath '//*[@id=\"{}\"]'); nothing was changed",
        others.join(" "),
        others[0]
    );
    let words = ["-r", &group, "--meta", "-p", "target-role", "-v", "Stopped"];
    call::run("crm_resource", &words)?;
    call::wait_until("the stop of the zone", CHANGE_TIMEOUT, |view| {
        view.zone(name)
            .is_some_and(|place| place.hosts.is_empty() && place.role == "Stopped")
    })?;
    let cib = call::run("cibadmin", &["--query"])?;
    let is_shared = call::has_shared_disks(&cib, name)?;
    let mut constraints = cluster::constraints_of(&group).to_vec();
    if let Some(guest) = cluster::guest_of(&cib, &cluster::zone_id(name))? {
        let prefix = cluster::guest_prefix(&guest);
        constraints.push(format!("//rsc_location[starts-with(@id, '{prefix}')]"));
    }
    for constraint in &constraints {
        // --force: all that match, and no error if there is none.
        call::run(
            "cibadmin",
            &["--delete-all", "--force", "--xpath", constraint],
        )?;
    }
    let text = format!("<group id=\"{group}\"/>");
    call::run("cibadmin", &["--delete", "--xml-text", &text])?;
    match is_shared {
        true => println!(
            "zone {name}: stopped; no host runs it until one takes it (zoneadm -z {name} attach --take-over)"
        ),
        false => println!(
            "zone {name}: stopped and detached; no host runs it until one mounts its storage and attaches it"
        ),
    }
    Ok(())
}

// ---- what must be so before ----

fn local(name: &str) -> anyhow::Result<Zone> {
    let mut zones = call::zones()?.into_iter();
    zones
        .find(|zone| zone.name == name)
        .with_context(|| format!("zone {name}: No such zone configured on this host"))
}

/// Returns the resource below a zone.
fn base(cib: &str, id: &str) -> anyhow::Result<Base> {
    Base::find(cib, id)??.with_context(|| {
        format!("-s {id}: expected the id of a resource, group or clone of this cluster, found none ('crm_resource --list' names them)")
    })
}

/// The zone is halted, and its zonepath is a file system of its own.
fn ensure_ready(zone: &Zone) -> anyhow::Result<()> {
    let name = &zone.name;
    ensure!(
        zone.state == "installed",
        "zone {name}: it is {}; expected an installed zone that does not run (zoneadm -z {name} halt)",
        zone.state
    );
    let path = Path::new(&zone.path);
    let parent = path.parent().context("a zonepath is no root")?;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    ensure!(
        device(path)? != device(parent)?,
        "zone {name}: {} is no mount point: the storage that moves with the zone must be mounted there",
        zone.path
    );
    Ok(())
}

/// Fencing is on, and for each host a device answers that can fence it.
fn ensure_fencing(view: &View, cib: &str) -> anyhow::Result<()> {
    ensure!(view.quorum, "the cluster has no quorum");
    ensure!(
        view.fencing,
        "fencing is off: without it, a zone can run on two hosts at once and destroy its data \
         (crm_attribute -t crm_config -n stonith-enabled -v true)"
    );
    let known = Device::all(cib)?;
    for host in view.members() {
        let listed = call::output("stonith_admin", &["--list", &host], "")?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names = devices(&listed);
        if names.is_empty() {
            bail!(
                "{host}: no fence device can switch it off; a lost host's zones would never start \
                 (stonith_admin --list {host} tells when Pacemaker knows a new device)"
            );
        }
        let mut devices = known
            .iter()
            .filter(|device| names.contains(&device.id.as_str()));
        ensure!(
            devices.any(|device| answers(device, &host)),
            "{host}: its fence device does not answer: {}",
            names.join(" ")
        );
    }
    Ok(())
}

/// Asks the device for the state of a host, as Pacemaker does before it fences it.
/// `stonith_admin --query` does not ask it: it only tells that the device is configured.
fn answers(device: &Device, host: &str) -> bool {
    /// Statuses of a fence agent: the host is on, or off.
    const ON_OR_OFF: [Option<i32>; 2] = [Some(0), Some(2)];
    device.can_be_asked()
        && call::output(&device.agent, &[], &device.status_request(host))
            .is_ok_and(|output| ON_OR_OFF.contains(&output.status.code()))
}

/// The names of devices in the output of `stonith_admin --list`, each on a line of its own.
fn devices(listed: &str) -> Vec<&str> {
    let lines = listed
        .lines()
        .map(|line| line.trim().trim_start_matches("* "));
    lines
        .filter(|line| !line.is_empty() && !line.contains(' '))
        .collect()
}

// ---- the configuration on the storage ----

/// Writes the configuration with the next generation, and returns that.
fn save_config(zone: &str, path: &Path) -> anyhow::Result<u64> {
    let export = call::run("zonecfg", &["-z", zone, "export"])?;
    let generation = fs::read_to_string(path)
        .ok()
        .and_then(|text| generation_of(&text))
        .unwrap_or(0)
        + 1;
    let text = format!("{GENERATION} {generation}\n{export}");
    write_file(path, &text).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(generation)
}

fn generation_of(text: &str) -> Option<u64> {
    let line = text.lines().next()?;
    line.strip_prefix(GENERATION)?.trim().parse().ok()
}

/// Writes a file beside the old one, syncs it, and renames it over the old one.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    let folder = path.parent().context("a file has a folder")?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// A folder that only root reads, removed with the value.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let path = Path::new("/run").join(format!("zonecluster.{}", std::process::id()));
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("{}: cannot be made", path.display()))?;
        Ok(Self(path))
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for name in ["old.xml", "new.xml"] {
            let _ = fs::remove_file(self.0.join(name));
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_in_the_first_line() {
        assert_eq!(generation_of("# generation: 7\ncreate\n"), Some(7));
        assert_eq!(generation_of("create\n# generation: 7\n"), None);
    }

    #[test]
    fn reads_the_names_of_fence_devices() {
        assert_eq!(devices("fence\n1 fence device found\n"), ["fence"]);
        assert_eq!(devices("  * ipmi-1\n  * pdu\n"), ["ipmi-1", "pdu"]);
        assert!(devices("No fence devices found\n").is_empty());
    }
}
