//! The names of automatic snapshots, and the slots of the calendar into which their times fall.
//!
//! All times are in UTC, so that no hour is missing or double when the clocks of a country change.

use model::config::Period;
use storage::Name;

use crate::utc;
use control::log::timestamp;

/// Start of the name of each automatic snapshot.
const PREFIX: &str = "auto-";

/// Number of seconds of a quarter of an hour, an hour and a day.
const QUARTER: u64 = 900;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// Number of days from the Monday before 1970 to the first day of 1970, a Thursday.
const MONDAY_TO_THURSDAY: u64 = 3;

/// An automatic snapshot, as its name `auto-PERIOD-YYYYMMDDTHHMMSSZ` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Auto {
    /// The time of the run that made the snapshot, in seconds since 1970.
    pub at: u64,
    /// The longest period that was due at that time.
    pub period: Period,
}

impl Auto {
    /// Returns the name of the snapshot, which has no colon: `zoneadm snapshots -p` separates its
    /// fields with colons.
    #[must_use]
    pub fn name(self) -> Name {
        let time: String = timestamp(self.at)
            .chars()
            .filter(|one| !matches!(one, '-' | ':'))
            .collect();
        let text = format!("{PREFIX}{}-{time}", self.period.as_str());
        text.parse()
            .unwrap_or_else(|_| unreachable!("{text} is a name: letters, digits and dashes"))
    }

    /// Returns the snapshot that a name describes, or `None` for all names of another form.
    #[must_use]
    pub fn parse(name: &Name) -> Option<Self> {
        let (period, time) = name.as_str().strip_prefix(PREFIX)?.split_once('-')?;
        let at = |from: usize, to: usize| time.get(from..to);
        let iso = format!(
            "{}-{}-{}T{}:{}:{}Z",
            at(0, 4)?,
            at(4, 6)?,
            at(6, 8)?,
            at(9, 11)?,
            at(11, 13)?,
            at(13, 15)?
        );
        let found = Self {
            at: utc::seconds(&iso)?,
            period: Period::find(period)?,
        };
        // Days such as the 31st of February have a number of seconds, but not this name.
        (found.name() == *name).then_some(found)
    }
}

/// Returns the number of the quarter of an hour, the hour, the day, the week or the month that
/// contains a time. Weeks begin on Monday. Each longer slot consists of whole days, each day of
/// whole hours, and each hour of whole quarters.
#[must_use]
pub fn slot(period: Period, at: u64) -> u64 {
    match period {
        Period::Frequent => at / QUARTER,
        Period::Hourly => at / HOUR,
        Period::Daily => at / DAY,
        Period::Weekly => (at / DAY + MONDAY_TO_THURSDAY) / 7,
        Period::Monthly => {
            let text = timestamp(at);
            let mut numbers = text.split('-').map(|one| one.parse().unwrap_or(0));
            let mut next = || numbers.next().unwrap_or(0);
            next() * 12 + next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> u64 {
        utc::seconds(text).unwrap()
    }

    #[test]
    fn names_tell_period_and_time() {
        let one = Auto {
            at: at("2026-11-25T09:15:00Z"),
            period: Period::Hourly,
        };
        assert_eq!(one.name().as_str(), "auto-hourly-20261125T091500Z");
        assert_eq!(Auto::parse(&one.name()), Some(one));
    }

    #[test]
    fn names_of_users_are_not_automatic() {
        for text in [
            "auto",
            "auto-",
            "auto-hourly",
            "auto-yearly-20261125T091500Z",
            "auto-hourly-2026-11-25T09:15:00Z",
            "auto-hourly-20261125T091500",
            "auto-hourly-20261125T091500Zx",
            "auto-hourly-20261125 091500Z",
            "auto-hourly-20260231T091500Z",
            "auto-hourly-20261125T256100Z",
            "my-auto-hourly-20261125T091500Z",
            "before-patch",
        ] {
            if let Ok(name) = text.parse() {
                assert_eq!(Auto::parse(&name), None, "{text}");
            }
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_their_first_day() {
        let week = |text| slot(Period::Weekly, at(text));
        let sunday = week("2026-11-29T23:59:59Z");
        assert_eq!(week("2026-11-23T00:00:00Z"), sunday);
        assert_eq!(week("2026-11-30T00:00:00Z"), sunday + 1);
        assert_eq!(week("2026-11-22T23:59:59Z"), sunday - 1);
        let month = |text| slot(Period::Monthly, at(text));
        assert_eq!(month("2024-02-01T00:00:00Z"), month("2024-02-29T23:59:59Z"));
        assert_eq!(
            month("2026-12-31T23:59:59Z") + 1,
            month("2027-01-01T00:00:00Z")
        );
    }

    proptest! {
        #[test]
        fn every_time_of_the_calendar_reads_back(
            at in 0u64..250_000_000_000,
            period in prop::sample::select(Period::ALL.to_vec()),
        ) {
            let one = Auto { at, period };
            prop_assert_eq!(Auto::parse(&one.name()), Some(one));
        }

        #[test]
        fn a_later_time_is_in_no_earlier_slot(at in 0u64..5_000_000_000, more in 0u64..100_000_000) {
            for period in Period::ALL {
                prop_assert!(slot(period, at) <= slot(period, at + more));
            }
            // A new long slot is a new slot of each shorter period, apart from weeks in months.
            for period in [Period::Hourly, Period::Daily, Period::Weekly, Period::Monthly] {
                if slot(period, at) != slot(period, at + more) {
                    prop_assert_ne!(slot(Period::Frequent, at), slot(Period::Frequent, at + more));
                }
            }
        }
    }
}
