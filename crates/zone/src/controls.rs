//! The resource controls of an active zone, and changing them while it runs.

use limits::Changed;
use model::ZoneName;
use model::controls::Controls;
use store::runtime;

use crate::daemon::client;
use crate::{Error, Host};

/// The controls that an active zone has now: those of its boot, or of the last
/// [`change`]. None for a zone that is not active. What is configured may differ:
/// [`Controls::of`].
///
/// # Errors
/// [`Error::Store`] when the state of the zone cannot be read.
pub fn current(host: &Host, zone: &ZoneName) -> Result<Option<Controls>, Error> {
    Ok(runtime::load(&host.root, zone)?.map(|known| known.controls))
}

/// Gives an active zone other controls, all of `new` or none. Its zoneadmd does it,
/// and keeps them until the zone halts; the configuration is not touched.
///
/// Only what differs from [`current`] is changed. The answer has every control of
/// `new` with the value that is in force ([`Changed::applied`], requested and
/// effective), and what Linux does otherwise ([`Changed::remarks`]). To be called
/// under the zone's lock.
///
/// # Errors
/// [`Error::Daemon`] with the control and the reason: this host has no place for it,
/// more is in use than it admits, too few CPUs. The zone then has what it had.
pub fn change(host: &Host, zone: &ZoneName, new: &Controls) -> Result<Changed, Error> {
    let socket = client::connect_or_adopt(host, zone)?;
    client::change_controls(&socket, new)
}
