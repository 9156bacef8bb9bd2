//! The order to shut down, given until init or the machine has taken it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::Server;
use crate::error::Error;
use host::init_ready::is_ready_for;

/// Interval at which zoneadmd checks that init is ready for the order to shut down.
const INIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which zoneadmd presses the power button of a machine until it ends: its firmware
/// and a kernel that starts do not see it.
const POWER_BUTTON_INTERVAL: Duration = Duration::from_secs(10);

impl Server<'_> {
    /// Returns the time until the order to shut down is tried again, while a command waits for it.
    pub(super) fn order_pause(&self) -> Option<Duration> {
        if self.waiting.is_empty() {
            return None;
        }
        let pressed = self
            .pressed
            .map(|at| POWER_BUTTON_INTERVAL.saturating_sub(at.elapsed()));
        self.untold.then_some(INIT_POLL_INTERVAL).or(pressed)
    }

    /// Gives the order to shut down if it could not be given before, or may have been lost.
    pub(super) fn insist(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if self.untold {
            self.tell_init();
        }
        if self
            .pressed
            .is_some_and(|at| at.elapsed() >= POWER_BUTTON_INTERVAL)
        {
            self.pressed = Some(Instant::now());
            // The command that waits heard of an error the first time.
            let _ = self.press_power_button();
        }
    }

    /// Tells init to shut down, once it is ready for that.
    pub(super) fn tell_init(&mut self) {
        let (init, signal) = (&self.platform.init, self.runtime.shutdown_signal);
        // Ours blocks its orders from the beginning.
        if !self.has_zinit && !is_ready_for(init.pid, signal) {
            return;
        }
        self.untold = false;
        if let Err(error) = sys::process::send_signal(init.pidfd.as_fd(), signal) {
            self.answer_waiting(&Err(Error::Signal(error)));
        }
    }
}
