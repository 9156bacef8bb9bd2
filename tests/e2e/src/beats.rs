//! A guest that beats on its console, as somebody outside hears it: the longest silence is how
//! long the guest stood still for others, whatever zoneadm prints.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Host;
use crate::guest::said;

/// Interval between looks at the consoles.
const LISTEN_INTERVAL: Duration = Duration::from_millis(2);

/// Time to wait for one more beat when the work has ended.
const LAST_BEAT_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes numbered beats to the console, until /run/quiet is there.
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

/// The beats that were heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// The numbers of the beats, as they came.
    pub numbers: Vec<u64>,
    /// The longest time without a beat.
    pub silence: Duration,
}

/// One console.
struct Console {
    path: PathBuf,
    seen: usize,
}

impl Console {
    /// Returns the numbers of the beats that have come since the last call.
    fn beats(&mut self) -> Vec<u64> {
        let text = fs::read(&self.path).unwrap_or_default();
        let new = text.get(self.seen..).unwrap_or_default();
        // The rest of a line that is not complete yet comes with the next read.
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

/// Lets the guest `k1` of a host beat.
#[track_caller]
pub fn begin(host: &Host) {
    let _ = said(host, BEATS);
}

/// Lets it stop.
#[track_caller]
pub fn end(host: &Host) {
    let _ = said(host, "touch /run/quiet");
}

/// Listens to the consoles of `k1` on both hosts while `work` is done, and until one more beat came.
///
/// # Panics
/// When the thread that listens does.
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
            // Before the first beat nobody knows when the one before it was.
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
