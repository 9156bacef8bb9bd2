//! Times in documents.

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Parses a time in the form of mail, as `updated` in simple streams has it: `Wed, 20 Mar 2013
/// 17:56:57 +0000`. Returns seconds since 1970, or `None` for any other form.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.split_once(", ").map_or(text, |(_, rest)| rest);
    let mut words = text.split_ascii_whitespace();
    let day: u64 = number(words.next()?, 1, 31)?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)?;
    let year = number(words.next()?, 1970, 9999)?;
    let mut clock = words.next()?.split(':');
    let hours = number(clock.next()?, 0, 23)?;
    let minutes = number(clock.next()?, 0, 59)?;
    let seconds = number(clock.next()?, 0, 60)?;
    let zone = words.next()?;
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("-", digits) => (true, digits),
        ("+", digits) => (false, digits),
        _ if matches!(zone, "GMT" | "UTC") => (false, "0000"),
        _ => return None,
    };
    let (zone_hours, zone_minutes) = digits.split_at_checked(2).filter(|_| digits.len() == 4)?;
    let offset = number(zone_hours, 0, 14)? * 3600 + number(zone_minutes, 0, 59)? * 60;
    if clock.next().is_some() || words.next().is_some() {
        return None;
    }
    let days = days_before(year, month) + day - 1;
    let time = days * 86_400 + hours * 3600 + minutes * 60 + seconds;
    if sign {
        time.checked_add(offset)
    } else {
        time.checked_sub(offset)
    }
}

fn number(text: &str, least: u64, most: u64) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = digits.then(|| text.parse().ok())??;
    (least..=most).contains(&value).then_some(value)
}

/// Returns the number of days from 1970 to the first day of a month, which is counted from 0.
fn days_before(year: u64, month: usize) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap = |year: u64| year / 4 - year / 100 + year / 400;
    let is_leap = leap(year) > leap(year - 1);
    (year - 1970) * 365
        + (leap(year - 1) - leap(1969))
        + BEFORE[month]
        + u64::from(is_leap && month > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_mail_are_seconds_since_1970() {
        for (text, seconds) in [
            ("Wed, 20 Mar 2013 17:56:57 +0000", Some(1_363_802_217)),
            ("20 Mar 2013 18:56:57 +0100", Some(1_363_802_217)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 00:00:00 +0000", Some(1_709_164_800)),
            ("Fri, 01 Mar 2024 00:00:00 +0000", Some(1_709_251_200)),
            ("Thu, 01 Jan 1970 00:00:00 +0100", None),
            ("2024-03-01", None),
            ("Fri, 01 Foo 2024 00:00:00 +0000", None),
            ("Fri, 01 Mar 2024 24:00:00 +0000", None),
            ("Fri, 01 Mar 2024 00:00:00 +é00", None),
            ("", None),
        ] {
            assert_eq!(parse(text), seconds, "{text}");
        }
    }
}
