//! Parses and prints sizes in bytes. A size has an exact form and a short form.

/// The suffixes of sizes and their powers of two, the largest first.
const SUFFIXES: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// Returns the bytes of a size such as `512`, `50m` or `4G`.
pub(super) fn parse(value: &str) -> Option<u64> {
    let last = value.chars().last()?.to_ascii_uppercase();
    let suffix = SUFFIXES.iter().find(|(suffix, _)| *suffix == last);
    let (digits, shift) = match suffix {
        Some((_, shift)) => (&value[..value.len() - 1], *shift),
        None => (value, 0),
    };
    let legal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = legal.then(|| digits.parse::<u64>().ok()).flatten()?;
    number.checked_mul(1 << shift)
}

/// Returns a size in the form that reads back as the same number of bytes, with the largest suffix
/// that divides the number. `export` writes sizes in their exact form.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    let fits = |(_, shift): &&(char, u32)| bytes != 0 && bytes % (1 << shift) == 0;
    match SUFFIXES.iter().find(fits) {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Returns a size in the short form of `info`, with the largest suffix that leaves at least one
/// unit. The number has one decimal if it is below ten units and the decimal is not zero.
#[must_use]
pub fn short_size(bytes: u64) -> String {
    let Some((suffix, shift)) = SUFFIXES.iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes}B");
    };
    let unit = 1u64 << shift;
    let (whole, rest) = (bytes / unit, bytes % unit);
    // This calculation rounds to tenths of the unit. `rest` is below 2^40, so the calculation does
    // not overflow.
    let tenths = (rest * 10 + unit / 2) / unit;
    match (whole, tenths) {
        (0..10, 1..10) => format!("{whole}.{tenths}{suffix}"),
        (_, 10) => format!("{}{suffix}", whole + 1),
        (_, 0..5) => format!("{whole}{suffix}"),
        _ if whole < 10 => format!("{whole}{suffix}"),
        _ => format!("{}{suffix}", whole + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sizes_read_back() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1K"),
            (50 << 20, "50M"),
            (1500 << 20, "1500M"),
            (2 << 40, "2T"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(exact_size(bytes), text);
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn short_sizes_are_for_people() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (50 << 20, "50M"),
            (1500 << 20, "1.5G"),
            (1 << 30, "1G"),
            ((1 << 30) + 1, "1G"),
            (10 << 30, "10G"),
            ((10 << 30) + (600 << 20), "11G"),
            (u64::MAX, "16777216T"),
        ] {
            assert_eq!(short_size(bytes), text, "{bytes}");
        }
    }
}
