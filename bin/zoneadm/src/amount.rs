//! Shows the progress of long work on a kernel zone: its memory is written to the disk or read back,
//! or the files below its disks are merged.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use host::{Host, progress};
use model::ZoneName;

/// Time after which progress is shown; shorter operations show none.
const PROGRESS_DELAY: Duration = Duration::from_secs(2);

/// The form of the progress: on a terminal one line that is redrawn, elsewhere a new line at
/// intervals.
struct Shown<'a> {
    zone: &'a ZoneName,
    what: &'a str,
    terminal: bool,
    began: Instant,
    told: Instant,
    /// True if a progress line is on the terminal and must be cleared.
    drawn: bool,
}

impl Shown<'_> {
    fn tell(&mut self, out: &mut impl Write, now: Instant, done: u64, total: u64) {
        let took = now.duration_since(self.began);
        let again = now.duration_since(self.told) >= PROGRESS_DELAY;
        if took < PROGRESS_DELAY || !(again || self.terminal) {
            return;
        }
        self.told = now;
        self.drawn = self.terminal;
        let text = text(self.zone, self.what, took, done, total);
        // If the output has no reader any more, the work continues.
        let _ = match self.terminal {
            true => write!(out, "\r\x1b[K{text}"),
            false => writeln!(out, "{text}"),
        };
        let _ = out.flush();
    }

    fn end(&self, out: &mut impl Write) {
        if self.drawn {
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
    }
}

fn text(zone: &ZoneName, what: &str, took: Duration, done: u64, total: u64) -> String {
    let percent = done.saturating_mul(100) / total.max(1);
    // The conversion is inexact above 2^53 bytes, which no guest reaches.
    #[allow(clippy::cast_precision_loss)]
    let rate = done as f64 / 1e6 / took.as_secs_f64().max(1e-3);
    format!(
        "zoneadm: zone '{zone}': {what}: {percent} %, {} of {} MB, {rate:.0} MB/s",
        done / 1_000_000,
        total / 1_000_000
    )
}

/// Runs an operation on the memory of a zone, and shows its progress if the operation takes long.
pub fn follow<T: Send>(
    host: &Host,
    zone: &ZoneName,
    what: &str,
    work: impl FnOnce() -> T + Send,
) -> T {
    show(zone, what, |tell| progress::follow(host, zone, tell, work))
}

/// Runs an operation that tells the bytes that are done and the bytes in all. Shows them if the
/// operation takes long.
pub fn show<T>(zone: &ZoneName, what: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let began = Instant::now();
    let mut shown = Shown {
        zone,
        what,
        terminal: std::io::stdout().is_terminal(),
        began,
        told: began,
        drawn: false,
    };
    let mut out = std::io::stdout();
    let mut tell = |done, total| {
        if !cli::progress::amount(Some(zone.as_str()), what, done, Some(total), "bytes") {
            shown.tell(&mut out, Instant::now(), done, total);
        }
    };
    let done = work(&mut tell);
    shown.end(&mut out);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_transfers_of_memory_report_progress() {
        let zone: ZoneName = "k1".parse().unwrap();
        let said = |terminal| {
            let began = Instant::now();
            let mut shown = Shown {
                zone: &zone,
                what: "suspend",
                terminal,
                began,
                told: began,
                drawn: false,
            };
            let mut out = Vec::new();
            for (millis, done) in [(500, 1), (2000, 3), (2250, 4), (4000, 6)] {
                let now = began + Duration::from_millis(millis);
                shown.tell(&mut out, now, done * 1_000_000_000, 8_000_000_000);
            }
            shown.end(&mut out);
            String::from_utf8(out).unwrap()
        };
        let line = |rest: &str| format!("zoneadm: zone 'k1': suspend: {rest}");
        let first = line("37 %, 3000 of 8000 MB, 1500 MB/s");
        let last = line("75 %, 6000 of 8000 MB, 1500 MB/s");
        assert_eq!(said(false), format!("{first}\n{last}\n"));
        let middle = line("50 %, 4000 of 8000 MB, 1778 MB/s");
        let wipe = "\r\x1b[K";
        let expected = format!("{wipe}{first}{wipe}{middle}{wipe}{last}{wipe}");
        assert_eq!(said(true), expected);
    }
}
