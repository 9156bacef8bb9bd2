//! The schedule of a zone's automatic snapshots, as a typed view of the resource `snapshots`.

use serde::Serialize;

use super::Config;

/// A period of which automatic snapshots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// A quarter of an hour.
    Frequent,
    /// An hour.
    Hourly,
    /// A day.
    Daily,
    /// A week, which begins on Monday.
    Weekly,
    /// A month of the calendar.
    Monthly,
}

impl Period {
    /// Every period, the shortest first.
    pub const ALL: [Self; 5] = [
        Self::Frequent,
        Self::Hourly,
        Self::Daily,
        Self::Weekly,
        Self::Monthly,
    ];

    /// Returns the word of the period, which is also the name of its property.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Frequent => "frequent",
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    /// Returns the period with this word.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// The schedule of a zone's automatic snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The number of snapshots that are kept of each period, in the order of [`Period::ALL`]. The
    /// schedule makes no snapshots of a period with the number 0.
    pub kept: [usize; Period::ALL.len()],
    /// The maximum space of all automatic snapshots in bytes; `None` without a limit.
    pub max_bytes: Option<u64>,
}

impl Schedule {
    /// Returns the number of snapshots that are kept of a period.
    #[must_use]
    pub const fn kept(&self, period: Period) -> usize {
        self.kept[period as usize]
    }
}

impl Config {
    /// Returns the schedule of automatic snapshots, or `None` for a zone without one.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        let one = self.resources_of("snapshots").next()?;
        // The kind of these properties admits only numbers, and each has a default.
        let kept = Period::ALL.map(|period| one.get(period.as_str()).parse().unwrap_or(0));
        Some(Schedule {
            kept,
            max_bytes: one.get("max-size").parse().ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;
    use crate::table;

    #[test]
    fn a_schedule_has_the_defaults_of_solaris() {
        let mut config = Config::new("web".parse().unwrap());
        assert_eq!(config.schedule(), None);
        let mut one = Resource::new(table::resource("snapshots").unwrap());
        config.add(one.clone()).unwrap();
        let schedule = config.schedule().unwrap();
        assert_eq!(schedule.kept, [4, 24, 31, 7, 12]);
        assert_eq!(schedule.max_bytes, None);

        one.set("hourly", "0").unwrap();
        one.set("max-size", "2G").unwrap();
        let mut config = Config::new("web".parse().unwrap());
        config.add(one).unwrap();
        let schedule = config.schedule().unwrap();
        assert_eq!(schedule.kept(Period::Hourly), 0);
        assert_eq!(schedule.kept(Period::Daily), 31);
        assert_eq!(schedule.max_bytes, Some(2 << 30));
    }

    #[test]
    fn periods_are_found_by_their_words() {
        for period in Period::ALL {
            assert_eq!(Period::find(period.as_str()), Some(period));
        }
        assert_eq!(Period::find("yearly"), None);
    }
}
