//! Patches two zones of a group, compares their results, and makes a layer of them for the others.
//!
//! With `--activate=now`, running ones of the two are rebooted first, one after the other. The others
//! get the layer only if both boot and are well with it.

use std::sync::Arc;
use std::time::Instant;

use host::flatten;
use model::ZoneName;

use super::Run;
use crate::queue::{Candidate, Step, Tried, Verdict, lock_of};
use crate::report::Outcome;
use crate::share::{self, Seen, Shared};
use crate::transaction::{Done, Running};
use zone::environments::When;

/// The reason in the report of a zone whose result was compared.
const COMPARED: &str = "the others are compared with it";

impl Run<'_> {
    /// Patches a zone of a group also for the others.
    pub(super) fn witness(&self, zone: &ZoneName, number: usize, began: Instant) {
        let base = lock_of(&self.queue).groups[number].base.clone();
        let done = self
            .prepare(zone)
            .and_then(|ready| self.patch.zone(&ready, Some(&base)));
        let mut why = None;
        let mut seen = None;
        if let Ok(Done::Patched(entry, witness)) = &done {
            let environment = entry.environment.as_ref();
            let found = Seen {
                zone: zone.clone(),
                witness: (**witness).clone(),
                packages: entry.packages.clone(),
                services: entry.services.clone(),
                environment: environment.and_then(|name| name.parse().ok()),
            };
            match share::unfit(&found) {
                Ok(None) => seen = Some(found),
                Ok(Some(text)) => why = Some(text),
                Err(error) => why = Some(flatten(&error)),
            }
        }
        let (tried, reported) = match (done, seen) {
            (Ok(done), Some(seen)) => (Tried::Fit(Box::new(Candidate { began, done, seen })), None),
            (Ok(Done::Unchanged), None) => (Tried::Unchanged, Some(Ok(Done::Unchanged))),
            (done @ Ok(_), None) => (Tried::Unfit, Some(done)),
            (done @ Err(_), _) => (Tried::Failed, Some(done)),
        };
        let step = lock_of(&self.queue).groups[number].enter(tried);
        // Another thread may take the next zone of the group now.
        self.changed.notify_all();
        if let Some(done) = reported {
            let (report, _) = self.activate(zone, &done, why);
            self.end(report, began);
        }
        match step {
            Step::Wait => {}
            Step::Judge(pair) => self.judge(number, *pair),
            Step::Report(candidates) => {
                for candidate in candidates {
                    self.conclude(candidate, None);
                }
            }
        }
    }

    /// Compares two patched zones. If their results are the same, both zones and all others of the
    /// group get a layer with it.
    fn judge(&self, number: usize, pair: [Candidate; 2]) {
        let (base, before) = {
            let queue = lock_of(&self.queue);
            let group = &queue.groups[number];
            (group.base.clone(), group.before.clone())
        };
        let judged = share::judge(
            self.patch,
            &base,
            &before,
            number,
            [&pair[0].seen, &pair[1].seen],
        );
        let shared = match judged {
            Ok(shared) => shared,
            Err(error) => {
                let why = flatten(&error);
                self.decide(number, Verdict::Refused(why.clone()));
                for candidate in pair {
                    self.conclude(candidate, Some(why.clone()));
                }
                return;
            }
        };
        let is_to_test = self.patch.running == Running::Environment(When::Now)
            && pair.iter().any(|one| one.seen.environment.is_some());
        let shared = Arc::new(shared);
        if !is_to_test {
            // No other zone waits for the remaining steps.
            self.decide(number, Verdict::Shared(Arc::clone(&shared)));
        }
        let (mut bad, mut tested) = (None, false);
        for candidate in pair {
            let zone = candidate.seen.zone.clone();
            let why = self.take_in(&shared, &candidate.seen);
            let (outcome, runs) = self.conclude(candidate, Some(why));
            tested |= runs;
            if outcome == Outcome::Failed && bad.is_none() {
                bad = Some(zone);
            }
        }
        if !is_to_test {
            return;
        }
        let why = match bad {
            None if tested => return self.decide(number, Verdict::Shared(shared)),
            None => "no zone was rebooted with the shared result".to_owned(),
            Some(zone) => format!("zone {zone} failed with the shared result"),
        };
        // The next call finds the leftover files.
        let _ = shared.let_go();
        self.decide(number, Verdict::Refused(why));
    }

    /// Makes a patched zone use the shared layer, and returns the reason for its report.
    fn take_in(&self, shared: &Shared, seen: &Seen) -> String {
        match shared.take_in(self.patch, seen) {
            Ok(_) => COMPARED.to_owned(),
            Err(error) => format!("it keeps a copy of its own: {}", flatten(&error)),
        }
    }

    fn decide(&self, number: usize, verdict: Verdict) {
        lock_of(&self.queue).groups[number].verdict = verdict;
        self.changed.notify_all();
    }

    /// Reboots a patched zone if the command asks for it, and reports the zone. Returns its result,
    /// and true if the zone runs with its patch.
    fn conclude(&self, candidate: Candidate, why: Option<String>) -> (Outcome, bool) {
        let zone = &candidate.seen.zone;
        let (report, runs) = self.activate(zone, &Ok(candidate.done), why);
        let outcome = report.outcome;
        self.end(report, candidate.began);
        (outcome, runs)
    }
}
