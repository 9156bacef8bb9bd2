//! `/var/log/zones/<zone>.messages`: the messages of zoneadmd, one in each line.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use host::Host;
use model::ZoneName;
use store::Root;

/// Maximum size in bytes of each of the two files of a log.
const MAX_SIZE: u64 = 1 << 20;

/// Size in bytes of the end of a log in which [`note_news`] looks for the same line.
const END_BYTES: u64 = 16 << 10;

/// Adds a line with the time in UTC to the log of a zone. Ignores all errors.
pub fn message(root: &Root, zone: &ZoneName, text: &str) {
    let line = format!("{} zone '{zone}': {text}\n", timestamp(seconds()));
    let _ = open(root, zone).and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Adds a line to the zone's log.
pub fn note(host: &Host, zone: &ZoneName, text: &str) {
    message(&host.root, zone, text);
}

/// Adds a line to the zone's log, unless it repeats the last line of the same kind: of those lines
/// whose text begins with one of `kinds`. Only the end of the log is looked at.
pub fn note_news(host: &Host, zone: &ZoneName, text: &str, kinds: &[&str]) {
    let end = end_of(&host.root, zone).unwrap_or_default();
    let end = String::from_utf8_lossy(&end);
    let mark = format!(" zone '{zone}': ");
    let texts = end.lines().rev().filter_map(|line| line.split_once(&mark));
    let mut texts = texts.map(|(_, text)| text);
    let last = texts.find(|text| kinds.iter().any(|kind| text.starts_with(kind)));
    if last != Some(text) {
        note(host, zone, text);
    }
}

/// Returns the last bytes of the log of a zone.
fn end_of(root: &Root, zone: &ZoneName) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(root.messages(zone))?;
    let begin = file.metadata()?.len().saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(END_BYTES).read_to_end(&mut end)?;
    Ok(end)
}

/// Opens the log to append to it; renames a large log first.
pub fn open(root: &Root, zone: &ZoneName) -> std::io::Result<File> {
    let path = root.messages(zone);
    std::fs::create_dir_all(root.log())?;
    let open = || {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .open(&path)
    };
    let file = open()?;
    if file.metadata()?.len() <= MAX_SIZE {
        return Ok(file);
    }
    let mut old = path.clone().into_os_string();
    old.push(".0");
    std::fs::rename(&path, old)?;
    open()
}

fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Formats a number of seconds since 1970 as ISO 8601 in UTC.
pub fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // In this calculation years begin in March, so that the leap day is the last day of a year. 400
    // years have 146,097 days; day 0 is 0000-03-01.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    format!(
        "{year:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_repeats_the_last_one_of_its_kind_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Root::new(dir.path()), "/none".into(), None);
        let zone: ZoneName = "web".parse().unwrap();
        let log = || std::fs::read_to_string(host.root.messages(&zone)).unwrap();
        let tell = |text: &str| note_news(&host, &zone, text, &["slide: ", "snapshot auto-"]);
        tell("slide: full");
        note(&host, &zone, "booted");
        tell("slide: full");
        assert_eq!(log().lines().count(), 2);
        note(&host, &zone, "snapshot auto-1 taken");
        tell("slide: full");
        tell("slide: busy");
        tell("slide: full");
        assert_eq!(log().lines().count(), 6);
        note(&host, &zone, &"long ".repeat(1 << 14));
        tell("slide: full");
        assert_eq!(log().lines().count(), 8);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(seconds), expected);
        }
    }
}
