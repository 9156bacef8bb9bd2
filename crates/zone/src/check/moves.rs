//! Finds moves and renames of zones that were interrupted.

use model::ZoneName;
use store::index::{Index, Pending};
use store::lock::{self, Wait};

use crate::check::finding::{Finding, Kind, Life, Look};
use host::{Error, Host, flatten};
use subject::pending;

/// Returns the name under which the index has the zone.
fn zone_of<'a>(index: &Index, pending: &'a Pending) -> &'a ZoneName {
    match pending {
        Pending::Move { zone, .. } => zone,
        Pending::Rename { from, to } if index.find(from).is_none() => to,
        Pending::Rename { from, .. } => from,
    }
}

impl Look<'_> {
    /// Finds the other zonepaths and configurations of zones whose move or rename was interrupted.
    pub(super) fn moves(&mut self) -> Result<(), Error> {
        let index = self.index;
        for pending in index.pending() {
            let zone = zone_of(index, pending);
            let path = match pending {
                Pending::Move { other, .. } => self.host.root.path(other),
                Pending::Rename { from, to } if from == zone => self.host.root.xml(to),
                Pending::Rename { from, .. } => self.host.root.xml(from),
            };
            // A running command moves or renames the zone.
            if self.life(zone)? != Life::InUse {
                self.note(Kind::Move, Some(zone.as_str()), &path, None);
            }
        }
        Ok(())
    }
}

/// Completes the interrupted moves and renames among the findings, or takes them back.
pub(super) fn repair(host: &Host, index: &Index, found: &[Finding], failed: &mut Vec<String>) {
    for pending in index.pending() {
        let zone = zone_of(index, pending);
        let is_found =
            |one: &Finding| one.kind == Kind::Move && one.zone.as_deref() == Some(zone.as_str());
        if !found.iter().any(is_found) {
            continue;
        }
        match complete(host, zone) {
            Ok(None) => {}
            Ok(Some(left)) => failed.push(format!("zone '{zone}': {left}")),
            Err(error) => failed.push(format!("zone '{zone}': {}", flatten(&error))),
        }
    }
}

fn complete(host: &Host, zone: &ZoneName) -> Result<Option<String>, Error> {
    let _held = match lock::zone(&host.root, zone, Wait::No) {
        // If a command holds the zone's lock, that command completes the move.
        Err(store::Error::Locked(_)) => return Ok(None),
        other => other?,
    };
    let index = Index::load(&host.root)?;
    match index.pending_of(zone) {
        Some(one @ Pending::Move { .. }) => pending::complete(&host.root, one),
        _ => pending::recover(&host.root, zone, &index).map(|_| None),
    }
}
