//! Gives priority to the threads that answer page faults, while the guest runs and its memory is
//! restored.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, setpriority_process};

/// Time after a fault within which the next one is expected.
const FAULT_GAP: Duration = Duration::from_millis(4);

/// Maximum total time for which restoring waits for faults to end. A guest that causes faults all
/// the time gets its memory sooner if all chunks are loaded in the order of the image.
const MAX_FAULT_WAIT: Duration = Duration::from_millis(300);

/// Increment of the nice value of the threads that load chunks without a fault.
const NICE_INCREMENT: i32 = 10;

/// The threads that load chunks without a fault. These threads pause while the guest causes faults,
/// so that the threads that answer faults have the disk and the processors for themselves.
#[derive(Debug)]
pub(crate) struct Turn {
    began: Instant,
    /// Microseconds from `began` until which a fault is expected.
    expected: AtomicU64,
    /// Microseconds for which the threads may still pause, in total.
    left: AtomicU64,
    threads: Mutex<Vec<Pid>>,
}

impl Turn {
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            expected: AtomicU64::new(0),
            left: AtomicU64::new(micros(MAX_FAULT_WAIT)),
            threads: Mutex::default(),
        }
    }

    /// Records that a fault has arrived.
    pub fn fault(&self) {
        let until = micros(self.began.elapsed() + FAULT_GAP);
        self.expected.fetch_max(until, Relaxed);
    }

    /// Adds the calling thread to the threads that pause.
    pub fn join(&self) {
        let this = rustix::thread::gettid();
        // If the nice value cannot be set, restoring is only slower.
        let _ = setpriority_process(Some(this), NICE_INCREMENT);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(this);
    }

    /// Pauses the calling thread while faults arrive.
    pub fn step_back(&self) {
        loop {
            let now = micros(self.began.elapsed());
            let wait = self.expected.load(Relaxed).saturating_sub(now);
            let wait = wait.min(self.left.load(Relaxed));
            if wait == 0 {
                return;
            }
            thread::sleep(Duration::from_micros(wait));
            let slept = micros(self.began.elapsed()).saturating_sub(now);
            let less = |left: u64| Some(left.saturating_sub(slept));
            let _ = self.left.fetch_update(Relaxed, Relaxed, less);
        }
    }

    /// Waits until one of the joined threads has loaded a chunk that a faulting thread waits for,
    /// too. In the meantime the threads have their normal nice value, because other processes may
    /// use the processors.
    pub fn hurry(&self, done: impl Fn() -> bool) {
        if done() {
            return;
        }
        self.set(0);
        while !done() {
            thread::sleep(Duration::from_micros(30));
        }
        self.set(NICE_INCREMENT);
    }

    fn set(&self, nice: i32) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.iter() {
            // A thread that may not change its nice value keeps its former speed.
            let _ = setpriority_process(Some(*thread), nice);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_wait_for_faults_is_bounded() {
        let turn = Turn::new();
        turn.step_back();
        for _ in 0..1000 {
            turn.fault();
            turn.step_back();
        }
        // The allowed total wait is used up long before the 1,000 faults have arrived.
        assert_eq!(turn.left.load(Relaxed), 0);
    }

    #[test]
    fn hurry_waits_until_its_condition_holds() {
        let turn = Turn::new();
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                turn.join();
                rustix::thread::gettid()
            });
            let one = thread.join().unwrap();
            assert_eq!(*turn.threads.lock().unwrap(), [one]);
        });
        let calls = AtomicU64::new(0);
        turn.hurry(|| calls.fetch_add(1, Relaxed) > 3);
        assert_eq!(calls.load(Relaxed), 5);
    }
}
