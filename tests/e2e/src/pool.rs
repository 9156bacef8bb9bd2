//! Hosts whose zone `master` serves one test after the other: installing takes
//! most of a second, a clone a few milliseconds.
//!
//! The pool is emptied when the last test that is under way ends, as there is no
//! later moment for it in a test program.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::place::Place;

#[derive(Debug)]
struct Pool {
    /// Tests with a host.
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

/// A test begins.
pub(crate) fn enter() {
    pool().busy += 1;
}

/// A host with a master, if one is free.
pub(crate) fn take() -> Option<Place> {
    pool().free.pop()
}

/// A test ends and gives back its host, if it is as good as new. Returns those
/// that nobody will use any more.
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
