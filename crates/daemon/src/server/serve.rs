//! The main loop of zoneadmd: waits, and handles each source that has data.

use store::lock::{self, Wait};

use super::Server;
use super::wait::Source;
use crate::connection::is_there;
use crate::error::{Error, LeaveError};
use crate::pager::Paging;
use crate::rctl::Rctls;

impl Server<'_> {
    /// Serves until the zone is down.
    pub(crate) fn serve(mut self) -> Result<(), Error> {
        self.rctls = Some(Rctls::new(&self.platform.cgroups));
        self.firewall = self.watch_rules();
        self.watch_resolver();
        // The boot has been answered: no command waits while these sockets close.
        self.platform.announced.clear();
        // zoneadmd mostly waits from here on, so it releases memory. An error does no harm.
        let _ = sys::memory::release_program_pages();
        let mut ended = None;
        loop {
            let woken = self.wait(ended.is_some())?;
            if woken.has(Source::Pager) {
                // An error is ignored: `hear_pager` has logged the pager's text, and has ended the
                // zone if necessary.
                let _ = self.hear_pager();
            }
            if let Some(follower) = self.follower.as_mut().filter(|_| ended.is_none()) {
                follower.mind(woken.has(Source::LimitReader));
            }
            if let Some(requests) = &mut self.requests {
                requests.go_on(self.host, self.zone, woken.has(Source::Environments));
            }
            if woken.has(Source::Monitor) {
                self.hear_machine();
            }
            if ended.is_none() {
                self.mind_room();
            }
            if woken.has(Source::Complaint) {
                self.log_complaint();
            }
            if let Some(rctls) = &mut self.rctls {
                if woken.has(Source::Limit) {
                    rctls.wake();
                }
                let hits = rctls.hits();
                self.tell(&hits);
            }
            self.mind_rules(&woken);
            if woken.has(Source::Zone) {
                self.show_output();
            }
            if woken.has(Source::ConsoleClient) {
                self.console.take_client_input(&self.platform.console);
            }
            if woken.has(Source::Command) && self.answer_one() {
                return Ok(());
            }
            if ended.is_none() {
                self.insist();
            }
            if self.leaving.is_some() && self.go_on_leaving(woken.has(Source::Mover)) {
                return Ok(());
            }
            if woken.has(Source::InitEnd) && ended.is_none() {
                // The pager may have ended the guest, and will soon report the reason.
                if self.paging.as_ref().is_some_and(Paging::ends_soon) {
                    let _ = self.hear_pager();
                }
                ended = Some(self.how_it_ended());
                // The command that migrates the zone holds the zone's lock, so the migration is
                // cancelled here.
                self.stop_leaving(&LeaveError::Ended);
            }
            if let Some(end) = ended {
                self.waiting.retain(is_there);
                let held = lock::zone(&self.host.root, self.zone, Wait::No);
                // If a command holds the zone's lock and does not wait for zoneadmd, zoneadmd waits
                // until that command releases the lock.
                if held.is_ok() || !self.waiting.is_empty() {
                    return self.finish(end, held.ok());
                }
            }
        }
    }
}
