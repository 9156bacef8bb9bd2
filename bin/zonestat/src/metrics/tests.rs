//! Tests that parse the text by the grammar of each format, and with promtool if it is installed.

#![allow(clippy::disallowed_macros)]

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use crate::example;

fn page(format: Format) -> String {
    text(&example::now(), format, |_| true)
}

/// Parses a text. Returns the type of each family and its samples, or the error.
fn read(text: &str, format: Format) -> Result<HashMap<String, (String, usize)>, String> {
    let mut families: HashMap<String, (String, usize)> = HashMap::new();
    let mut current = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let wrong = |what: &str| format!("{what}: {line}");
        if line == "# EOF" {
            return match lines.next() {
                None => Ok(families),
                Some(_) => Err(wrong("not the last line")),
            };
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
            if families.contains_key(name) || help.is_empty() {
                return Err(wrong("a family twice, or without help"));
            }
            families.insert(name.to_owned(), ("unknown".to_owned(), 0));
            name.clone_into(&mut current);
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
            if name != current || !matches!(kind, "counter" | "gauge") {
                return Err(wrong("a type elsewhere"));
            }
            families.insert(name.to_owned(), (kind.to_owned(), 0));
            continue;
        }
        let (name, value) = line.rsplit_once(' ').ok_or_else(|| wrong("no value"))?;
        let name = match name.split_once('{') {
            None => name,
            Some((name, labels)) => {
                let labels = labels.strip_suffix('}').ok_or_else(|| wrong("no end"))?;
                for label in labels.split(',') {
                    let fine = label
                        .split_once("=\"")
                        .is_some_and(|(key, value)| !key.is_empty() && value.ends_with('"'));
                    if !fine {
                        return Err(wrong("no label"));
                    }
                }
                name
            }
        };
        let family = families
            .get_mut(&current)
            .ok_or_else(|| wrong("no family"))?;
        let wanted = match (format, family.0.as_str()) {
            (Format::OpenMetrics, "counter") => format!("{current}_total"),
            _ => current.clone(),
        };
        if name != wanted || value.parse::<f64>().is_err() {
            return Err(wrong("no sample of its family"));
        }
        family.1 += 1;
    }
    Err("no end".to_owned())
}

#[test]
fn every_format_is_read_by_its_grammar() {
    for format in [Format::Both, Format::OpenMetrics, Format::Prometheus] {
        let families = read(&page(format), format).unwrap();
        let get = |name: &str| families.get(name).cloned();
        let zones = example::now().zones.len();
        let (cpu, kind) = match format {
            Format::Both => ("zone_cpu_seconds_total", "unknown"),
            Format::OpenMetrics => ("zone_cpu_seconds", "counter"),
            Format::Prometheus => ("zone_cpu_seconds_total", "counter"),
        };
        assert_eq!(get(cpu), Some((kind.to_owned(), zones)), "{format:?}");
        assert_eq!(get("zone_memory_bytes"), Some(("gauge".to_owned(), zones)));
        assert_eq!(get("zone_cpu_cap_cpus"), Some(("gauge".to_owned(), 1)));
        assert!(families.values().all(|(_, samples)| *samples > 0));
    }
    // The output of `--openmetrics` is valid in either format.
    assert_eq!(
        read(&page(Format::Both), Format::OpenMetrics),
        read(&page(Format::Both), Format::Prometheus)
    );
    assert!(read("x 1\n# EOF\n", Format::Both).is_err());
}

#[test]
fn numbers_and_labels() {
    let page = page(Format::Prometheus);
    for line in [
        "zone_cpu_seconds_total{zone=\"web\"} 1.000000",
        "zone_cpu_cap_cpus{zone=\"web\"} 0.25",
        "zone_info{zone=\"db\",id=\"7\",pset=\"db\",pset_type=\"dedicated-cpu\",kind=\"native\"} 1",
        "zone_pressure_seconds_total{zone=\"web\",resource=\"cpu\",waiting=\"some\"} 0.100000",
        "zone_link_received_bytes_total{zone=\"web\",link=\"net0\"} 1000000",
        "zone_link_sent_bytes_total{zone=\"web\",link=\"net1\"} 1000000",
        "zones_active 4",
    ] {
        assert!(page.lines().any(|one| one == line), "no {line} in {page}");
    }
    assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    let some = text(&example::now(), Format::Both, |zone| &*zone.name == "db");
    assert!(some.contains("\"db\"") && !some.contains("\"web\""));
}

#[test]
fn promtool_finds_nothing() {
    for format in [Format::Both, Format::Prometheus] {
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut promtool) = promtool else {
            println!(
                "skipped: promtool_finds_nothing: promtool is not installed (package prometheus)"
            );
            return;
        };
        let mut input = promtool.stdin.take().unwrap();
        input.write_all(page(format).as_bytes()).unwrap();
        drop(input);
        let done = promtool.wait_with_output().unwrap();
        assert!(done.status.success(), "{format:?}: {done:?}");
    }
}
