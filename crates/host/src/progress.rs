//! Reports the progress of a zoneadmd with the memory of a zone to the command that waits for it: a
//! small file beside the zone's state, which exists while the work takes long.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use model::ZoneName;
use store::Root;

use crate::Host;

/// Interval between reports, and between looks at them.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: usize = 64;

/// The writer of reports; short work is not reported at all.
#[derive(Debug)]
pub struct Teller {
    path: PathBuf,
    told: Mutex<Instant>,
}

impl Teller {
    /// Returns a teller that writes the progress of a zone below the root.
    pub fn new(root: &Root, zone: &ZoneName) -> Self {
        Self {
            path: root.progress(zone),
            told: Mutex::new(Instant::now()),
        }
    }

    /// So many bytes of so many. By any thread.
    pub fn tell(&self, done: u64, total: u64) {
        // Another thread is about to report.
        let Ok(mut told) = self.told.try_lock() else {
            return;
        };
        if told.elapsed() >= REPORT_INTERVAL {
            *told = Instant::now();
            // A missing file is no error: the report is optional.
            let _ = fs::write(&self.path, format!("{done} {total}\n"));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Does something that a zone's zoneadmd has its part in, and tells meanwhile how far that
/// is: bytes, and of how many.
pub fn follow<T: Send>(
    host: &Host,
    zone: &ZoneName,
    tell: &mut dyn FnMut(u64, u64),
    work: impl FnOnce() -> T + Send,
) -> T {
    let path = host.root.progress(zone);
    // A file that a killed zoneadmd left.
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

/// Returns nothing for a file that is still being written.
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
