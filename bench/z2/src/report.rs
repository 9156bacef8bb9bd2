//! Writes the tables in Markdown.

use std::fmt::Write;

use crate::results::{FleetRow, Results};

pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n", results.host);
    times(&mut out, &results.fleets);
    ends(&mut out, &results.fleets);
    costs(&mut out, &results.fleets);
    shared(&mut out, results);
    copy_up(&mut out, results);
    if !results.skipped.is_empty() {
        out.push_str("### Not measured here\n\n");
        for skipped in &results.skipped {
            let _ = writeln!(
                out,
                "- {}: {}",
                skipped.what,
                skipped.why.replace('\n', " ")
            );
        }
        out.push('\n');
    }
    out
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// Returns the time that a zone needs from its creation until it runs.
pub fn up(row: &FleetRow) -> f64 {
    row.clone.unwrap_or(0.0) + row.boot.unwrap_or(0.0)
}

fn times(out: &mut String, fleets: &[FleetRow]) {
    out.push_str("### Time per zone in a fleet\n\nms: wall time of the whole fleet by its zones; boot and halt: the middle of three\n\n");
    out.push_str("| | zones | given as | clone | boot | halt | remove | clone + boot, times ours |\n|---|--:|---|--:|--:|--:|--:|--:|\n");
    let ours = fleets.first().map(|row| row.tool.as_str());
    for row in fleets {
        // Compare with our fleet of the nearest size.
        let equal = fleets
            .iter()
            .filter(|other| Some(other.tool.as_str()) == ours)
            .min_by_key(|other| other.zones.abs_diff(row.zones));
        let ratio = equal.map(|equal| up(row) / up(equal));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.tool,
            row.zones,
            row.given,
            cell(row.clone),
            cell(row.boot),
            cell(row.halt),
            cell(row.remove),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}"))
        );
    }
    out.push('\n');
}

fn ends(out: &mut String, fleets: &[FleetRow]) {
    let with: Vec<_> = fleets
        .iter()
        .filter_map(|row| row.singles.as_ref().map(|singles| (row, singles)))
        .collect();
    if with.is_empty() {
        return;
    }
    out.push_str("### The first and the last hundred zones\n\nmedian of single commands, ms\n\n");
    out.push_str("| zones | | clone | boot | halt | remove |\n|--:|---|--:|--:|--:|--:|\n");
    for (row, singles) in with {
        let steps = [singles.clone, singles.boot, singles.halt, singles.remove];
        for (slot, name) in ["first", "last"].into_iter().enumerate() {
            let cells: Vec<_> = steps
                .iter()
                .map(|ends| format!("{:.2}", ends[slot]))
                .collect();
            let _ = writeln!(
                out,
                "| {} | {name} 100 | {} |",
                row.zones,
                cells.join(" | ")
            );
        }
        let cells: Vec<_> = steps.iter().map(|[a, b]| format!("{:.2}", b / a)).collect();
        let _ = writeln!(
            out,
            "| {} | last : first | {} |",
            row.zones,
            cells.join(" | ")
        );
    }
    out.push('\n');
}

fn costs(out: &mut String, fleets: &[FleetRow]) {
    out.push_str("### Disk, memory, idle processor time\n\nKiB per zone; processor time: % of one core, all zones together\n\n");
    out.push_str("| | zones | disk | disk after 3 boots | processes (PSS) | slab | stacks | page tables | percpu | files in /run | memory in all | idle CPU % |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for row in fleets.iter().filter(|row| row.processes > 0.0) {
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.3} |",
            row.tool,
            row.zones,
            row.disk,
            row.disk_after_boots,
            row.processes,
            row.slab,
            row.stacks,
            row.page_tables,
            row.percpu,
            row.files,
            row.memory(),
            row.idle_cpu_percent
        );
    }
    out.push('\n');
}

fn shared(out: &mut String, results: &Results) {
    if results.shared.is_empty() {
        return;
    }
    out.push_str("### One program of 20 MB running in every zone\n\nMiB in sum\n\n| | zones | RSS | PSS | PSS per zone |\n|---|--:|--:|--:|--:|\n");
    for row in &results.shared {
        let each = row.pss_mib / row.zones as f64;
        let (tool, zones) = (&row.tool, row.zones);
        let _ = writeln!(
            out,
            "| {tool} | {zones} | {:.0} | {:.1} | {each:.2} |",
            row.rss_mib, row.pss_mib
        );
    }
    out.push('\n');
}

fn copy_up(out: &mut String, results: &Results) {
    if results.copy_up.is_empty() {
        return;
    }
    out.push_str("### 4 KiB written into a big file, synced\n\nms, zlogin and dd with it\n\n");
    out.push_str("| zonepath on | file, MiB | before a snapshot | first after it | second after it | disk taken, MiB |\n|---|--:|--:|--:|--:|--:|\n");
    for row in &results.copy_up {
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            row.filesystem,
            row.file_mib,
            row.before_snapshot_ms,
            row.first_after_ms,
            row.second_after_ms,
            row.disk_mib
        );
    }
    out.push('\n');
}
