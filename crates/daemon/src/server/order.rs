//! The order to shut down, which zoneadmd repeats until init or the guest has received it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::Server;
use crate::error::Error;
use host::init_ready::is_ready_for;

/// Interval at which zoneadmd checks that init is ready for the order to shut down.
const INIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which zoneadmd presses the power button of a guest until the guest ends: firmware
/// and a starting kernel ignore the button.
const POWER_BUTTON_INTERVAL: Duration = Duration::from_secs(10);

impl Server<'_> {
    /// Returns the time until zoneadmd repeats the order to shut down, while a command waits for
    /// the shutdown.
    pub(super) fn order_pause(&self) -> Option<Duration> {
        if self.waiting.is_empty() {
            return None;
        }
        let pressed = self
            .pressed
            .map(|at| POWER_BUTTON_INTERVAL.saturating_sub(at.elapsed()));
        self.untold.then_some(INIT_POLL_INTERVAL).or(pressed)
    }

    /// Repeats the order to shut down if init was not ready before, or if the guest may have missed
    /// it.
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
            // An error is ignored, because the waiting command was told of an error at the first
            // attempt.
            let _ = self.press_power_button();
        }
    }

    /// Tells init to shut down if init is ready for the signal.
    pub(super) fn tell_init(&mut self) {
        let (init, signal) = (&self.platform.init, self.runtime.shutdown_signal);
        // zinit blocks the signal from its start, so zinit is always ready.
        if !self.has_zinit && !is_ready_for(init.pid, signal) {
            return;
        }
        self.untold = false;
        if let Err(error) = sys::process::send_signal(init.pidfd.as_fd(), signal) {
            self.answer_waiting(&Err(Error::Signal(error)));
        }
    }
}
