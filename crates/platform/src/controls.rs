//! The resource controls of an active zone, and changing them while it runs.

use limits::{Base, Changed};
use model::controls::Controls;
use model::{Config, ZoneName};
use store::{runtime, xml};

use crate::{kind, proc};
use control::client;
use host::{Error, Host, pools};

/// The controls that an active zone has now: those of its boot, or of the last
/// [`change`]. None for a zone that is not active. The configured controls may differ:
/// [`Controls::of`].
///
/// # Errors
/// [`Error::Store`] when the state of the zone cannot be read.
pub fn current(host: &Host, zone: &ZoneName) -> Result<Option<Controls>, Error> {
    Ok(runtime::load(&host.root, zone)?.map(|known| known.controls))
}

/// The controls that a configuration sets, with the CPUs that its pool has on this host.
///
/// # Errors
/// [`Error::Refused`] for a list of pools that cannot be understood.
pub fn configured(host: &Host, config: &Config) -> Result<Controls, Error> {
    let mut controls = Controls::of(config);
    pools::resolve(host, &mut controls)?;
    Ok(controls)
}

/// Gives the global zone the shares that its configuration says, as against those of all
/// zones that are up. The other controls of the global zone would be those of control
/// groups that are not ours.
///
/// # Errors
/// When its configuration cannot be read, or the weight of all zones not be written.
pub fn balance(host: &Host) -> Result<(), Error> {
    let global = ZoneName::global();
    let shares = match host.root.xml(&global).exists() {
        true => Controls::of(&xml::load(&host.root, &global)?).cpu_shares,
        false => None,
    };
    Ok(limits::set_global_shares(
        &Base::find(&host.cgroup)?,
        shares,
    )?)
}

/// Gives an active zone other controls, all of `new` or none. Its zoneadmd does it,
/// and keeps them until the zone halts; the configuration is not touched.
///
/// Only differences from [`current`] are changed. The answer has every control of `new`
/// with the value that is in force ([`Changed::applied`], requested and effective), and
/// the differences of Linux ([`Changed::remarks`]). To be called under the zone's lock.
///
/// # Errors
/// [`Error::Daemon`] with the control and the reason: this host has no place for it, more
/// is in use than it admits, too few CPUs. The zone then has its former controls.
pub fn change(host: &Host, zone: &ZoneName, new: &Controls) -> Result<Changed, Error> {
    let mut new = new.clone();
    pools::resolve(host, &mut new)?;
    let socket = client::connect_or_adopt(host, zone)?;
    let before = proc::Shown::under(host, zone, &current(host, zone)?.unwrap_or_default());
    let changed = client::change_controls(&socket, &new)?;
    let running = xml::load_running(&host.root, zone);
    if running.map_or(true, |config| kind::of(&config).has_limit_files()) {
        proc::follow_limits(host, zone, &before, &new);
    }
    Ok(changed)
}
