//! Points at which tests end an operation as SIGKILL or a power cut would.
//!
//! Code that changes lasting objects calls [`point`] between two changes. With the feature `fake`,
//! a test ends the operation at such a point by unwinding: no undo runs, and descriptors with their
//! locks are closed, as when a process dies. Without that feature, [`point`] does nothing.

#[cfg(feature = "fake")]
pub use simulated::{Crashed, point, run, watched};

/// Marks a point between two effects.
#[cfg(not(feature = "fake"))]
#[inline]
pub fn point() {}

#[cfg(feature = "fake")]
mod simulated {
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
        static LOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    }

    /// The panic payload of a simulated crash.
    #[derive(Debug)]
    pub struct Crashed;

    /// Marks a point between two effects. The call does not return if the test requests a crash
    /// here.
    pub fn point() {
        // Points inside `look` do not count.
        if let Some(mut look) = LOOK.take() {
            look();
            LOOK.set(Some(look));
        }
        match LEFT.get() {
            Some(0) => {
                LEFT.set(None);
                resume_unwind(Box::new(Crashed));
            }
            Some(n) => LEFT.set(Some(n - 1)),
            None => {}
        }
    }

    /// Runs `work`, and calls `look` at each of its points. `look` stands for another command at
    /// that moment.
    pub fn watched<T>(look: impl FnMut() + 'static, work: impl FnOnce() -> T) -> T {
        LOOK.set(Some(Box::new(look)));
        let done = work();
        LOOK.set(None);
        done
    }

    /// Runs `work`, and crashes it at its `k`-th point. Returns the result of `work` if it has
    /// fewer points.
    ///
    /// # Errors
    /// Fails with [`Crashed`].
    pub fn run<T>(k: u32, work: impl FnOnce() -> T) -> Result<T, Crashed> {
        LEFT.set(Some(k));
        let result = catch_unwind(AssertUnwindSafe(work));
        LEFT.set(None);
        result.map_err(|payload| match payload.downcast::<Crashed>() {
            Ok(_) => Crashed,
            Err(other) => resume_unwind(other),
        })
    }
}
