//! Records completed steps and the functions that undo them.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::time::Timespec;

use crate::error::flatten;

/// The error of a function that undoes a step.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

type Undo = Box<dyn FnOnce() -> Result<(), AnyError>>;

/// The functions that undo completed steps. The function of the last step runs first.
#[derive(Default)]
pub struct UndoStack(Vec<(String, Undo)>);

impl std::fmt::Debug for UndoStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(what, _)| what))
            .finish()
    }
}

impl UndoStack {
    /// Records the function that undoes the last step. `what` names the step in errors.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        undo: impl FnOnce() -> Result<(), AnyError> + 'static,
    ) {
        self.0.push((what.into(), Box::new(undo)));
    }

    /// Undoes all steps, continues after errors, and returns the errors.
    pub fn run(mut self) -> Vec<String> {
        let mut failed = Vec::new();
        while let Some((what, undo)) = self.0.pop() {
            if let Err(error) = undo() {
                failed.push(format!(
                    "could not undo: {what}: {}",
                    flatten(error.as_ref())
                ));
            }
        }
        failed
    }

    /// Forgets the recorded steps, so that their changes stay.
    pub fn disarm(&mut self) {
        self.0.clear();
    }
}

/// Waits at most `patience` for the end of a killed process, and reaps the process if it is a child
/// of this process.
pub fn reap(child: &sys::process::Child, patience: Duration) {
    let limit = Timespec::try_from(patience).ok();
    let mut watched = [PollFd::new(&child.pidfd, PollFlags::IN)];
    if matches!(poll(&mut watched, limit.as_ref()), Ok(1)) {
        // This call fails if another process is the parent; then this process has no status to
        // collect.
        let _ = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn undoes_backwards_past_errors() {
        let done = Rc::new(RefCell::new(Vec::new()));
        let mut stack = UndoStack::default();
        for step in 1..=3 {
            let done = Rc::clone(&done);
            stack.push(format!("step {step}"), move || {
                done.borrow_mut().push(step);
                if step == 2 {
                    Err("stuck".into())
                } else {
                    Ok(())
                }
            });
        }
        assert_eq!(stack.run(), ["could not undo: step 2: stuck"]);
        assert_eq!(*done.borrow(), [3, 2, 1]);
    }

    #[test]
    fn a_disarmed_stack_undoes_nothing() {
        let mut stack = UndoStack::default();
        stack.push("x", || Err("must not run".into()));
        stack.disarm();
        assert!(stack.run().is_empty());
    }
}
