//! Records the steps that were done and how to take them back.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::time::Timespec;

use crate::error::flatten;

/// The error of a step that takes another one back.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

type Undo = Box<dyn FnOnce() -> Result<(), AnyError>>;

/// Steps to take back, the last one first.
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
    /// Remembers how to take the last step back; `what` names it in errors.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        undo: impl FnOnce() -> Result<(), AnyError> + 'static,
    ) {
        self.0.push((what.into(), Box::new(undo)));
    }

    /// Takes everything back, going on past errors, and returns those.
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

    /// Forgets the steps: their changes stay.
    pub fn disarm(&mut self) {
        self.0.clear();
    }
}

/// Waits for the end of a killed process, for at most `patience`, and reaps it if it is
/// our child.
pub fn reap(child: &sys::process::Child, patience: Duration) {
    let limit = Timespec::try_from(patience).ok();
    let mut watched = [PollFd::new(&child.pidfd, PollFlags::IN)];
    if matches!(poll(&mut watched, limit.as_ref()), Ok(1)) {
        // Fails if another process is the parent; then there is nothing to collect.
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
