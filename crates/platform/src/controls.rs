//! Reads and changes the resource controls of an active zone.

use limits::{Base, Changed};
use model::controls::Controls;
use model::{Config, ZoneName};
use store::{runtime, xml};

use crate::{kind, proc};
use control::client;
use host::{Error, Host, pools};

/// Returns the present controls of an active zone: those of its boot, or of the last [`change`].
/// `None` for a zone that is not active. The configured controls may differ: [`Controls::of`].
///
/// # Errors
/// Fails with [`Error::Store`] if the state of the zone cannot be read.
pub fn current(host: &Host, zone: &ZoneName) -> Result<Option<Controls>, Error> {
    Ok(runtime::load(&host.root, zone)?.map(|known| known.controls))
}

/// Returns the controls that a configuration sets, with the CPUs that its pool has on this host.
///
/// # Errors
/// Fails with [`Error::Refused`] if the list of pools is invalid.
pub fn configured(host: &Host, config: &Config) -> Result<Controls, Error> {
    let mut controls = Controls::of(config);
    pools::resolve(host, &mut controls)?;
    Ok(controls)
}

/// Sets the CPU shares of the global zone from its configuration, relative to the shares of all
/// running zones. The global zone has no other controls, because its control groups belong to the
/// host.
///
/// # Errors
/// Fails if its configuration cannot be read, or if the weight of all zones cannot be written.
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

/// Gives an active zone other controls: all of `new`, or none after an error. The zone's zoneadmd
/// changes them, and they last until the zone halts. The configuration does not change.
///
/// Only differences from [`current`] are written. The result has every control of `new` with its
/// effective value ([`Changed::applied`]), and the differences between Linux and Solaris
/// ([`Changed::remarks`]). The caller must hold the zone's lock.
///
/// # Errors
/// Fails with [`Error::Daemon`], which names the control and the reason: the host does not have
/// this control, the zone uses more than the limit, or there are too few CPUs. The zone then has
/// its former controls.
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
