//! Random numbers, and random moments of a cut, which are the same in each run.

use std::process::Child;
use std::time::{Duration, Instant};

/// Pseudo-random numbers that are the same in each run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number that is less than `limit`.
    #[must_use]
    pub const fn below(&mut self, limit: u64) -> u64 {
        // This is Knuth's generator, whose high bits are the better ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Returns a random index into a list of this length.
    ///
    /// # Panics
    /// Panics if the length is 0.
    #[must_use]
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than a length")
    }
}

/// Waits for this time, or until a program has ended. Returns true if the program still runs.
///
/// # Panics
/// Panics if the program is not a child process.
#[track_caller]
pub fn still_runs_after(child: &mut Child, millis: u64) -> bool {
    let end = Instant::now() + Duration::from_millis(millis);
    loop {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
