//! Clears the remains of a zone that died together with its zoneadmd.

use host::{Error, Host};
use model::ZoneName;

/// Clears the remains of a zone that is not active: its platform ([`subject::settle`]), and its
/// views in zones of higher labels. The caller holds the zone's lock.
///
/// # Errors
/// Fails as [`subject::settle`] does, or if the index cannot be read.
pub fn settle(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    subject::settle(host, zone)?;
    if host.plan_only {
        return Ok(());
    }
    // A view that stays here is removed by the next boot of the zone. `uninstall` prints it.
    platform::views::vanish(host, zone).map(drop)
}
