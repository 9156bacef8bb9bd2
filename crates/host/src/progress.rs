//! Reports how much of a zone's memory zoneadmd has processed to the command that waits. The
//! progress report is a small file beside the zone's state, and exists only while the work runs.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use model::ZoneName;
use store::Root;

use crate::Host;

/// Interval between two writes of the file by zoneadmd, and between two reads by the command.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum size of the progress file, in bytes.
const MAX_FILE_BYTES: usize = 64;

/// The writer of progress reports. Work that ends within one interval is not reported.
#[derive(Debug)]
pub struct Teller {
    path: PathBuf,
    told: Mutex<Instant>,
}

impl Teller {
    /// Returns a writer of progress reports for a zone below the root.
    pub fn new(root: &Root, zone: &ZoneName) -> Self {
        Self {
            path: root.progress(zone),
            told: Mutex::new(Instant::now()),
        }
    }

    /// Reports that `done` bytes of `total` bytes are processed. Any thread may call this function.
    pub fn tell(&self, done: u64, total: u64) {
        // If another thread holds the lock, that thread writes the report.
        let Ok(mut told) = self.told.try_lock() else {
            return;
        };
        if told.elapsed() >= REPORT_INTERVAL {
            *told = Instant::now();
            // A failed write is no error, because the report is optional.
            let _ = fs::write(&self.path, format!("{done} {total}\n"));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Runs `work`, in which the zone's zoneadmd takes part. While `work` runs, calls `tell` with the
/// number of bytes that are processed and with their total.
pub fn follow<T: Send>(
    host: &Host,
    zone: &ZoneName,
    tell: &mut dyn FnMut(u64, u64),
    work: impl FnOnce() -> T + Send,
) -> T {
    let path = host.root.progress(zone);
    // A killed zoneadmd may have left a file.
    let _ = fs::remove_file(&path);
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let work = scope.spawn(move || {
            let _done = done;
            work()
        });
        while ended.recv_timeout(REPORT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if let Some((done, total)) = parse(&text) {
                tell(done, total);
            }
        }
        work.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Parses a progress report. Returns `None` if the file is not completely written.
fn parse(text: &str) -> Option<(u64, u64)> {
    let line = text
        .strip_suffix('\n')
        .filter(|_| text.len() < MAX_FILE_BYTES)?;
    let (done, total) = line.split_once(' ')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_command_hears_the_progress() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Root::new(dir.path()), PathBuf::from("/none"), None);
        fs::create_dir_all(host.root.run()).unwrap();
        let zone: ZoneName = "web".parse().unwrap();
        let heard = std::sync::Mutex::new(None);
        let (root, zone) = (&host.root, &zone);
        let result = follow(
            &host,
            zone,
            &mut |done, total| *heard.lock().unwrap() = Some((done, total)),
            || {
                let teller = Teller::new(root, zone);
                while heard.lock().unwrap().is_none() {
                    teller.tell(3, 7);
                    std::thread::yield_now();
                }
                "done"
            },
        );
        assert_eq!(result, "done");
        assert_eq!(heard.into_inner().unwrap(), Some((3, 7)));
        assert!(!host.root.progress(zone).exists());
    }

    #[test]
    fn half_a_line_is_none() {
        assert_eq!(parse("1 2\n"), Some((1, 2)));
        for text in ["", "1 2", "1\n", "x y\n", "1 2 3\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
