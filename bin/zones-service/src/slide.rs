//! `zones-service slide`: takes and removes automatic snapshots, and reports each zone.

use std::sync::mpsc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use host::{Error, Host, flatten};
use serde_json::{Value, json};
use zone::slide::{self, End, Move, Removal, Shown};

use crate::args::Call;
use crate::progress::{complain, say};

pub fn run(host: &Host, call: &Call) -> Result<u8, Error> {
    let now = call.now.unwrap_or_else(clock);
    if call.dry_run {
        let mut host = host.clone();
        host.plan_only = true;
        return planned(&host, call, now);
    }
    let (sender, ends) = mpsc::channel();
    let (ran, all) = thread::scope(|scope| {
        let work = scope.spawn(move || {
            // The receiver ends only with this process.
            slide::run(host, now, &|end| drop(sender.send(end)))
        });
        let mut all = Vec::new();
        for end in ends {
            let (said, complaints) = lines(&end);
            if !call.json {
                said.iter().for_each(|text| say(text));
            }
            complaints.iter().for_each(|text| complain(text));
            all.push(end);
        }
        (work.join(), all)
    });
    match ran {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => {
            complain("zones-service: slide: another run is under way, nothing to do");
            return Ok(cli::status::OK);
        }
        Ok(Err(error)) => return Err(error),
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let status = status(&all);
    say(&match call.json {
        true => json(&all, status),
        false => summary(&all),
    });
    Ok(status)
}

fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Prints the output of a dry run.
fn planned(host: &Host, call: &Call, now: u64) -> Result<u8, Error> {
    let survey = slide::survey(host)?;
    let moves = slide::planned(&survey, now);
    for (zone, why) in &survey.skipped {
        complain(&format!("zones-service: zone '{zone}': skipped: {why}"));
    }
    for (zone, error) in &survey.damaged {
        for line in cli::report::lines("zones-service", zone.as_str(), error) {
            complain(&line);
        }
    }
    say(match call.json {
        true => json!({ "action": "slide", "jobs": moves.iter().map(shown).collect::<Vec<_>>() })
            .to_string(),
        false => plan(&moves),
    }
    .trim_end());
    Ok(match survey.damaged.is_empty() {
        true => cli::status::OK,
        false => cli::status::ERROR,
    })
}

fn shown(one: &Move) -> Value {
    match one {
        Move::Merge(zone) => json!({ "zone": zone, "deed": "merge" }),
        Move::Take(zone, name) => {
            json!({ "zone": zone, "deed": "take", "snapshot": name.to_string() })
        }
        Move::Remove(Removal { zone, name, why }) => json!({
            "zone": zone, "deed": "remove", "snapshot": name.to_string(), "why": why.to_string(),
        }),
    }
}

fn plan(moves: &[Move]) -> String {
    let mut text = "slide:\n".to_owned();
    for one in moves {
        text.push_str(&match one {
            Move::Merge(zone) => format!("  merge the files below the disks of zone {zone}\n"),
            Move::Take(zone, name) => format!("  take snapshot {name} of zone {zone}\n"),
            Move::Remove(Removal { zone, name, why }) => {
                format!("  remove snapshot {name} of zone {zone}: {why}\n")
            }
        });
    }
    if moves.is_empty() {
        text.push_str("  nothing to do\n");
    }
    text
}

/// Returns the lines about a zone: for standard output, and for standard error.
fn lines(end: &End) -> (Vec<String>, Vec<String>) {
    let zone = &end.zone;
    let taken = end.taken.iter().map(|name| format!("took {name}"));
    let removed = end.removed.iter();
    let removed = removed.map(|one| format!("removed {}: {}", one.name, one.why));
    let said = taken.chain(removed);
    let said = said.map(|text| format!("zone '{zone}': {text}")).collect();
    let mut complaints: Vec<String> = Vec::new();
    if let Some(why) = &end.skipped {
        complaints.push(format!("zones-service: zone '{zone}': skipped: {why}"));
    }
    if let Some(error) = &end.failed {
        complaints.extend(cli::report::lines("zones-service", zone.as_str(), error));
    }
    (said, complaints)
}

fn status(ends: &[End]) -> u8 {
    match ends.iter().any(|end| end.failed.is_some()) {
        true => cli::status::ERROR,
        false => cli::status::OK,
    }
}

fn summary(ends: &[End]) -> String {
    let counted = [
        (
            ends.iter().filter(|end| end.taken.is_some()).count(),
            "taken",
        ),
        (ends.iter().map(|end| end.removed.len()).sum(), "removed"),
        (
            ends.iter().filter(|end| end.skipped.is_some()).count(),
            "skipped",
        ),
        (
            ends.iter().filter(|end| end.failed.is_some()).count(),
            "failed",
        ),
    ];
    let parts: Vec<String> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let text = match parts.as_slice() {
        [] => "nothing to do".to_owned(),
        parts => parts.join(", "),
    };
    format!("zones-service: slide: {text}")
}

fn json(ends: &[End], status: u8) -> String {
    let zones: Vec<Value> = ends
        .iter()
        .map(|end| {
            json!({
                "zone": end.zone,
                "taken": end.taken.as_ref().map(ToString::to_string),
                "removed": end.removed.iter().map(Shown::from).collect::<Vec<_>>(),
                "skipped": end.skipped,
                "error": end.failed.as_ref().map(|error| flatten(error)),
            })
        })
        .collect();
    json!({ "action": "slide", "status": status, "zones": zones }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zone::slide::Why;

    fn end(zone: &str) -> End {
        End {
            zone: zone.parse().unwrap(),
            taken: None,
            removed: Vec::new(),
            skipped: None,
            failed: None,
        }
    }

    fn removal(zone: &str) -> Removal {
        Removal {
            zone: zone.parse().unwrap(),
            name: "auto-hourly-20261124T090000Z".parse().unwrap(),
            why: Why::Full(80),
        }
    }

    #[test]
    fn each_zone_is_told_and_counted() {
        let ends = [
            End {
                taken: Some("auto-daily-20261125T000000Z".parse().unwrap()),
                removed: vec![removal("web")],
                ..end("web")
            },
            End {
                skipped: Some("zone is mounted".to_owned()),
                ..end("db")
            },
            End {
                failed: Some(Error::Refused("has no root.".to_owned())),
                ..end("dns")
            },
        ];
        let told: Vec<_> = ends.iter().map(lines).collect();
        assert_eq!(
            told[0].0,
            [
                "zone 'web': took auto-daily-20261125T000000Z",
                "zone 'web': removed auto-hourly-20261124T090000Z: its disk is 80 % full or more",
            ]
        );
        assert_eq!(
            told[1].1,
            ["zones-service: zone 'db': skipped: zone is mounted"]
        );
        assert_eq!(told[2].1, ["zones-service: zone 'dns': has no root."]);
        assert_eq!(
            summary(&ends),
            "zones-service: slide: 1 taken, 1 removed, 1 skipped, 1 failed"
        );
        assert_eq!(status(&ends), 1);
        assert_eq!(status(&ends[..2]), 0);
        assert_eq!(summary(&[]), "zones-service: slide: nothing to do");
        let json: Value = serde_json::from_str(&json(&ends, 1)).unwrap();
        assert_eq!(json["zones"][0]["taken"], "auto-daily-20261125T000000Z");
        assert_eq!(json["zones"][1]["skipped"], "zone is mounted");
    }

    #[test]
    fn a_plan_names_each_snapshot() {
        let moves = [
            Move::Remove(removal("web")),
            Move::Merge("web".parse().unwrap()),
            Move::Take(
                "web".parse().unwrap(),
                "auto-daily-20261125T000000Z".parse().unwrap(),
            ),
        ];
        assert_eq!(
            plan(&moves),
            "slide:\n  remove snapshot auto-hourly-20261124T090000Z of zone web: its disk is 80 % full or more\n  merge the files below the disks of zone web\n  take snapshot auto-daily-20261125T000000Z of zone web\n"
        );
        assert_eq!(plan(&[]), "slide:\n  nothing to do\n");
    }
}
