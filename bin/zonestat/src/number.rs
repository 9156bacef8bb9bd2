//! Formats numbers: in five columns for people, exactly for programs.

/// The reader of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A person.
    Human,
    /// A program (-p).
    Program,
}

/// The text that is printed for a figure that does not exist.
pub const NONE: &str = "-";

/// Returns the text of a figure, or [`NONE`] if the figure does not exist.
pub fn or_none<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| NONE.to_owned(), show)
}

/// Returns an amount of bytes or of objects as text: `9999`, `12.3K`, `9999M`; for programs in
/// units of 1024 above 9999.
pub fn amount(value: u64, reader: Reader) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if value <= 9_999 {
        return value.to_string();
    }
    if reader == Reader::Program {
        return format!("{}K", value / 1024);
    }
    let mut value = value;
    for unit in UNITS {
        if value <= 99_999 {
            let tenths = u128::from(value) * 10 / 1024;
            return format!("{}.{}{unit}", tenths / 10, tenths % 10);
        }
        value /= 1024;
        if value <= 9_999 {
            return format!("{value}{unit}");
        }
    }
    // Six units hold 64 bits.
    format!("{value}E")
}

/// Returns hundredths of a percent as text: `1.23%`, `12.3%`, `123%`; for programs with both
/// decimals.
pub fn percent(value: u64, reader: Reader) -> String {
    let number = match value {
        _ if reader == Reader::Program => hundredths(value),
        0..=999 => hundredths(value),
        1_000..=9_999 => format!("{}.{}", value / 100, value / 10 % 10),
        _ => (value / 100).to_string(),
    };
    number + "%"
}

fn hundredths(value: u64) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

/// Returns millionths of a CPU as a number of CPUs, with two decimals if they fit.
pub fn cpus(millionths: u64, reader: Reader) -> String {
    let value = millionths.saturating_add(5_000) / 10_000;
    match value {
        _ if reader == Reader::Program => hundredths(value),
        0..=9_999 => hundredths(value),
        10_000..=99_999 => format!("{}.{}", value / 100, value / 10 % 10),
        _ => amount(value / 100, reader),
    }
}

/// Returns an amount in units of 1000 with at most four characters: `986M`, `1.1G`, `18E`.
pub fn thousands(value: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    let (mut unit, mut rest) = (None, value);
    let mut tenths = 0;
    for next in UNITS {
        if rest < 1000 {
            break;
        }
        tenths = rest / 100 % 10;
        rest /= 1000;
        unit = Some(next);
    }
    match unit {
        None => rest.to_string(),
        Some(unit) if rest < 10 => format!("{rest}.{tenths}{unit}"),
        Some(unit) => format!("{rest}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts() {
        for (value, human, program) in [
            (0, "0", "0"),
            (9_999, "9999", "9999"),
            (10_000, "9.7K", "9K"),
            (99_999, "97.6K", "97K"),
            (100_000, "97K", "97K"),
            (4_206 << 20, "4206M", "4306944K"),
            (36_700_160, "35.0M", "35840K"),
            (u64::MAX, "15.9E", "18014398509481983K"),
        ] {
            assert_eq!(amount(value, Reader::Human), human);
            assert_eq!(amount(value, Reader::Program), program);
        }
    }

    #[test]
    fn percentages() {
        for (value, human, program) in [
            (0, "0.00%", "0.00%"),
            (44, "0.44%", "0.44%"),
            (999, "9.99%", "9.99%"),
            (1_530, "15.3%", "15.30%"),
            (10_000, "100%", "100.00%"),
            (123_456, "1234%", "1234.56%"),
        ] {
            assert_eq!(percent(value, Reader::Human), human);
            assert_eq!(percent(value, Reader::Program), program);
        }
    }

    #[test]
    fn cpus_have_two_decimals() {
        for (value, human, program) in [
            (0, "0.00", "0.00"),
            (4_999, "0.00", "0.00"),
            (5_000, "0.01", "0.01"),
            (1_220_000, "1.22", "1.22"),
            (12_340_000, "12.34", "12.34"),
            (123_450_000, "123.4", "123.45"),
            (1_024_000_000, "1024", "1024.00"),
        ] {
            assert_eq!(cpus(value, Reader::Human), human);
            assert_eq!(cpus(value, Reader::Program), program);
        }
    }

    #[test]
    fn units_of_thousand() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0K"),
            (9_999, "9.9K"),
            (10_000, "10K"),
            (986_000_000, "986M"),
            (1_100_000_000, "1.1G"),
            (u64::MAX, "18E"),
        ] {
            assert_eq!(thousands(value), text);
        }
    }

    proptest! {
        #[test]
        fn people_get_at_most_five_characters(value: u64) {
            prop_assert!(amount(value, Reader::Human).len() <= 5);
            prop_assert!(thousands(value).len() <= 4);
            prop_assert!(percent(value % 1_000_000, Reader::Human).len() <= 5);
            prop_assert!(cpus(value % 9_000_000_000, Reader::Human).len() <= 5);
        }
    }
}
