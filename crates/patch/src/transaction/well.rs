//! Checks that a zone works with its patch.

use host::Error;
use model::ZoneName;
use zone::job;

use super::Patch;

impl Patch<'_> {
    /// Returns true if the zone has a health command.
    pub(crate) fn has_health(&self, zone: &ZoneName) -> bool {
        let config = store::xml::load(&self.host.root, zone);
        config.is_ok_and(|config| self.health.of(&config).is_some())
    }

    /// Runs the health command of a zone that was booted with its patch. Returns false if the zone
    /// has none.
    pub(crate) fn check(&self, zone: &ZoneName) -> Result<bool, Error> {
        let config = store::xml::load(&self.host.root, zone)?;
        let Some(command) = self.health.of(&config) else {
            return Ok(false);
        };
        let log = job::open_log(&self.log(zone))?;
        self.health.check(self.host, zone, &command, &log)?;
        Ok(true)
    }
}
