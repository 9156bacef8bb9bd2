//! A guest that prints numbered lines ("beats") on its console at a fixed interval. The longest
//! time without a line shows how long the guest was paused for others, whatever zoneadm prints.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Host;
use crate::guest::said;

/// Interval between reads of the consoles.
const LISTEN_INTERVAL: Duration = Duration::from_millis(2);

/// Time to wait for one more beat after the end of the work.
const LAST_BEAT_TIMEOUT: Duration = Duration::from_secs(60);

/// Script that writes numbered beats to the console until the file /run/quiet exists.
const BEATS: &str = "cat >/run/beats <<'END'
n=0
while [ ! -e /run/quiet ]; do
    n=$((n + 1))
    echo beat $n >/dev/console
    sleep 0.02
done
END
    rm -f /run/quiet
    setsid sh /run/beats </dev/null >/dev/null 2>&1 &";

/// The beats that were received.
#[derive(Debug, Default)]
pub struct Heard {
    /// The numbers of the beats, in the order of their arrival.
    pub numbers: Vec<u64>,
    /// The longest time without a beat.
    pub silence: Duration,
}

/// A console that is read for beats.
struct Console {
    path: PathBuf,
    seen: usize,
}

impl Console {
    /// Returns the numbers of the beats that have arrived since the last call.
    fn beats(&mut self) -> Vec<u64> {
        let text = fs::read(&self.path).unwrap_or_default();
        let new = text.get(self.seen..).unwrap_or_default();
        // An incomplete line is completed by the next read.
        let Some(end) = new.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        self.seen += end + 1;
        let lines = String::from_utf8_lossy(&new[..end]).into_owned();
        let numbers = lines.lines().filter_map(|line| {
            let number = line.trim().strip_prefix("beat ")?;
            number.parse().ok()
        });
        numbers.collect()
    }
}

/// Starts the beats in the guest `k1` of a host.
#[track_caller]
pub fn begin(host: &Host) {
    let _ = said(host, BEATS);
}

/// Stops the beats.
#[track_caller]
pub fn end(host: &Host) {
    let _ = said(host, "touch /run/quiet");
}

/// Reads the consoles of `k1` on both hosts while `work` runs, and until one more beat has arrived.
///
/// # Panics
/// Panics if the reading thread panics.
pub fn during<T>(hosts: [&Host; 2], work: impl FnOnce() -> T) -> (T, Heard) {
    let consoles = hosts.map(|host| {
        let path = host.path("var/log/zones/k1.console");
        let seen = fs::metadata(&path).map_or(0, |meta| meta.len());
        Console {
            path,
            seen: usize::try_from(seen).unwrap_or(usize::MAX),
        }
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(consoles, &done));
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, listener.join().expect("a thread that listens"))
    })
}

fn listen(mut consoles: [Console; 2], done: &AtomicBool) -> Heard {
    let mut heard = Heard::default();
    let (mut last, mut ended) = (Instant::now(), None);
    loop {
        let was_done = done.load(Ordering::Relaxed);
        let new: Vec<u64> = consoles.iter_mut().flat_map(Console::beats).collect();
        if !new.is_empty() {
            // The first beat has no interval before it.
            if !heard.numbers.is_empty() {
                heard.silence = heard.silence.max(last.elapsed());
            }
            last = Instant::now();
            heard.numbers.extend(&new);
        }
        if was_done {
            let since = *ended.get_or_insert_with(Instant::now);
            if !new.is_empty() || since.elapsed() > LAST_BEAT_TIMEOUT {
                return heard;
            }
        }
        std::thread::sleep(LISTEN_INTERVAL);
    }
}
