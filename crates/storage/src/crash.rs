//! Crash points: places where tests end an operation as a power cut would.

#[cfg(not(test))]
#[inline]
pub(crate) fn point() {}

#[cfg(test)]
pub(crate) use simulated::{point, run};

#[cfg(test)]
mod simulated {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// What a crash unwinds with. No undo code runs: descriptors and with them
    /// locks are closed, as when a process dies.
    pub(crate) struct Crashed;

    pub(crate) fn point() {
        match LEFT.get() {
            Some(0) => {
                LEFT.set(None);
                resume_unwind(Box::new(Crashed));
            }
            Some(n) => LEFT.set(Some(n - 1)),
            None => {}
        }
    }

    /// Runs `work`, crashing at its `k`-th point; nothing when it got through.
    pub(crate) fn run<T>(k: u32, work: impl FnOnce() -> T) -> Result<T, Crashed> {
        LEFT.set(Some(k));
        let result = catch_unwind(AssertUnwindSafe(work));
        LEFT.set(None);
        result.map_err(|payload| match payload.downcast::<Crashed>() {
            Ok(_) => Crashed,
            Err(other) => resume_unwind(other),
        })
    }
}
