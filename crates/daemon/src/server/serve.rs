//! The loop of zoneadmd: waits, and has each source that woke it seen to.

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
        // The boot has been answered: nobody waits for this.
        self.platform.announced.clear();
        // From here on zoneadmd mostly waits; to keep more memory than it needs is no error.
        let _ = sys::memory::release_program_pages();
        let mut ended = None;
        loop {
            let woken = self.wait(ended.is_some())?;
            if woken.has(Source::Pager) {
                // The pager's text is in the log; the zone ends if it must.
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
            self.mind_rules(woken.has(Source::Firewall));
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
                // The pager may have ended the machine, and is about to say why.
                if self.paging.as_ref().is_some_and(Paging::ends_soon) {
                    let _ = self.hear_pager();
                }
                ended = Some(self.how_it_ended());
                // The command that moves the zone holds the lock.
                self.stop_leaving(&LeaveError::Ended);
            }
            if let Some(end) = ended {
                self.waiting.retain(is_there);
                let held = lock::zone(&self.host.root, self.zone, Wait::No);
                // A command that holds the lock and does not wait for us will ask
                // itself if it cares.
                if held.is_ok() || !self.waiting.is_empty() {
                    return self.finish(end, held.ok());
                }
            }
        }
    }
}
