//! `zonecluster move`, `evacuate` and `return`.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use cluster::{MIGRATION_SECONDS, Place, View, group_id};

use crate::call;

/// Time for one zone to stop and start elsewhere.
const MOVE_TIMEOUT: Duration = Duration::from_secs(240);
/// Time for a live migration, and for a stop and a start after one that failed. Pacemaker stops a zone whose constraints
/// change while it migrates.
const LIVE_MOVE_TIMEOUT: Duration =
    Duration::from_secs(MIGRATION_SECONDS as u64 + MOVE_TIMEOUT.as_secs());
/// Time for all zones of a host to leave it.
const EVACUATION_TIMEOUT: Duration = Duration::from_secs(1800);

/// Time in which Pacemaker begins to move zones off a host that it may not use any more.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Moves a zone to a host, or to any other.
pub fn move_zone(name: &str, host: Option<&str>) -> anyhow::Result<()> {
    let view = call::view()?;
    let before = view
        .zone(name)
        .map(|place| place.hosts.clone())
        .unwrap_or_default();
    ensure!(
        !before.is_empty(),
        "zone {name}: the cluster does not run it"
    );
    if let Some(host) = host {
        ensure_takes_zones(&view, host)?;
        if before == [host] {
            println!("zone {name}: runs on {host} already");
            return Ok(());
        }
    }
    let cib = call::run("cibadmin", &["--query"])?;
    let timeout = match call::has_shared_disks(&cib, name)? {
        true => LIVE_MOVE_TIMEOUT,
        false => MOVE_TIMEOUT,
    };
    let group = group_id(name);
    let mut words = vec!["--move", "--resource", &group];
    if let Some(host) = host {
        words.extend(["--node", host]);
    }
    call::run("crm_resource", &words)?;
    let moved = call::wait_until("the move", timeout, |view| {
        view.zone(name).is_some_and(|place| {
            place.role == "Started"
                && place.hosts.len() == 1
                && host.map_or(place.hosts != before, |host| place.hosts == [host])
        })
    });
    // The move is a constraint, which must not hold for ever.
    call::run("crm_resource", &["--clear", "--resource", &group])?;
    if let Some(place) = moved?.zone(name) {
        println!("zone {name}: runs on {}", place.hosts.join(" "));
    }
    Ok(())
}

/// Moves every zone off a host.
pub fn evacuate(host: &str) -> anyhow::Result<()> {
    let view = call::view()?;
    ensure_takes_zones(&view, host)?;
    let others = view.nodes.iter().filter(|node| node.name != host);
    ensure!(
        others.clone().any(|node| node.online && !node.standby),
        "{host}: no other host takes zones"
    );
    standby(host, "on")?;
    wait_until_empty(host)?;
    let after = call::view()?;
    for before in view.zones.iter().filter(|place| !place.hosts.is_empty()) {
        let hosts = after
            .zone(&before.zone)
            .map_or(&[][..], |place| &place.hosts);
        if hosts.is_empty() {
            eprintln!(
                "zonecluster: zone {}: it is stopped now: no other host can run it",
                before.zone
            );
        }
    }
    println!("{host}: no zone of the cluster runs on it");
    Ok(())
}

/// Waits until no zone runs on the host and Pacemaker has nothing more to do.
fn wait_until_empty(host: &str) -> anyhow::Result<()> {
    let timeout = format!("{}s", EVACUATION_TIMEOUT.as_secs());
    let idle = || call::run("crm_resource", &["--wait", "--timeout", &timeout]);
    let asked = Instant::now();
    loop {
        // Returns at once if Pacemaker has not begun yet.
        idle()?;
        let view = call::view()?;
        let is_here = |place: &&Place| place.hosts.iter().any(|name| name == host);
        let Some(place) = view.zones.iter().find(is_here) else {
            break;
        };
        ensure!(
            asked.elapsed() < BEGIN_TIMEOUT,
            "zone {}: it still runs on {host}; 'crm_mon -1 -r' tells why",
            place.zone
        );
        thread::sleep(call::LOOK_INTERVAL);
    }
    // The starts on other hosts have begun.
    idle()?;
    Ok(())
}

/// Lets a host take zones again.
pub fn bring_back(host: &str) -> anyhow::Result<()> {
    let view = call::view()?;
    ensure!(
        view.members().iter().any(|name| name == host),
        "{host}: no host of this cluster"
    );
    standby(host, "off")?;
    println!("{host}: takes zones again; those that left it stay where they are");
    Ok(())
}

fn standby(host: &str, value: &str) -> anyhow::Result<()> {
    let words = ["--node", host, "--name", "standby", "--update", value];
    call::run("crm_attribute", &words)?;
    Ok(())
}

fn ensure_takes_zones(view: &View, host: &str) -> anyhow::Result<()> {
    let node = view.nodes.iter().find(|node| node.name == host);
    ensure!(
        node.is_some(),
        "{host}: no host of this cluster; it has: {}",
        view.members().join(" ")
    );
    ensure!(
        node.is_some_and(|node| node.online && !node.standby),
        "{host}: it is offline or evacuated"
    );
    Ok(())
}
