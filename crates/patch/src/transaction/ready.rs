//! A zone whose lock is held and whose facts were read.

use std::time::Duration;

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
    /// The zone with its index entry.
    pub subject: Box<Subject>,
    /// The configuration of the zone.
    pub config: Config,
    /// The dataset of the zone.
    pub dataset: Dataset,
    /// The packages before the patch.
    pub before: Inventory,
    /// The package manager of the zone.
    pub manager: &'static dyn manager::Manager,
}

impl Ready {
    /// Returns true if folders of the host are part of the zone's root.
    ///
    /// # Errors
    /// Fails if the folders of the host cannot be read.
    pub fn is_sparse(&self) -> Result<bool, Error> {
        job::is_sparse(&self.config)
    }
}

/// Timeout for the boot of a zone that rebooted itself.
const OWN_REBOOT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until a zone that rebooted itself while this command held its lock has booted.
///
/// # Errors
/// Fails if the zone's state file is damaged.
pub(crate) fn wait_for_own_reboot(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    subject::wait_for_own_reboot(host, zone, OWN_REBOOT_TIMEOUT)
}

/// Takes the lock of the zone.
///
/// # Errors
/// Fails if a zone in this state cannot be patched.
pub fn admit(host: &Host, zone: &ZoneName) -> Result<Box<Subject>, Error> {
    wait_for_own_reboot(host, zone)?;
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

/// Locks a zone and reads the facts about it.
///
/// # Errors
/// Fails if the zone cannot be patched, with the reason.
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
        // This call fails, with the name of the package manager, if zonepatch knows only its name.
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
