//! Prints a line for each zone, and a summary.

use std::fmt::Write as _;

use model::ZoneName;
use serde_json::{Value, json};
use zone::service::{Deed, Done, End, Job};

use crate::args::{Action, Call};

/// Returns the output of a dry run.
pub fn plan(call: &Call, jobs: &[Job]) -> String {
    let action = call.action.as_str();
    if call.json {
        let jobs: Vec<Value> = jobs
            .iter()
            .map(|job| {
                let mut one = json!({ "zone": job.zone, "deed": job.deed });
                if matches!(job.deed, Deed::Boot | Deed::Resume) {
                    one["boot-priority"] = job.wave.as_str().into();
                }
                one
            })
            .collect();
        return json!({ "action": action, "jobs": jobs }).to_string();
    }
    let mut text = match call.action {
        Action::Start | Action::Slide => format!("{action}:\n"),
        Action::Stop => format!(
            "{action} within {} s, by halt after {} s:\n",
            call.patience.all().as_secs_f32(),
            call.patience.clean().as_secs_f32()
        ),
    };
    for job in jobs {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {job}");
    }
    if jobs.is_empty() {
        text.push_str("  nothing to do\n");
    }
    text
}

/// Returns the result of a job in a few words.
fn result(deed: Deed, end: &End) -> &'static str {
    match (end, deed) {
        (End::Failed(_), _) => "failed",
        (End::Forced(_), _) => "halted",
        (End::Already, Deed::Boot | Deed::Resume) => "already booted",
        (End::Already, Deed::Shutdown | Deed::Suspend | Deed::Halt) => "already down",
        (_, Deed::Boot) => "booted",
        (_, Deed::Resume) => "resumed",
        (_, Deed::Adopt) => "has a zoneadmd again",
        (_, Deed::Clear) => "cleaned up after a crash",
        (_, Deed::Complain) => "failed",
        (_, Deed::Shutdown) => "shut down",
        (_, Deed::Suspend) => "suspended",
        (_, Deed::Halt) => "halted",
    }
}

fn warnings(end: &End) -> Vec<String> {
    match end {
        End::Well(remarks) => remarks.clone(),
        End::Forced(why) => vec![format!("{why}, so it was halted")],
        End::Already | End::Failed(_) => Vec::new(),
    }
}

/// Returns the messages about a finished job: for standard output, and for standard error.
pub fn done(done: &Done) -> (Option<String>, Vec<String>) {
    let zone = &done.job.zone;
    if let End::Failed(error) = &done.end {
        return (
            None,
            cli::report::lines("zones-service", zone.as_str(), error),
        );
    }
    let said = format!("zone '{zone}': {}", result(done.job.deed, &done.end));
    let warned = warnings(&done.end).into_iter();
    let warned = warned.map(|text| format!("zones-service: zone '{zone}': WARNING: {text}"));
    (Some(said), warned.collect())
}

/// The summary of a run.
pub struct Report<'a> {
    pub action: Action,
    pub done: &'a [Done],
    /// Zones that still run after a stop.
    pub up: &'a [ZoneName],
    /// The number of zones that could not be started or stopped.
    pub damaged: usize,
}

/// The results that a summary counts, in its order.
const COUNTED: [&str; 10] = [
    "cleaned up after a crash",
    "has a zoneadmd again",
    "booted",
    "resumed",
    "already booted",
    "shut down",
    "suspended",
    "halted",
    "already down",
    "failed",
];

impl Report<'_> {
    /// Returns the exit status.
    pub fn status(&self) -> u8 {
        let failed = self.done.iter().any(|done| done.end.is_failure());
        match failed || !self.up.is_empty() || self.damaged > 0 {
            true => cli::status::ERROR,
            false => cli::status::OK,
        }
    }

    /// Returns the summary line.
    pub fn summary(&self) -> String {
        let count = |wanted: &str| {
            let results = self.done.iter().map(|one| result(one.job.deed, &one.end));
            match wanted {
                "failed" => results.filter(|one| *one == wanted).count() + self.damaged,
                _ => results.filter(|one| *one == wanted).count(),
            }
        };
        let counted = COUNTED.iter().map(|wanted| (count(wanted), *wanted));
        let up = [(self.up.len(), "still up")];
        let parts: Vec<String> = counted
            .chain(up)
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let text = match parts.as_slice() {
            [] => "nothing to do".to_owned(),
            parts => parts.join(", "),
        };
        format!("zones-service: {}: {text}", self.action.as_str())
    }

    /// Returns the whole report as JSON for programs.
    pub fn json(&self) -> String {
        let zones: Vec<Value> = self
            .done
            .iter()
            .map(|done| {
                let error = match &done.end {
                    End::Failed(error) => Some(host::flatten(error)),
                    _ => None,
                };
                json!({
                    "zone": done.job.zone,
                    "deed": done.job.deed,
                    "result": result(done.job.deed, &done.end),
                    "warnings": warnings(&done.end),
                    "error": error,
                    "seconds": done.took.as_secs_f64(),
                })
            })
            .collect();
        json!({
            "action": self.action.as_str(),
            "status": self.status(),
            "zones": zones,
            "still-up": self.up,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests;
