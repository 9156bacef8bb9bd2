//! Runs a health command in a zone to test if the zone works after a patch.
//!
//! After its boot, a zone still starts its services. Therefore the command is repeated until it
//! succeeds or the timeout ends.

use std::fs::File;
use std::time::{Duration, Instant};

use host::{Error, Host};
use model::{Config, ZoneName};

use crate::inside::{self, Ended};

/// The attribute of a zone's configuration that sets the zone's own health command.
const ATTRIBUTE: &str = "patch-health";

/// Default timeout of the health command.
pub const DEFAULT_HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between two attempts.
const HEALTH_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The health commands of zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The health command from the command line, for all zones.
    pub asked: Option<String>,
    /// The health command of the configuration file, for zones without a command of their own.
    pub otherwise: Option<String>,
    /// Timeout for the command to succeed.
    pub within: Duration,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            asked: None,
            otherwise: None,
            within: DEFAULT_HEALTH_TIMEOUT,
        }
    }
}

impl Health {
    /// Returns the health command for a zone.
    #[must_use]
    pub fn of(&self, config: &Config) -> Option<String> {
        let own = config.attr(ATTRIBUTE).map(str::to_owned);
        let found = self
            .asked
            .clone()
            .or(own)
            .or_else(|| self.otherwise.clone());
        found.filter(|command| !command.trim().is_empty())
    }

    /// Waits until the command succeeds in a running zone.
    ///
    /// # Errors
    /// Fails with the last error of the command at the end of the timeout.
    pub(crate) fn check(
        &self,
        host: &Host,
        zone: &ZoneName,
        command: &str,
        log: &File,
    ) -> Result<(), Error> {
        let end = Instant::now() + self.within;
        let seconds = self.within.as_secs();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let ended = inside::run(host, zone, command, None, Some(left), log)?;
            let why = match ended {
                Ended::With(0) => return Ok(()),
                Ended::With(status) => format!("ended with status {status}"),
                Ended::TooLate => "had not ended".to_owned(),
            };
            if ended == Ended::TooLate || Instant::now() + HEALTH_RETRY_INTERVAL >= end {
                return Err(Error::Refused(format!(
                    "its health command {why} within {seconds} s"
                )));
            }
            std::thread::sleep(HEALTH_RETRY_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_may_have_a_command_of_its_own() {
        let mut config = Config::new("web".parse().unwrap());
        let mut health = Health {
            otherwise: Some("all".to_owned()),
            ..Health::default()
        };
        assert_eq!(health.of(&config).as_deref(), Some("all"));
        health.asked = Some("asked".to_owned());
        assert_eq!(health.of(&config).as_deref(), Some("asked"));
        health.asked = Some(" ".to_owned());
        assert_eq!(health.of(&config), None);
        config.set_zonepath("/zones/web").unwrap();
        assert_eq!(Health::default().of(&config), None);
    }
}
