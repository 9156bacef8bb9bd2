//! Parses spans of time on the command line, and formats times of day.

/// A span of time as the command line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A plain number: of seconds, or of intervals.
    Plain(u64),
    /// `[nh][nm][ns]`, in seconds.
    Time(u64),
    /// `default`.
    Default,
    /// `inf`.
    Endless,
}

/// Maximum span, in seconds.
const MAX_SPAN_SECONDS: u64 = u32::MAX as u64;

/// Parses a span. Returns `None` for an invalid or an empty span.
pub fn span(text: &str) -> Option<Span> {
    match text {
        "default" => return Some(Span::Default),
        "inf" => return Some(Span::Endless),
        _ => {}
    }
    let is_fine = |number: &u64| (1..=MAX_SPAN_SECONDS).contains(number);
    if let Some(number) = digits(text) {
        return Some(number).filter(is_fine).map(Span::Plain);
    }
    let (mut seconds, mut rest) = (0u64, text);
    for (letter, worth) in [('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((number, behind)) = rest.split_once(letter) {
            seconds = digits(number)?.checked_mul(worth)?.checked_add(seconds)?;
            rest = behind;
        }
    }
    let time = Some(seconds).filter(|_| rest.is_empty());
    time.filter(is_fine).map(Span::Time)
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// The form of times of day (-T).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Seconds since 1970.
    Unix,
    /// As date(1) prints it, in UTC.
    Date,
    /// `YYYYMMDDThhmmssZ`.
    Iso,
}

impl Stamp {
    /// Returns a time of day as text, from seconds since 1970.
    pub fn show(self, unix: u64) -> String {
        // 2025-11-20T21:32:57Z
        let utc = cli::units::utc(unix);
        match self {
            Self::Unix => unix.to_string(),
            Self::Iso => utc.chars().filter(|c| !matches!(c, '-' | ':')).collect(),
            Self::Date => date(&utc, unix).unwrap_or(utc),
        }
    }
}

fn date(utc: &str, unix: u64) -> Option<String> {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (date, time) = utc.strip_suffix('Z')?.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    // 1 January 1970 was a Thursday.
    let weekday = DAYS.get(usize::try_from(unix / 86_400 % 7).ok()?)?;
    let day = day.trim_start_matches('0');
    Some(format!("{weekday} {month} {day:>2} {time} UTC {year}"))
}

/// Returns a duration for people: `h:mm:ss`.
pub fn clock(seconds: u64) -> String {
    let (hours, rest) = (seconds / 3600, seconds % 3600);
    format!("{hours}:{:02}:{:02}", rest / 60, rest % 60)
}

/// Returns CPU time for programs: `h-mm-ss.cc`.
pub fn cpu_time(usec: u64) -> String {
    let (seconds, rest) = (usec / 1_000_000, usec % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let (seconds, hundredths) = (seconds % 60, rest / 10_000);
    format!("{hours}-{minutes:02}-{seconds:02}.{hundredths:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, wanted) in [
            ("1", Span::Plain(1)),
            ("3600", Span::Plain(3600)),
            ("10s", Span::Time(10)),
            ("1m", Span::Time(60)),
            ("24h", Span::Time(86_400)),
            ("1h2m3s", Span::Time(3_723)),
            ("1h3s", Span::Time(3_603)),
            ("default", Span::Default),
            ("inf", Span::Endless),
        ] {
            assert_eq!(span(text), Some(wanted), "{text}");
        }
        for bad in [
            "",
            "0",
            "0s",
            "-1",
            "+1",
            "1.5",
            "s",
            "1x",
            "1m1h",
            "1s2",
            "5 ",
            "0x10",
            "1hm",
            "99999999999999999999",
            "9999999999h",
        ] {
            assert_eq!(span(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_of_day() {
        let time = 1_763_674_377;
        assert_eq!(Stamp::Unix.show(time), "1763674377");
        assert_eq!(Stamp::Iso.show(time), "20251120T213257Z");
        assert_eq!(Stamp::Date.show(time), "Thu Nov 20 21:32:57 UTC 2025");
        assert_eq!(Stamp::Date.show(0), "Thu Jan  1 00:00:00 UTC 1970");
    }

    #[test]
    fn durations() {
        assert_eq!(clock(5), "0:00:05");
        assert_eq!(clock(90_061), "25:01:01");
        assert_eq!(cpu_time(0), "0-00-00.00");
        assert_eq!(cpu_time(3_723_459_999), "1-02-03.45");
    }
}
