//! Makes the jobs of the service from the states of the zones.

use std::fmt;
use std::time::Duration;

use model::brands::Family;
use model::config::{Autoshutdown, BootPriority};
use model::{State, ZoneName};
use serde::Serialize;

/// The properties of a zone that matter when the host boots or shuts down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The state of the zone.
    pub state: State,
    /// The behaviour of the zone's brand.
    pub family: Family,
    /// True if the zone boots with the host.
    pub autoboot: bool,
    /// The priority at which the zone boots with the host.
    pub priority: BootPriority,
    /// The configured action for the zone when the host shuts down.
    pub autoshutdown: Autoshutdown,
    /// True if the zone's memory is in a suspend image.
    pub suspended: bool,
    /// True if the zone is active and its zoneadmd died.
    pub orphaned: bool,
    /// True if the zone is not active, but records of an active zone exist.
    pub remains: bool,
}

/// The action of the service on a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Deed {
    /// Removes the remains of the zone after a crash.
    Clear,
    /// Starts a new zoneadmd for a running zone whose zoneadmd died.
    Adopt,
    /// Boots the zone.
    Boot,
    /// Resumes the zone from its suspend image.
    Resume,
    /// Reports an error: the zone should boot with the host but is incomplete, and only uninstall
    /// ends this state.
    Complain,
    /// Shuts the zone down through its init.
    Shutdown,
    /// Saves the zone's memory in an image and ends the zone.
    Suspend,
    /// Kills the processes of the zone.
    Halt,
}

/// An action on a zone, which the service carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The action on the zone.
    pub deed: Deed,
    /// The priority of the job. Jobs of a priority begin after all jobs of higher priorities have
    /// ended.
    pub wave: BootPriority,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = &self.zone;
        match self.deed {
            Deed::Clear => write!(f, "remove the remains of a crash from zone {zone}"),
            Deed::Adopt => write!(
                f,
                "start a new zoneadmd for zone {zone}, whose zoneadmd died"
            ),
            Deed::Boot | Deed::Resume => {
                let verb = if self.deed == Deed::Boot {
                    "boot"
                } else {
                    "resume"
                };
                write!(f, "{verb} zone {zone}")?;
                match self.wave {
                    BootPriority::Normal => Ok(()),
                    wave => write!(f, " (boot-priority {})", wave.as_str()),
                }
            }
            Deed::Complain => write!(f, "not boot zone {zone}, which is incomplete"),
            Deed::Shutdown => write!(f, "shut down zone {zone}"),
            Deed::Suspend => write!(f, "suspend zone {zone}"),
            Deed::Halt => write!(f, "halt zone {zone}"),
        }
    }
}

/// Returns the jobs for the start of the host: repairs first, then boots in the order of their
/// priorities.
#[must_use]
pub fn start(zones: &[Known]) -> Vec<Job> {
    let mut jobs: Vec<Job> = zones.iter().filter_map(start_one).collect();
    jobs.sort_by_key(|job| job.wave);
    jobs
}

fn start_one(known: &Known) -> Option<Job> {
    let (deed, wave) = match known.state {
        // A boot also removes the remains of a crash, so no separate job is needed.
        State::Installed if known.autoboot && known.suspended => (Deed::Resume, known.priority),
        State::Installed if known.autoboot => (Deed::Boot, known.priority),
        State::Incomplete if known.autoboot => (Deed::Complain, known.priority),
        state if state.is_active() => match known.orphaned {
            true => (Deed::Adopt, BootPriority::High),
            false => return None,
        },
        _ if known.remains => (Deed::Clear, BootPriority::High),
        _ => return None,
    };
    Some(Job {
        zone: known.zone.clone(),
        deed,
        wave,
    })
}

/// Returns the jobs for the shutdown of the host. All of them run at the same time.
#[must_use]
pub fn stop(zones: &[Known]) -> Vec<Job> {
    zones.iter().filter_map(stop_one).collect()
}

fn stop_one(known: &Known) -> Option<Job> {
    let deed = match (known.state, known.autoshutdown) {
        (State::Running, Autoshutdown::Shutdown) => Deed::Shutdown,
        (State::Running, Autoshutdown::Halt) => Deed::Halt,
        (State::Running, Autoshutdown::Suspend) if known.family == Family::Kz => Deed::Suspend,
        // verify refuses this setting for zones that cannot be suspended. If it is configured
        // nevertheless, the zone is shut down and not killed.
        (State::Running, Autoshutdown::Suspend) => Deed::Shutdown,
        // In these states no init can receive an order to shut down.
        (state, _) if state.is_active() => Deed::Halt,
        _ => return None,
    };
    Some(Job {
        zone: known.zone.clone(),
        deed,
        wave: BootPriority::Normal,
    })
}

