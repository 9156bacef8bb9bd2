//! Keeps test hosts whose zone `master` serves one test after another: an install takes most of a
//! second, a clone a few milliseconds.
//!
//! The pool is emptied when the last running test ends: a test program has no later moment for
//! this.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::place::Place;

#[derive(Debug)]
struct Pool {
    /// Number of tests that use a host.
    busy: usize,
    free: Vec<Place>,
}

fn pool() -> MutexGuard<'static, Pool> {
    static POOL: Mutex<Pool> = Mutex::new(Pool {
        busy: 0,
        free: Vec::new(),
    });
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that a test begins.
pub(crate) fn enter() {
    pool().busy += 1;
}

/// Returns a free host with a master, if there is one.
pub(crate) fn take() -> Option<Place> {
    pool().free.pop()
}

/// Records that a test ends, which returns its host if the host is unchanged. Returns the hosts
/// that no test will use any more.
pub(crate) fn leave(place: Option<Place>) -> Vec<Place> {
    let mut pool = pool();
    pool.free.extend(place);
    pool.busy -= 1;
    if pool.busy == 0 {
        std::mem::take(&mut pool.free)
    } else {
        Vec::new()
    }
}
