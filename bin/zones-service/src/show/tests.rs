use std::time::Duration;

use host::Error;
use insta::assert_snapshot;
use model::config::BootPriority;
use zone::service::Patience;

use super::*;

fn job(zone: &str, deed: Deed) -> Job {
    Job {
        zone: zone.parse().unwrap(),
        deed,
        wave: BootPriority::Normal,
    }
}

fn over(zone: &str, deed: Deed, end: End) -> Done {
    Done {
        job: job(zone, deed),
        end,
        took: Duration::from_millis(125),
    }
}

fn call(action: Action, json: bool) -> Call {
    Call {
        action,
        root: None,
        dry_run: true,
        json,
        patience: Patience::new(Duration::from_secs(10)),
        now: None,
    }
}

/// Returns the printed lines in order; lines for standard error are marked.
fn printed(all: &[Done]) -> String {
    let mut text = String::new();
    for one in all {
        let (said, complaints) = done(one);
        said.iter()
            .for_each(|line| writeln!(text, "{line}").unwrap());
        let complaints = complaints.iter();
        complaints.for_each(|line| writeln!(text, "! {line}").unwrap());
    }
    text
}

fn started() -> Vec<Done> {
    let remark = "nothing on this host matches /dev/x".to_owned();
    vec![
        over("dead", Deed::Clear, End::Well(Vec::new())),
        over("up", Deed::Adopt, End::Well(Vec::new())),
        over("web1", Deed::Boot, End::Well(vec![remark])),
        over("web2", Deed::Boot, End::Already),
        over("vm", Deed::Resume, End::Well(Vec::new())),
        over(
            "bad",
            Deed::Boot,
            End::Failed(Error::Verify(vec!["could not verify fs /x".to_owned()])),
        ),
        over(
            "half",
            Deed::Complain,
            End::Failed(Error::Refused(
                "zone is incomplete; uninstall required.".to_owned(),
            )),
        ),
    ]
}

fn stopped() -> Vec<Done> {
    vec![
        over("web1", Deed::Shutdown, End::Well(Vec::new())),
        over("web2", Deed::Halt, End::Well(Vec::new())),
        over("web3", Deed::Shutdown, End::Already),
        over("vm", Deed::Suspend, End::Well(Vec::new())),
        over(
            "deaf",
            Deed::Shutdown,
            End::Forced("was not down after 7.5 s".to_owned()),
        ),
        over(
            "stuck",
            Deed::Shutdown,
            End::Failed(Error::Daemon(
                "halt takes longer than 3 s; try again.".to_owned(),
            )),
        ),
    ]
}

#[test]
fn a_plan_is_shown() {
    let mut jobs = vec![
        job("dns", Deed::Boot),
        job("web1", Deed::Boot),
        job("vm", Deed::Resume),
    ];
    jobs[0].wave = BootPriority::High;
    assert_snapshot!(plan(&call(Action::Start, false), &jobs));
    assert_snapshot!(plan(&call(Action::Start, true), &jobs));
    let jobs = [job("web1", Deed::Shutdown), job("vm", Deed::Suspend)];
    assert_snapshot!(plan(&call(Action::Stop, false), &jobs));
    assert_snapshot!(plan(&call(Action::Stop, false), &[]));
}

#[test]
fn a_start_is_told() {
    let all = started();
    let report = Report {
        action: Action::Start,
        done: &all,
        up: &[],
        damaged: 1,
    };
    assert_snapshot!(format!("{}{}\n", printed(&all), report.summary()));
    assert_eq!(report.status(), cli::status::ERROR);
    assert_snapshot!(report.json());
    let well = Report {
        done: &all[..5],
        damaged: 0,
        ..report
    };
    assert_eq!(well.status(), cli::status::OK);
}

#[test]
fn a_stop_is_told() {
    let all = stopped();
    let up = ["stuck".parse().unwrap()];
    let report = Report {
        action: Action::Stop,
        done: &all,
        up: &up,
        damaged: 0,
    };
    assert_snapshot!(format!("{}{}\n", printed(&all), report.summary()));
    assert_eq!(report.status(), cli::status::ERROR);
    assert_snapshot!(report.json());
    let nothing = Report {
        action: Action::Stop,
        done: &[],
        up: &[],
        damaged: 0,
    };
    assert_eq!(nothing.summary(), "zones-service: stop: nothing to do");
    assert_eq!(nothing.status(), cli::status::OK);
}
