//! Times as text: reads what [`control::log::timestamp`] writes, and similar forms.

/// Returns the seconds since 1970 of a time such as `2026-11-25T03:40:56.165+01:00`.
#[must_use]
pub fn seconds(time: &str) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = time.get(from..to)?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| plain)
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let rest = time.get(19..)?;
    let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), ..] if zone.len() == 6 => {
            let at = time.len() - 5;
            let minutes = number(at, at + 2)? * 60 + number(at + 3, at + 5)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // In this calculation years begin in March, so that the leap day is the last day of a year.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let total = days * 86_400 + hour * 3600 + minute * 60 + second - offset * 60;
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_offset() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2025-11-20T21:32:57.123Z"), Some(1_763_674_377));
        assert_eq!(seconds("2025-11-20T22:32:57+01:00"), Some(1_763_674_377));
        assert_eq!(seconds("2025-11-20T16:02:57-05:30"), Some(1_763_674_377));
        assert_eq!(
            control::log::timestamp(seconds("2024-02-29T12:00:00Z").unwrap()),
            "2024-02-29T12:00:00Z"
        );
        for wrong in [
            "",
            "2025-11-20",
            "2025-13-20T00:00:00Z",
            "2025-11-20T00:00:00",
            "x",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
