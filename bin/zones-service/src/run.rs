//! Carries out the command.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use host::{Host, flatten};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zone::service::{self, Done, Event, Survey, Tell};

use crate::args::{Action, Call};
use crate::progress::{Line, complain, say};
use crate::show::{self, Report};
use crate::slide;

/// Interval between redraws of the line on a terminal when nothing happens.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

pub fn run(call: &Call) -> u8 {
    let refusal = if let Some(zone) = cli::current_zone() {
        Some(format!("zone {zone} has no zones of its own"))
    } else if !cli::is_root() {
        let deed = match call.action {
            Action::Slide => "take snapshots of",
            Action::Start | Action::Stop => "start and stop",
        };
        Some(format!("only a privileged user may {deed} all zones."))
    } else {
        None
    };
    if let Some(text) = refusal {
        complain(&format!("zones-service: {text}"));
        return cli::status::ERROR;
    }
    if let Some(status) = cli::refuse_relative_root("zones-service", call.root.as_deref()) {
        return status;
    }
    let host = cli::host(call.root.as_deref()).map_err(|error| error.to_string());
    let done = host.and_then(|host| act(&host, call).map_err(|error| flatten(&error)));
    done.unwrap_or_else(|text| {
        complain(&format!("zones-service: {text}"));
        cli::status::ERROR
    })
}

fn act(host: &Host, call: &Call) -> Result<u8, host::Error> {
    let is_start = match call.action {
        Action::Start => true,
        Action::Stop => false,
        Action::Slide => return slide::run(host, call),
    };
    let survey = service::survey(host)?;
    let jobs = match is_start {
        true => service::plan::start(&survey.zones),
        false => service::plan::stop(&survey.zones),
    };
    if call.dry_run {
        say(show::plan(call, &jobs).trim_end());
        return Ok(cli::status::OK);
    }
    let damaged = tell_damaged(&survey);
    // A crash of the host may have cut off a patch: each zone boots as the old or the new one.
    if is_start {
        let left = patch::run::at_boot(host).unwrap_or_else(|error| vec![flatten(&error)]);
        for text in left {
            complain(&format!("zones-service: WARNING: {text}"));
        }
    }
    let done = match is_start {
        true => watched(call, jobs.len(), |tell| service::start(host, &jobs, tell)),
        false => {
            raise_limits();
            watched(call, jobs.len(), |tell| {
                service::stop(host, &jobs, call.patience, tell);
            })
        }
    };
    let (up, remarks) = match is_start {
        true => (Vec::new(), service::tidy(host)),
        false => (service::still_up(host)?, Vec::new()),
    };
    for remark in &remarks {
        complain(&format!("zones-service: WARNING: {remark}"));
    }
    for zone in &up {
        complain(&format!("zones-service: zone '{zone}': is still up"));
    }
    let report = Report {
        action: call.action,
        done: &done,
        up: &up,
        damaged,
    };
    say(&match call.json {
        true => report.json(),
        false => report.summary(),
    });
    Ok(report.status())
}

/// Prints the zones that cannot be started or stopped because their files are damaged. Returns the
/// number of these zones.
fn tell_damaged(survey: &Survey) -> usize {
    for (zone, error) in &survey.damaged {
        for line in cli::report::lines("zones-service", zone.as_str(), error) {
            complain(&line);
        }
    }
    survey.damaged.len()
}

/// Runs `work` in other threads, and reports its events in the calling thread.
fn watched(call: &Call, jobs: usize, work: impl FnOnce(Tell<'_>) + Send) -> Vec<Done> {
    let mut line = Line::new(call.action.as_str(), jobs, !call.json);
    let mut all = Vec::new();
    let (sender, events) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver ends only with this process.
            work(&|event| drop(sender.send(event)));
        });
        loop {
            match events.recv_timeout(REDRAW_INTERVAL) {
                Ok(Event::Begun(zone)) => line.begun(zone),
                Ok(Event::Done(done)) => {
                    line.done(&done.job.zone);
                    line.clear();
                    let (said, complaints) = show::done(&done);
                    if !call.json {
                        said.iter().for_each(|text| say(text));
                    }
                    complaints.iter().for_each(|text| complain(text));
                    line.draw();
                    all.push(done);
                }
                Err(RecvTimeoutError::Timeout) => line.draw(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    line.clear();
    all
}

/// Raises the limit of open files to its maximum: each zone that is waited for takes a few
/// descriptors.
fn raise_limits() {
    let limit = getrlimit(Resource::Nofile);
    // Should it not be allowed, threads that find none left say so.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
