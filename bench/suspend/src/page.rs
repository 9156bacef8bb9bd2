//! Writes the tables of the page.

use std::fmt::Write;

use crate::figures::{Engine, Figures, Row};

/// A target: its label, the row with its figure, the value of the target, and whether less is
/// better.
struct Goal {
    what: &'static str,
    row: Source,
    least: f64,
    unit: &'static str,
}

enum Source {
    Ratio(&'static str),
    Rate(&'static str),
    Zone(&'static str),
}

const GOALS: [Goal; 9] = [
    Goal {
        what: "adaptive, of the slower of disk and memory",
        row: Source::Ratio("adaptive / slower of disk and memory"),
        least: 0.85,
        unit: "",
    },
    Goal {
        what: "lz4, sealed, all threads",
        row: Source::Rate("save lz4, {} thr, unsynced"),
        least: 1500.0,
        unit: "MB/s",
    },
    Goal {
        what: "lz4, all threads / one thread",
        row: Source::Ratio("lz4, all threads / one thread"),
        least: 1.8,
        unit: "",
    },
    Goal {
        what: "adaptive / QEMU through zstd -T0, synced",
        row: Source::Ratio("adaptive / QEMU zstd -T0, synced"),
        least: 3.0,
        unit: "",
    },
    Goal {
        what: "guest runs after cont",
        row: Source::Zone("lazy resume, cont to first sign of the guest"),
        least: 100.0,
        unit: "ms",
    },
    Goal {
        what: "guest runs after cont, against QEMU's -incoming",
        row: Source::Zone("lazy resume / QEMU's -incoming, cont to first sign"),
        least: 1.2,
        unit: "times",
    },
    Goal {
        what: "guest runs after zoneadm boot begins",
        row: Source::Zone("lazy resume, boot to first sign of the guest"),
        least: 250.0,
        unit: "ms",
    },
    Goal {
        what: "memory complete",
        row: Source::Zone("lazy resume, memory complete"),
        least: 1500.0,
        unit: "MB/s",
    },
    Goal {
        what: "clone of a kernel zone",
        row: Source::Zone("clone"),
        least: 20.0,
        unit: "ms",
    },
];

/// Returns the text between the marks of the page.
pub fn tables(figures: &Figures) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} Every round is in [suspend.json](suspend.json).\n\n![Rates](suspend.svg)\n",
        figures.host
    );
    for left in &figures.left_out {
        let _ = writeln!(text, "Not measured: {left}.\n");
    }
    goals(&mut text, figures);
    for engine in &figures.engines {
        one_size(&mut text, engine);
    }
    zone(&mut text, &figures.zone);
    text
}

fn goals(text: &mut String, figures: &Figures) {
    let _ = writeln!(
        text,
        "## Targets\n\n| | memory | goal | median | worst | |\n|---|---|---|---|---|---|"
    );
    for goal in &GOALS {
        let mut line = |size: &str, row: &Row| {
            let median = row.median();
            let less_is_better = matches!(goal.unit, "ms" | "times");
            let reached = match less_is_better {
                true => median <= goal.least,
                false => median >= goal.least,
            };
            let sign = if less_is_better { "≤" } else { "≥" };
            let show = |value| number(value, goal.unit);
            let _ = writeln!(
                text,
                "| {} | {size} | {sign} {} {} | {} | {} | {} |",
                goal.what,
                show(goal.least),
                goal.unit,
                show(median),
                show(row.worst()),
                if reached {
                    "reached"
                } else {
                    "**not reached**"
                }
            );
        };
        if let Source::Zone(name) = goal.row {
            if let Some(row) = figures.zone.iter().find(|row| row.name == name) {
                line("1 GiB zone", row);
            }
            continue;
        }
        for engine in &figures.engines {
            let row = match goal.row {
                Source::Ratio(name) => engine.ratio(name),
                Source::Rate(name) => engine.row(&all_threads(engine, name)),
                Source::Zone(_) => None,
            };
            if let Some(row) = row {
                line(&format!("{} GiB", engine.gib()), row);
            }
        }
    }
}

fn all_threads(engine: &Engine, name: &str) -> String {
    name.replace("{}", &engine.measured.threads.to_string())
}

