//! `zoneadm check`: lists leftovers of killed commands on the host.

use std::fmt::Write as _;

use host::{Host, flatten};
use lexopt::prelude::*;
use serde::Serialize;
use zone::check::{Finding, Kind};

use crate::call::Call;
use crate::{listing, usage};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    repair: bool,
    json: bool,
}

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
    let options = match parse(&call.rest) {
        Ok(Some(options)) => options,
        Ok(None) => return usage::print(Some("check")),
        Err(text) => return usage::complain(&text, Some("check")),
    };
    if !options.repair {
        cli::output::only_prints();
    }
    if !call.zones.is_empty() || call.uuid.is_some() {
        let text = "check takes no zone: it looks at the whole host";
        return usage::complain(text, Some("check"));
    }
    let refusal = match cli::current_zone() {
        Some(zone) => Some(format!("zone {zone} has no zones of its own")),
        None if !cli::is_root() => Some("only a privileged user may check the host.".to_owned()),
        None => None,
    };
    let done = match refusal {
        Some(text) => Err(text),
        None => cli::host(call.root.as_deref())
            .map_err(|error| error.to_string())
            .and_then(|host| check(&host, options)),
    };
    done.unwrap_or_else(|text| {
        eprintln!("zoneadm: {text}");
        cli::status::ERROR
    })
}

fn parse(words: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('r') => options.repair = true,
            Short('j') | Long("json") => options.json = true,
            Short('?' | 'h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(options))
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
        repaired(found, look()?)
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

/// Returns the findings with their fates: those that were found before and exist no more were
/// removed. Later findings are left, too.
fn repaired(before: Vec<Finding>, after: Vec<Finding>) -> Vec<Row> {
    let same = |a: &Finding, b: &Finding| (a.kind, &a.path) == (b.kind, &b.path);
    let removed = before
        .into_iter()
        .filter(|one| !after.iter().any(|other| same(one, other)))
        .map(|finding| Row {
            finding,
            state: Fate::Removed,
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
        let before = vec![layer, lost.clone(), socket];
        let rows = repaired(before, vec![lost]);
        assert_eq!(
            render(&rows, false),
            "KIND       ZONE             STATE   PATH\n\
             layer      -                removed /zones/.layers/a\n\
             lost       -                left    /zones/.layers/b/refs/dataset-c (/zones/old is not there)\n\
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

    #[test]
    fn options_are_few() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let both = Options {
            repair: true,
            json: true,
        };
        assert_eq!(parse(&words("-r -j")), Ok(Some(both)));
        assert_eq!(parse(&words("--help")), Ok(None));
        for wrong in ["-n", "web"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
