//! Waits for the zone, its commands and its helper processes.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::Server;
use crate::error::Error;
use crate::outgoing_guest::Leaving;
use crate::rctl::Rctls;
use platform::proc::Follower;

/// Interval between attempts to tear down an ended zone while a command holds its lock.
const TEARDOWN_RETRY_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A descriptor that zoneadmd waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The console of the zone has output.
    Zone,
    /// The client of the console has input.
    ConsoleClient,
    /// A command connects.
    Command,
    /// The first process of the zone has ended.
    InitEnd,
    /// The kernel reports that a limit was reached.
    Limit,
    /// QEMU sends an event.
    Monitor,
    /// QEMU writes an error.
    Complaint,
    /// The pager sends its report.
    Pager,
    /// The zone asks about its boot environments.
    Environments,
    /// The command that migrates a guest sends an order.
    Mover,
    /// The process that shows the zone its limits reports.
    LimitReader,
    /// A program changes the rules of the host's firewall.
    Firewall,
    /// The resolver of zones has ended.
    Resolver,
}

/// The sources that had data to read after a wait.
#[derive(Debug, Default)]
pub(super) struct Woken(Vec<Source>);

impl Woken {
    pub(super) fn has(&self, source: Source) -> bool {
        self.0.contains(&source)
    }
}

impl Server<'_> {
    /// Waits until a source has data to read, or until the next timed action is due. If the zone
    /// has `ended`, only the sources of an ended zone are polled.
    pub(super) fn wait(&self, ended: bool) -> Result<Woken, Error> {
        let now = Instant::now();
        let sources = self.sources(ended, now);
        let pause = match ended {
            true => Some(TEARDOWN_RETRY_INTERVAL),
            false => self
                .pause(now)
                .and_then(|pause| Timespec::try_from(pause).ok()),
        };
        let mut watched: Vec<PollFd<'_>> = sources
            .iter()
            .map(|(_, descriptor)| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
            .collect();
        match poll(&mut watched, pause.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Woken::default()),
            Err(errno) => return Err(Error::Wait(errno.into())),
        }
        let woken = sources.iter().zip(&watched);
        let woken = woken.filter(|(_, polled)| !polled.revents().is_empty());
        Ok(Woken(woken.map(|((source, _), _)| *source).collect()))
    }

    /// Returns the sources to wait for now, each with its descriptor.
    fn sources(&self, ended: bool, now: Instant) -> Vec<(Source, BorrowedFd<'_>)> {
        let machine = self.platform.machine.as_ref();
        let monitor = machine.and_then(|machine| machine.monitor.as_ref());
        let always = [
            (
                Source::Zone,
                (!self.silent).then(|| self.platform.console.as_fd()),
            ),
            (Source::ConsoleClient, self.console.client()),
            (Source::Command, Some(self.listener.as_fd())),
            (
                Source::Limit,
                self.rctls.as_ref().and_then(Rctls::descriptor),
            ),
            (Source::Monitor, monitor.map(AsFd::as_fd)),
            (
                Source::Complaint,
                machine.map(|machine| machine.complaints.as_fd()),
            ),
            (Source::Pager, self.paging.as_ref().map(AsFd::as_fd)),
        ];
        let until_the_end = [
            (Source::InitEnd, Some(self.platform.init.pidfd.as_fd())),
            (
                Source::Environments,
                self.requests.as_ref().and_then(|one| one.descriptor(now)),
            ),
            (
                Source::Mover,
                self.leaving
                    .as_ref()
                    .map(|leaving| leaving.client().as_fd()),
            ),
            (
                Source::LimitReader,
                self.follower.as_ref().and_then(Follower::descriptor),
            ),
            (Source::Firewall, self.firewall.as_ref().map(AsFd::as_fd)),
            (Source::Resolver, self.resolver.as_ref().map(AsFd::as_fd)),
        ];
        let mut sources = Vec::from(always);
        if !ended {
            sources.extend(until_the_end);
        }
        let there = |(source, descriptor): (_, Option<_>)| descriptor.map(|one| (source, one));
        sources.into_iter().filter_map(there).collect()
    }

    /// Returns the time until the next timed action.
    fn pause(&self, now: Instant) -> Option<Duration> {
        let pauses = [
            self.rctls.as_ref().and_then(Rctls::patience),
            self.stall.patience(),
            self.follower.as_ref().and_then(Follower::due_in),
            self.order_pause(),
            self.leaving.as_ref().and_then(Leaving::pause),
            self.requests.as_ref().and_then(|one| one.pause(now)),
            self.firewall.as_ref().and_then(|one| one.pause(now)),
        ];
        pauses.into_iter().flatten().min()
    }
}
