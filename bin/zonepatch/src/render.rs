//! Formats the output.

use std::fmt::Write as _;

use cli::table::{Column, Table};
use patch::record::How;
use patch::report::Checked;
use patch::status::{Past, Row};
use patch::{Order, Outcome, Report};
use serde::Serialize;

/// Returns rows as JSON. Rows are plain data, so they always have a JSON form.
pub fn json<R: Serialize>(rows: &[R]) -> String {
    serde_json::to_string_pretty(rows).unwrap_or_default() + "\n"
}

/// Returns a whole run as JSON.
pub fn run(name: &str, order: &Order, parallel: usize, reports: &[Report]) -> String {
    let value = serde_json::json!({
        "patch": name,
        "order": order.to_string(),
        "parallel": parallel,
        "zones": reports,
    });
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

fn packages(count: usize) -> String {
    match count {
        1 => "1 package".to_owned(),
        _ => format!("{count} packages"),
    }
}

/// Returns the result of a zone, to be printed behind its name.
pub fn ended(report: &Report) -> String {
    let mut text = match report.outcome {
        Outcome::Patched => {
            let how = report.how.map_or("", How::as_str);
            format!(
                "{} {how}, {}, {:.1} s",
                report.outcome.as_str(),
                packages(report.packages.len()),
                report.seconds
            )
        }
        _ => report.outcome.as_str().to_owned(),
    };
    match report.health {
        None => {}
        Some(Checked::Passed) => text.push_str(", well"),
        Some(Checked::NotRun) => text.push_str(", health not checked"),
    }
    if let Some(why) = &report.reason {
        let _ = write!(text, " ({why})");
    }
    text
}

/// Returns the processes of a zone that still use replaced files; empty if there are none.
pub fn stale(report: &Report) -> String {
    let mut text = String::new();
    for process in &report.stale {
        let files = match process.files.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [one, more @ ..] => format!("{one} and {} more", more.len()),
        };
        let _ = writeln!(
            text,
            "\t{} ({}) goes on with the former {files}",
            process.name, process.pid
        );
    }
    text
}

/// Returns the planned action for a zone.
pub fn planned(report: &Report) -> String {
    let zone = &report.zone;
    if report.outcome != Outcome::Patched {
        return format!("{zone}: {}\n", ended(report));
    }
    let mut text = format!("{zone}: {}\n", packages(report.packages.len()));
    for change in &report.packages {
        let _ = writeln!(text, "\t{change}");
    }
    text
}

/// Returns the last line of the output of a run.
pub fn summary(name: &str, reports: &[Report], plan: bool) -> String {
    let count = |outcome| reports.iter().filter(|one| one.outcome == outcome).count();
    let shared = reports.iter().filter(|one| one.how == Some(How::Shared));
    let mut text = match plan {
        true => format!(
            "{} of {} zones to patch",
            count(Outcome::Patched),
            reports.len()
        ),
        false => format!(
            "patch {name}: {} of {} zones patched",
            count(Outcome::Patched),
            reports.len()
        ),
    };
    match shared.count() {
        0 => {}
        shared => text.push_str(&format!(" ({shared} shared)")),
    }
    for outcome in [Outcome::Unchanged, Outcome::Skipped, Outcome::Failed] {
        match count(outcome) {
            0 => {}
            some => text.push_str(&format!(", {some} {}", outcome.as_str())),
        }
    }
    text
}

/// Returns the table of `status`.
pub fn status(rows: &[Row]) -> String {
    let mut table = Table::new([
        Column::left("ZONE", 16),
        Column::left("STATE", 11),
        Column::right("PACKAGES", 8),
        Column::left("KIND", 8),
        Column::left("PATCH", 20),
        Column::left("HOW", 8),
        Column::left("NOTES", 0),
    ]);
    for row in rows {
        let mut notes = row.problems.clone();
        notes.extend(behind(row));
        if !row.held.is_empty() {
            notes.push(format!("held: {}", row.held.join(" ")));
        }
        // Some package managers do not report a count.
        let packages = match row.packages {
            0 => "-".to_owned(),
            count => count.to_string(),
        };
        let kind = row.fingerprint.as_deref().and_then(|text| text.get(..8));
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            row.zone.to_string(),
            row.state.to_string(),
            packages,
            kind.unwrap_or("-").to_owned(),
            or_dash(&row.patch),
            or_dash(&row.how),
            notes.join("; "),
        ]);
    }
    table.render()
}

