//! A zone that is taken in hand: its lock is held, and it was looked into.

use host::{Error, Host};
use model::{Config, State, Verb, ZoneName};
use storage::{Dataset, driver_at};
use subject::{Start, Subject};
use zone::environments;
use zone::job;

use crate::environment;
use crate::inventory::{self, Inventory};
use crate::manager::{self, Mood};
use crate::order::Order;
use crate::recover;

/// A zone whose lock is held, and the facts about it.
#[derive(Debug)]
pub struct Ready {
    /// The zone.
    pub subject: Box<Subject>,
    /// Its configuration.
    pub config: Config,
    /// Its data.
    pub dataset: Dataset,
    /// The packages before the patch.
    pub before: Inventory,
    /// The package manager of the zone.
    pub manager: &'static dyn manager::Manager,
}

impl Ready {
    /// Returns whether folders of the host are part of the zone's root.
    ///
    /// # Errors
    /// When the host's folders cannot be looked at.
    pub fn is_sparse(&self) -> Result<bool, Error> {
        job::is_sparse(&self.config)
    }
}

/// Takes the zone's lock.
///
/// # Errors
/// When its state forbids it.
pub fn admit(host: &Host, zone: &ZoneName) -> Result<Box<Subject>, Error> {
    match Subject::admit(host, zone, Verb::Snapshot) {
        Ok(Start::Go(subject)) => {
            environments::complete(&subject)?;
            Ok(subject)
        }
        Ok(Start::Already(notice)) => Err(Error::Refused(notice.to_owned())),
        Err(Error::State(text)) => Err(Error::State(text.replace("snapshot", "patch"))),
        Err(error) => Err(error),
    }
}

/// Locks a zone and looks into it.
///
/// # Errors
/// When it cannot be patched, and why.
pub fn prepare(host: &Host, zone: &ZoneName) -> Result<Ready, Error> {
    let subject = admit(host, zone)?;
    recover::zone(host, &subject)?;
    environment::refuse_pending(&subject)?;
    if subject.state == State::Installed {
        job::settle(host, &subject)?;
    }
    let config = subject.config(host)?;
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Err(Error::Refused(
            "is stored on ZFS, where zonepatch does not work yet; make a snapshot and update it inside."
                .to_owned(),
        ));
    }
    let dataset = Dataset::open(&subject.zonepath)?;
    let (before, manager) = job::look(host, &config, &dataset.stack()?, |root| {
        let manager = manager::of(root)
            .ok_or_else(|| Error::Refused("has no package manager that is known.".to_owned()))?;
        // Says so by name when it cannot be driven.
        manager.work(&Order::Upgrade, Mood::Try)?;
        Ok((inventory::read(root)?, manager))
    })?;
    Ok(Ready {
        subject,
        config,
        dataset,
        before,
        manager,
    })
}
