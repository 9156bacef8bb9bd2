//! The ports that zones publish on the host: their changes and their rules.

use model::ZoneName;
use model::plan::network::Link;
use net::Record;
use net::host_side::{self, Needs, Settings};
use net::netlink::Netlink;
use net::publish::Forward;

use crate::network::common::Common;
use crate::network::error::{AnyError, NetworkError};
use crate::network::file::{read, save};
use crate::network::{Records, prepare, resolver};

impl Records {
    /// Changes the published ports of the links that stay to those of `after`, in the record, the
    /// rules and the settings of the links.
    pub(super) fn change_published(
        &self,
        zone: &ZoneName,
        record: &mut Record,
        after: &[Link],
    ) -> Result<(), AnyError> {
        let path = self.path_of(zone);
        let common = Common::open()?;
        let mut changed = Vec::new();
        let mut new = record.clone();
        for held in &mut new.links {
            let link = after.iter().find(|link| link.name == held.name);
            let wanted = link.map_or_else(Vec::new, |link| link.published.clone());
            if held.published != wanted {
                common.leave_ports(&path, &held.published);
                held.published = wanted;
                changed.push(held.clone());
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let before = record.links.iter().map(|held| held.published.as_slice());
        let before = before.collect::<Vec<_>>().concat();
        let wanted = changed.iter().map(|held| held.published.as_slice());
        let wanted = wanted.collect::<Vec<_>>().concat();
        if let Err(error) = common.take_ports(&path, &wanted) {
            common.leave_ports(&path, &wanted);
            for port in &before {
                common.keep_port(&path, port)?;
            }
            return Err(error);
        }
        save(&path, &new)?;
        *record = new;
        let kernel = Netlink::open()?;
        for held in &changed {
            net::publish::adapt_loopback(&kernel, held)?;
        }
        let mut needs = Needs::default();
        needs.publish(&wanted);
        prepare(&common, &needs)?;
        // Also if no port is published any more.
        publish(&common)
    }

    /// Restores the parts of the host's network that the zone needs if another program has removed
    /// a rule or ended the resolver. Must be called in the host's namespaces.
    ///
    /// # Errors
    /// Fails with the reason why the parts could not be restored.
    pub fn restore(&self, zone: &ZoneName) -> Result<Restored, NetworkError> {
        let Some(record) = self.load(zone)? else {
            return Ok(Restored::default());
        };
        let needs = Needs::of_record(&record);
        if !needs.has_rules() {
            return Ok(Restored::default());
        }
        let restore = || -> Result<Restored, AnyError> {
            let common = Common::open()?;
            let settings: Settings = read(&common.settings())?.unwrap_or_default();
            let resolver = || resolver::state(common.folder());
            let is_lost = needs.has_pool() && resolver() == resolver::State::Lost;
            let rules = !host_side::has_rules(&settings);
            if !rules && !is_lost {
                return Ok(Restored::default());
            }
            let remarks = prepare(&common, &needs)?;
            Ok(Restored {
                rules,
                resolver: is_lost && matches!(resolver(), resolver::State::Up(_)),
                remarks,
            })
        };
        restore().map_err(NetworkError::Common)
    }
}

/// The parts of the host's network that were restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// True if rules of the firewall were restored.
    pub rules: bool,
    /// True if the resolver was started again.
    pub resolver: bool,
    /// Remarks about the host's network.
    pub remarks: Vec<String>,
}

/// Returns the published ports of all zones in the calling thread's network namespace.
pub(super) fn forwards(common: &Common) -> Result<Vec<Forward>, AnyError> {
    let mut forwards = Vec::new();
    for record in common.publishers() {
        // The record has gone if its zone has ended.
        let record = read::<Record>(&record)?.unwrap_or_default();
        forwards.extend(record.links.iter().filter_map(Forward::of));
    }
    Ok(forwards)
}

/// Replaces the rules by those for the ports that zones publish now.
pub(super) fn publish(common: &Common) -> Result<(), AnyError> {
    let path = common.settings();
    let Some(mut settings) = read::<Settings>(&path)? else {
        return Ok(());
    };
    let mut store = |settings: &Settings| save(&path, settings);
    host_side::publish(&forwards(common)?, &mut settings, &mut store)??;
    Ok(())
}