/// The timeout for stopping all zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(Duration);

impl Default for Patience {
    /// Returns the timeout of the zones service's stop method.
    fn default() -> Self {
        Self(crate::shutdown::SHUTDOWN_TIMEOUT)
    }
}

impl Patience {
    /// Returns a timeout of this duration for the whole stop.
    #[must_use]
    pub const fn new(all: Duration) -> Self {
        Self(all)
    }

    /// Returns the duration of the whole stop.
    #[must_use]
    pub const fn all(self) -> Duration {
        self.0
    }

    /// Returns the time in which zones may stop in order: three quarters of the timeout. The rest
    /// of the time is reserved for killing the other zones.
    #[must_use]
    pub fn clean(self) -> Duration {
        self.0 * 3 / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(zone: &str, state: State) -> Known {
        Known {
            zone: zone.parse().unwrap(),
            state,
            family: Family::Native,
            autoboot: true,
            priority: BootPriority::Normal,
            autoshutdown: Autoshutdown::Shutdown,
            suspended: false,
            orphaned: false,
            remains: false,
        }
    }

    fn text(jobs: &[Job]) -> Vec<String> {
        jobs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn zones_boot_in_the_order_of_their_priority() {
        let zones = [
            Known {
                priority: BootPriority::Low,
                ..known("late", State::Installed)
            },
            known("web1", State::Installed),
            Known {
                suspended: true,
                ..known("vm", State::Installed)
            },
            Known {
                priority: BootPriority::High,
                ..known("dns", State::Installed)
            },
            Known {
                autoboot: false,
                ..known("manual", State::Installed)
            },
            known("up", State::Running),
            known("new", State::Configured),
            known("half", State::Incomplete),
        ];
        assert_eq!(
            text(&start(&zones)),
            [
                "boot zone dns (boot-priority high)",
                "boot zone web1",
                "resume zone vm",
                "not boot zone half, which is incomplete",
                "boot zone late (boot-priority low)",
            ]
        );
    }

    #[test]
    fn remains_of_a_crash_are_removed_before_zones_boot() {
        let manual = |zone, state| Known {
            autoboot: false,
            remains: true,
            ..known(zone, state)
        };
        let zones = [
            known("web1", State::Installed),
            manual("dead", State::Installed),
            manual("gone", State::Configured),
            Known {
                autoboot: false,
                ..known("half", State::Incomplete)
            },
            Known {
                orphaned: true,
                ..known("up", State::Running)
            },
        ];
        assert_eq!(
            text(&start(&zones)),
            [
                "remove the remains of a crash from zone dead",
                "remove the remains of a crash from zone gone",
                "start a new zoneadmd for zone up, whose zoneadmd died",
                "boot zone web1",
            ]
        );
    }

    #[test]
    fn zones_end_as_they_are_configured() {
        let ends = |autoshutdown, family, state| {
            let zone = Known {
                autoshutdown,
                family,
                ..known("z", state)
            };
            stop(&[zone]).first().map(|job| job.deed)
        };
        use Autoshutdown::{Halt, Shutdown, Suspend};
        for (autoshutdown, family, state, deed) in [
            (Shutdown, Family::Native, State::Running, Deed::Shutdown),
            (Halt, Family::Lx, State::Running, Deed::Halt),
            (Suspend, Family::Kz, State::Running, Deed::Suspend),
            (Suspend, Family::Native, State::Running, Deed::Shutdown),
            (Shutdown, Family::Native, State::Ready, Deed::Halt),
            (Shutdown, Family::Native, State::ShuttingDown, Deed::Halt),
            (Suspend, Family::Kz, State::Down, Deed::Halt),
        ] {
            assert_eq!(ends(autoshutdown, family, state), Some(deed), "{state}");
        }
        for state in [
            State::Configured,
            State::Incomplete,
            State::Installed,
            State::Mounted,
        ] {
            assert_eq!(ends(Shutdown, Family::Native, state), None, "{state}");
        }
    }

    #[test]
    fn a_quarter_is_left_for_those_that_do_not_listen() {
        assert_eq!(Patience::default().clean(), Duration::from_secs(75));
        let short = Patience::new(Duration::from_secs(1));
        assert_eq!(short.clean(), Duration::from_millis(750));
    }
}