/// Writes a table of rows whose names are composed of the words in its head. Each cell has the
/// median and, in brackets, the worst value.
fn table(text: &mut String, engine: &Engine, head: &[&str], rows: &[(&str, Vec<String>)]) {
    let _ = writeln!(
        text,
        "| | {} |\n|---|{}",
        head.join(" | "),
        "---|".repeat(head.len())
    );
    for (name, cells) in rows {
        let cells: Vec<String> = cells.iter().map(|cell| shown(engine.row(cell))).collect();
        if cells.iter().any(|cell| cell != "–") {
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
    }
    let _ = writeln!(text);
}

fn shown(row: Option<&Row>) -> String {
    row.map_or_else(
        || "–".to_owned(),
        |row| {
            format!(
                "{} ({})",
                number(row.median(), &row.unit),
                number(row.worst(), &row.unit)
            )
        },
    )
}

fn one_size(text: &mut String, engine: &Engine) {
    let all = engine.measured.threads;
    let _ = writeln!(
        text,
        "\n## {} GiB of memory, {} MB of it not zeros\n",
        engine.gib(),
        engine.measured.nonzero_bytes / 1_000_000
    );
    let of = |name: &str| {
        (1..=all)
            .filter(|threads| *threads == 1 || *threads == all)
            .map(|threads| format!("{name}, {threads} thr"))
            .collect::<Vec<_>>()
    };
    let threads = match all {
        1 => vec!["1 thread".to_owned()],
        _ => vec!["1 thread".to_owned(), format!("{all} threads")],
    };
    let _ = writeln!(text, "Limits of the host, MB/s:\n");
    let head: Vec<&str> = threads.iter().map(String::as_str).collect();
    let roofline = [
        ("copy of memory", "roofline memory copy"),
        ("zeros looked for", "roofline zero scan"),
        ("AES-256-GCM", "roofline AES-256-GCM"),
        ("lz4", "roofline lz4"),
        ("new memory", "roofline new memory"),
        ("disk", "roofline disk"),
        ("disk, synced", "roofline disk, synced"),
        ("disk, read", "roofline disk, read"),
    ];
    let rows: Vec<_> = roofline.map(|(name, row)| (name, of(row))).into();
    table(text, engine, &head, &rows);

    let _ = writeln!(text, "Suspend, MB/s of memory without zeros:\n");
    let mut head: Vec<String> = Vec::new();
    for threads in &threads {
        head.extend([
            format!("{threads}, without fsync"),
            format!("{threads}, with"),
        ]);
    }
    head.extend([
        "as stored, with fsync".to_owned(),
        "a second of CPU".to_owned(),
    ]);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let save = |name: &str| {
        let mut cells = Vec::new();
        for row in of(name) {
            cells.extend([format!("{row}, unsynced"), row]);
        }
        let last = format!("{name}, {all} thr");
        cells.extend([format!("{last}, as stored"), format!("{last}, a CPU")]);
        cells
    };
    let qemu = |name: &str| {
        let mut cells = vec![String::new(); 2 * (threads.len() - 1)];
        cells.extend([
            format!("QEMU {name}, unsynced"),
            format!("QEMU {name}"),
            format!("QEMU {name}, as stored"),
            String::new(),
        ]);
        cells
    };
    let rows = [
        ("adaptive", save("save adaptive")),
        ("adaptive, no io_uring", save("save adaptive, plain")),
        ("raw", save("save raw")),
        ("lz4", save("save lz4")),
        ("zstd", save("save zstd")),
        ("QEMU's migration", qemu("plain")),
        ("QEMU's through `zstd -T0`", qemu("zstd -T0")),
        ("QEMU's through `zstd -1 -T0`", qemu("zstd -1 -T0")),
    ];
    table(text, engine, &head, &rows);

    let _ = writeln!(text, "Resume, MB/s of memory without zeros:\n");
    let mut head = threads.clone();
    head.extend([
        "while it is used".to_owned(),
        "ms to 100 pages here and there".to_owned(),
        "longest fault, ms".to_owned(),
    ]);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let restore = |name: &str| {
        let mut cells = of(&format!("restore {name}"));
        let lazy = format!("lazy {name}, {all} thr");
        let more = ["complete", "100 pages wanted", "longest fault"];
        cells.extend(more.map(|more| format!("{lazy}, {more}")));
        cells
    };
    // If there was no space for twice the memory.
    let verify = |name: &str| {
        let mut cells = of(&format!("verify {name}"));
        cells.extend([const { String::new() }; 3]);
        cells
    };
    let rows = [
        ("adaptive", restore("adaptive")),
        ("raw", restore("raw")),
        ("lz4", restore("lz4")),
        ("adaptive, opened and not kept", verify("adaptive")),
        ("raw, opened and not kept", verify("raw")),
        ("lz4, opened and not kept", verify("lz4")),
    ];
    table(text, engine, &head, &rows);

    let _ = writeln!(
        text,
        "Ratios within rounds:\n\n| | median | worst |\n|---|---|---|"
    );
    for row in &engine.ratios {
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} |",
            row.name,
            row.median(),
            row.worst()
        );
    }
}

fn zone(text: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n## A zone of 1 GiB, emulated\n\n| | median | worst | |\n|---|---|---|---|"
    );
    for row in rows {
        let show = |value| number(value, &row.unit);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.name,
            show(row.median()),
            show(row.worst()),
            row.unit
        );
    }
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "MB/s" => format!("{value:.0}"),
        "ms" if value >= 100.0 => format!("{value:.0}"),
        "ms" => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Measured;

    fn row(name: &str, unit: &str, value: f64) -> Row {
        Row {
            rounds: vec![value],
            ..Row::new(name, unit)
        }
    }

    #[test]
    fn goals_say_what_was_reached() {
        let figures = Figures {
            engines: vec![Engine {
                measured: Measured {
                    memory_bytes: 1 << 30,
                    nonzero_bytes: 800_000_000,
                    threads: 2,
                    rows: vec![
                        row("save lz4, 2 thr, unsynced", "MB/s", 1600.0),
                        row("QEMU plain", "MB/s", 900.0),
                    ],
                },
                ratios: vec![row("lz4, all threads / one thread", "", 1.7)],
            }],
            zone: vec![row("clone", "ms", 7.5)],
            left_out: vec!["16 GiB".to_owned()],
            host: "Here.".to_owned(),
        };
        let text = tables(&figures);
        for line in [
            "Not measured: 16 GiB.",
            "| lz4, sealed, all threads | 1 GiB | ≥ 1500 MB/s | 1600 | 1600 | reached |",
            "| lz4, all threads / one thread | 1 GiB | ≥ 1.80  | 1.70 | 1.70 | **not reached** |",
            "| clone of a kernel zone | 1 GiB zone | ≤ 20.0 ms | 7.5 | 7.5 | reached |",
            "| QEMU's migration | – | – | – | 900 (900) | – | – |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
