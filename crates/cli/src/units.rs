//! Formats sizes and times for users, and parses sizes.

/// Formats a number of bytes with at most four digits and a unit of 1024: `0`, `512`, `12.3M`,
/// `3.0G`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 0;
    // The calculation uses tenths, so that no rounding turns 1023.96 K into 1024.0 K.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Parses a size in the form of [`bytes`], but without a fraction: `512`, `12M`, `3G`. The unit of
/// the size may be in upper or lower case.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return None,
    };
    let begins = digits
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| begins)?;
    number.checked_mul(1 << shift)
}

/// Formats seconds since 1970 as `2025-11-20T21:32:57Z`.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // The calculation counts years from March, because their pattern in the Gregorian calendar
    // repeats every 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (size, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1_048_575, "1023.9K"),
            (1_048_576, "1.0M"),
            (13_000_000, "12.3M"),
            (u64::MAX, "15.9E"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn sizes_are_read() {
        for (text, size) in [
            ("0", 0),
            ("12", 12),
            ("1k", 1024),
            ("2M", 2 << 20),
            ("3P", 3 << 50),
        ] {
            assert_eq!(parse(text), Some(size), "{text}");
        }
        for bad in ["", "K", "+1", "-1", "1.5G", "1KB", "99999999P", "1 G"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_763_674_377, "2025-11-20T21:32:57Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
