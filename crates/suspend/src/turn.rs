//! Lets the threads that answer faults go first while memory is used and restored.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, setpriority_process};

/// Time after a fault within which the next one is expected.
const FAULT_GAP: Duration = Duration::from_millis(4);

/// Maximum time in all for which restoring waits for faults to end: a guest that always faults gets
/// all of its memory sooner in the order of the image.
const MAX_FAULT_WAIT: Duration = Duration::from_millis(300);

/// Increment of the nice value of threads that are not in a hurry.
const NICE_INCREMENT: i32 = 10;

/// The threads that bring in chunks without a fault. They step back while faults come, so that
/// these have the disk and the processors for themselves.
#[derive(Debug)]
pub(crate) struct Turn {
    began: Instant,
    /// Microseconds from the beginning until which a fault is expected.
    expected: AtomicU64,
    /// Microseconds that may still be waited.
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

    /// A fault came.
    pub fn fault(&self) {
        let until = micros(self.began.elapsed() + FAULT_GAP);
        self.expected.fetch_max(until, Relaxed);
    }

    /// This thread is one that steps back.
    pub fn join(&self) {
        let this = rustix::thread::gettid();
        // Only slower without it.
        let _ = setpriority_process(Some(this), NICE_INCREMENT);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(this);
    }

    /// Steps back while faults come.
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

    /// Waits until one of these threads is done with a chunk that a faulting thread waits for, too:
    /// while others have the processors that must not take longer because the thread is nice.
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
            // Who may not is as slow as before.
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
        // The total wait is used up long before the faults are.
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
