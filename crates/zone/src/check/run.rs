//! Finds leftovers of zones in `/run/zones` and in the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use limits::{Base, ZoneCgroups};
use model::ZoneName;
use store::index::Index;
use store::lock::{self, Wait};
use store::runtime;

use crate::check::finding::{Finding, Kind, Life, Look};
use crate::job;
use host::{Error, Host, flatten};
use subject::network::Records;

/// Suffixes of the names of files in `/run/zones` that a zone has while it is active.
const OF_ACTIVE: [&str; 10] = [
    "state",
    "xml",
    "mounts",
    "progress",
    "proc",
    "zoneadmd_sock",
    "kernel_sock",
    "monitor",
    "console",
    "agent",
];

/// Suffixes of the names of lock files, which stay until the zone is deleted.
const LOCKS: [&str; 3] = ["zoneadm.lock", "root.lock", "adopt"];

/// Returns the zone whose name is before one of these suffixes in a file name.
fn zone_of(name: &str, ends: &[&str]) -> Option<ZoneName> {
    let zone = ends.iter().find_map(|end| {
        let rest = name.strip_suffix(end)?;
        rest.strip_suffix('.')
    });
    zone?.parse().ok()
}

/// Returns the names in a folder, with their paths. Returns an empty list if the folder cannot be
/// read.
fn names(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    names.sort();
    names
}

impl Look<'_> {
    /// Finds state files and sockets of inactive zones, and locks of unknown zones.
    pub(super) fn records(&mut self) -> Result<(), Error> {
        for (name, path) in names(&self.host.root.run()) {
            let active = zone_of(&name, &OF_ACTIVE);
            let lock = zone_of(&name, &LOCKS);
            let (Some(zone), is_lock) = (active.as_ref().or(lock.as_ref()), lock.is_some()) else {
                continue;
            };
            match self.life(zone)? {
                Life::InUse => continue,
                Life::Rests if is_lock => continue,
                Life::Rests | Life::Unknown => {}
            }
            self.note(Kind::Record, Some(zone.as_str()), &path, None);
        }
        Ok(())
    }

    /// Finds records of links, addresses and routes that their zones no longer have.
    pub(super) fn networks(&mut self) -> Result<(), Error> {
        for (name, path) in names(&self.host.root.network()) {
            let active = zone_of(&name, &["json", "ns"]);
            // A suspended zone keeps its addresses.
            let held = zone_of(&name, &["held"]);
            let Some(zone) = active.as_ref().or(held.as_ref()) else {
                continue;
            };
            match self.life(zone)? {
                Life::InUse => continue,
                Life::Rests if held.is_some() => continue,
                Life::Rests | Life::Unknown => {}
            }
            self.note(Kind::Network, Some(zone.as_str()), &path, None);
        }
        Ok(())
    }

    /// Finds control groups of inactive zones, and of jobs that have ended.
    pub(super) fn cgroups(&mut self) -> Result<(), Error> {
        // On a host without cgroup v2 no zone has run.
        let Ok(base) = Base::find(&self.host.cgroup) else {
            return Ok(());
        };
        let on_demand = base.v1_on_demand.iter().map(|(_, path)| path);
        for parent in [&base.v2].into_iter().chain(&base.v1).chain(on_demand) {
            for (name, path) in names(parent) {
                if !path.is_dir() {
                    continue;
                }
                let zone = name.strip_prefix(job::GROUP).unwrap_or(&name);
                let Ok(zone) = zone.parse::<ZoneName>() else {
                    continue;
                };
                if self.life(&zone)? == Life::InUse {
                    continue;
                }
                // The processes may belong to a zone with the same name under another ZONES_ROOT.
                let processes = groups(&path).map_or(0, |one| one.pids().len());
                let kept = (processes > 0).then(|| format!("has {processes} processes"));
                self.found.push(Finding {
                    kind: Kind::Cgroup,
                    path,
                    zone: Some(zone.to_string()),
                    kept,
                });
            }
        }
        Ok(())
    }
}

fn groups(path: &Path) -> Option<ZoneCgroups> {
    ZoneCgroups::from_paths(&[path.to_owned()])
}

/// Removes the findings of inactive zones.
pub(super) fn repair(host: &Host, index: &Index, found: &[Finding], failed: &mut Vec<String>) {
    let of_zones = found.iter().filter(|one| {
        matches!(one.kind, Kind::Network | Kind::Record | Kind::Cgroup) && one.kept.is_none()
    });
    let names: BTreeSet<&str> = of_zones.filter_map(|one| one.zone.as_deref()).collect();
    for zone in names.into_iter().filter_map(|name| name.parse().ok()) {
        if let Err(error) = clear(host, index, &zone, found) {
            failed.push(format!("zone '{zone}': {}", flatten(&error)));
        }
    }
    if let Ok(base) = Base::find(&host.cgroup) {
        limits::hierarchy::tidy(&base);
    }
}

fn clear(host: &Host, index: &Index, zone: &ZoneName, found: &[Finding]) -> Result<(), Error> {
    let held = match lock::zone(&host.root, zone, Wait::No) {
        // If a command holds the zone's lock, that command removes the leftovers.
        Err(store::Error::Locked(_)) => return Ok(()),
        other => other?,
    };
    // The state of the zone is checked again, now that the lock is held.
    let look = Look {
        host,
        index,
        found: Vec::new(),
    };
    let known = runtime::load_any(&host.root, zone)?;
    let entry = look.index.find(zone);
    let lives = match entry {
        Some(entry) => subject::state(host, entry)?.1.is_some(),
        None => known.is_some_and(|one| one.init.is_alive() || one.daemon.is_alive()),
    };
    if lives {
        return Ok(());
    }
    if subject::has_remains(host, zone) {
        crate::settle::settle(host, zone)?;
    }
    for one in found
        .iter()
        .filter(|one| one.zone.as_deref() == Some(zone.as_str()))
    {
        if one.kind == Kind::Cgroup && one.kept.is_none() {
            if let Some(groups) = groups(&one.path) {
                groups.remove()?;
            }
        }
    }
    runtime::forget(&host.root, zone)?;
    if entry.is_none() {
        Records::of(&host.root).let_go(zone)?;
        lock::forget(&host.root, zone, &held)?;
    }
    Ok(())
}