/// Returns the updates of the host that a sparse zone does not have yet.
fn behind(row: &Row) -> Option<String> {
    let packages = match row.behind {
        0 => return None,
        1 => "1 package is".to_owned(),
        count => format!("{count} packages are"),
    };
    let since = row.host_changed.map(cli::units::utc);
    let since = since.map_or_else(String::new, |at| format!(", which changed {at}"));
    Some(format!(
        "sparse, and {packages} not as on the host{since}: apply brings it there"
    ))
}

/// Returns the table of `history`.
pub fn history(rows: &[Past]) -> String {
    let mut table = Table::new([
        Column::left("ZONE", 16),
        Column::left("PATCH", 20),
        Column::left("WHEN", 20),
        Column::left("HOW", 7),
        Column::left("STANDING", 12),
        Column::right("PACKAGES", 8),
        Column::left("ORDER", 0),
    ]);
    for row in rows {
        let entry = &row.entry;
        table.row(vec![
            row.zone.to_string(),
            entry.patch.to_string(),
            cli::units::utc(entry.at),
            entry.how.as_str().to_owned(),
            entry.standing.as_str().to_owned(),
            entry.packages.len().to_string(),
            entry.order.to_string(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use patch::Change;
    use patch::stale::Stale;

    fn report(outcome: Outcome, how: Option<How>, reason: Option<&str>) -> Report {
        Report {
            zone: "web".into(),
            outcome,
            how,
            reason: reason.map(str::to_owned),
            packages: vec![Change {
                package: "a".into(),
                architecture: "all".into(),
                from: Some("1".into()),
                to: Some("2".into()),
            }],
            services: Vec::new(),
            seconds: 1.25,
            snapshot: None,
            log: None,
            health: None,
            stale: Vec::new(),
        }
    }

    #[test]
    fn stages_results_and_stale_processes_are_named() {
        let mut live = report(Outcome::Patched, Some(How::Live), None);
        live.health = Some(Checked::Passed);
        live.stale = vec![Stale {
            pid: 12,
            name: "nginx".into(),
            files: vec!["/usr/sbin/nginx".into(), "/usr/lib/libssl.so".into()],
        }];
        assert_eq!(ended(&live), "patched live, 1 package, 1.2 s, well");
        assert_eq!(
            stale(&live),
            "\tnginx (12) goes on with the former /usr/sbin/nginx and 1 more\n"
        );
    }

    #[test]
    fn each_zone_has_a_line_before_the_summary() {
        let real = report(
            Outcome::Patched,
            Some(How::Real),
            Some("/etc/x was changed in this zone"),
        );
        assert_eq!(
            ended(&real),
            "patched real, 1 package, 1.2 s (/etc/x was changed in this zone)"
        );
        assert_eq!(planned(&real), "web: 1 package\n\ta 1 -> 2\n");
        let shared = report(Outcome::Patched, Some(How::Shared), None);
        let failed = report(Outcome::Failed, None, Some("x"));
        assert_eq!(
            summary("p", &[real, shared, failed], false),
            "patch p: 2 of 3 zones patched (1 shared), 1 failed"
        );
        assert_eq!(summary("p", &[], true), "0 of 0 zones to patch");
    }

    #[test]
    fn a_run_is_one_object() {
        let text = run(
            "p",
            &Order::Security,
            2,
            &[report(Outcome::Skipped, None, None)],
        );
        for part in [
            "\"patch\": \"p\"",
            "\"order\": \"security\"",
            "\"outcome\": \"skipped\"",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
