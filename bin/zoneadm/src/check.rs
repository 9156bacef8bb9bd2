//! `zoneadm check`: lists leftovers of killed commands on the host.

use std::fmt::Write as _;

use host::{Host, flatten};
use serde::Serialize;
use zone::check::{Finding, Kind};

use crate::call::Call;
use crate::listing;
use crate::whole_host::{self, Options};

/// The fate of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Fate {
    Found,
    Removed,
    Left,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    #[serde(flatten)]
    finding: Finding,
    state: Fate,
}

pub fn run(call: &Call) -> u8 {
    whole_host::run(call, "check", "check the host", |options| {
        let host = cli::host(call.root.as_deref()).map_err(|error| error.to_string())?;
        check(&host, options)
    })
}

fn check(host: &Host, options: Options) -> Result<u8, String> {
    let look = || zone::check::look(host).map_err(|error| flatten(&error));
    let found = look()?;
    let mut failed = Vec::new();
    let rows = if options.repair && !found.is_empty() {
        if found.iter().any(|one| one.kind == Kind::Patch) {
            match patch::run::begin(host, None) {
                Ok((_at_work, left)) => failed.extend(left),
                Err(error) => failed.push(flatten(&error)),
            }
        }
        failed.extend(zone::check::repair(host).map_err(|error| flatten(&error))?);
        let is_there = |one: &Finding| host.root.path(&one.path).exists();
        repaired(found, look()?, is_there)
    } else {
        let rows = found.into_iter();
        rows.map(|finding| Row {
            finding,
            state: Fate::Found,
        })
        .collect()
    };
    for text in &failed {
        eprintln!("zoneadm: {text}");
    }
    print!("{}", render(&rows, options.json));
    let is_left = rows.iter().any(|row| row.state != Fate::Removed);
    Ok(match is_left || !failed.is_empty() {
        true => cli::status::ERROR,
        false => cli::status::OK,
    })
}

/// Returns the findings with their fates: findings of the first check that no longer exist were
/// removed. Findings that only the second check made are reported as left.
fn repaired(
    before: Vec<Finding>,
    after: Vec<Finding>,
    is_there: impl Fn(&Finding) -> bool,
) -> Vec<Row> {
    // Another command works now in a copy that is there and no longer a leftover.
    let is_in_use = |one: &Finding| one.kind == Kind::Copy && is_there(one);
    let same = |a: &Finding, b: &Finding| (a.kind, &a.path) == (b.kind, &b.path);
    let removed = before
        .into_iter()
        .filter(|one| !after.iter().any(|other| same(one, other)))
        .map(|finding| Row {
            state: match is_in_use(&finding) {
                true => Fate::Left,
                false => Fate::Removed,
            },
            finding,
        });
    let mut rows: Vec<Row> = removed.collect();
    rows.extend(after.into_iter().map(|finding| Row {
        finding,
        state: Fate::Left,
    }));
    rows.sort_by(|a, b| a.finding.cmp(&b.finding));
    rows
}

fn render(rows: &[Row], json: bool) -> String {
    if json {
        return listing::json(rows);
    }
    let mut text = String::new();
    if rows.is_empty() {
        return text;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<10} {:<16} {:<7} PATH", "KIND", "ZONE", "STATE");
    for Row { finding, state } in rows {
        let state = match state {
            Fate::Found => "found",
            Fate::Removed => "removed",
            Fate::Left => "left",
        };
        let kind = finding.kind.as_str();
        let zone = finding.zone.as_deref().unwrap_or("-");
        let path = finding.path.display().to_string();
        let path = path.replace(char::is_control, "?");
        let _ = write!(text, "{kind:<10} {zone:<16} {state:<7} {path}");
        let _ = match &finding.kept {
            Some(why) => writeln!(text, " ({why})"),
            None => writeln!(text),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: Kind, path: &str) -> Finding {
        Finding {
            kind,
            path: path.into(),
            zone: None,
            kept: None,
        }
    }

    #[test]
    fn the_report_lists_removed_and_kept_leftovers() {
        let layer = finding(Kind::Layer, "/zones/.layers/a");
        let lost = Finding {
            kept: Some("/zones/old is not there".into()),
            ..finding(Kind::Lost, "/zones/.layers/b/refs/dataset-c")
        };
        let socket = Finding {
            zone: Some("web".into()),
            ..finding(Kind::Record, "/run/zones/web.zoneadmd_sock")
        };
        let copy = finding(Kind::Copy, "/zones/.attach-db");
        let before = vec![layer, copy, lost.clone(), socket];
        let rows = repaired(before, vec![lost], |_| true);
        assert_eq!(
            render(&rows, false),
            "KIND       ZONE             STATE   PATH\n\
             layer      -                removed /zones/.layers/a\n\
             lost       -                left    /zones/.layers/b/refs/dataset-c (/zones/old is not there)\n\
             copy       -                left    /zones/.attach-db\n\
             record     web              removed /run/zones/web.zoneadmd_sock\n"
        );
        let json = render(&rows, true);
        for part in [
            "\"kind\": \"lost\"",
            "\"state\": \"left\"",
            "\"kept\": \"/zones/old is not there\"",
            "\"zone\": \"web\"",
        ] {
            assert!(json.contains(part), "{part}: {json}");
        }
        assert_eq!(render(&[], false), "");
        assert_eq!(render(&[], true), "[]\n");
    }
}
