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
    /// The zone.
    pub zone: ZoneName,
    /// Its state.
    pub state: State,
    /// The behaviour of its brand.
    pub family: Family,
    /// True if it boots with the host.
    pub autoboot: bool,
    /// When it does.
    pub priority: BootPriority,
    /// The action when the host shuts down.
    pub autoshutdown: Autoshutdown,
    /// True if its memory is kept in an image.
    pub suspended: bool,
    /// True if it is active and its zoneadmd died.
    pub orphaned: bool,
    /// True if it is not active and there are records as if it were.
    pub remains: bool,
}

/// The action on a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Deed {
    /// Removes its remains after a crash.
    Clear,
    /// Starts a zoneadmd for a running zone whose own died.
    Adopt,
    /// Boots it.
    Boot,
    /// Boots it from its image.
    Resume,
    /// Nothing: it should boot and cannot, as only uninstall helps it.
    Complain,
    /// Lets its init stop everything.
    Shutdown,
    /// Keeps its memory and ends it.
    Suspend,
    /// Kills its processes.
    Halt,
}

/// A zone and the work on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The zone.
    pub zone: ZoneName,
    /// The action.
    pub deed: Deed,
    /// Jobs of a later priority begin when those of an earlier one are over.
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

/// Returns the jobs when the host boots: repairs first, then boots in the order of priorities.
#[must_use]
pub fn start(zones: &[Known]) -> Vec<Job> {
    let mut jobs: Vec<Job> = zones.iter().filter_map(start_one).collect();
    jobs.sort_by_key(|job| job.wave);
    jobs
}

fn start_one(known: &Known) -> Option<Job> {
    let (deed, wave) = match known.state {
        // Booting removes the remains, too.
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

/// Returns the jobs when the host shuts down, all of them at the same time.
#[must_use]
pub fn stop(zones: &[Known]) -> Vec<Job> {
    zones.iter().filter_map(stop_one).collect()
}

fn stop_one(known: &Known) -> Option<Job> {
    let deed = match (known.state, known.autoshutdown) {
        (State::Running, Autoshutdown::Shutdown) => Deed::Shutdown,
        (State::Running, Autoshutdown::Halt) => Deed::Halt,
        (State::Running, Autoshutdown::Suspend) if known.family == Family::Kz => Deed::Suspend,
        // verify refuses it; if it is configured all the same, it must not kill a zone.
        (State::Running, Autoshutdown::Suspend) => Deed::Shutdown,
        // Nobody in it can be asked.
        (state, _) if state.is_active() => Deed::Halt,
        _ => return None,
    };
    Some(Job {
        zone: known.zone.clone(),
        deed,
        wave: BootPriority::Normal,
    })
}

/// The timeout of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(Duration);

impl Default for Patience {
    /// As the stop method of the zones service has.
    fn default() -> Self {
        Self(crate::shutdown::SHUTDOWN_TIMEOUT)
    }
}

impl Patience {
    /// So long for all of it.
    #[must_use]
    pub const fn new(all: Duration) -> Self {
        Self(all)
    }

    /// All of it.
    #[must_use]
    pub const fn all(self) -> Duration {
        self.0
    }

    /// The part in which zones may stop in order: three quarters. The rest of the time is for
    /// killing the zones that did not.
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
