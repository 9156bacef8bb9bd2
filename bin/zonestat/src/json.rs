//! Prints intervals and reports as lines of JSON. They hold all figures, or those that `-r` selects,
//! under names that contain the unit. Figures that this host does not have are left out.

use serde::Serialize;
use stat::pset::Part;
use stat::sample::{Hits, LinkTraffic, Pressure, Pset, Traffic};
use stat::{Figures, Interval, Resource, Row};

use crate::args::{Reports, Section};
use crate::solaris::Heading;
use crate::zones::Zones;

#[derive(Serialize)]
struct Line<'a> {
    /// The kind of report: `interval`, `report-total`, `report-average` or `report-high`.
    report: String,
    time: String,
    interval: u64,
    seconds: f64,
    cpus: u64,
    cpus_online: u64,
    size: Figures,
    total: Used,
    system: Used,
    zones: Vec<Zone<'a>>,
}

#[derive(Serialize)]
struct Used {
    cpu_usec: u64,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Zone<'a> {
    name: &'a str,
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    kernel_zone: bool,
    ran_seconds: f64,
    #[serde(flatten)]
    used: Used,
    caps: Figures,
    pset: &'a str,
    pset_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_shares: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Traffic>,
    /// The traffic of each link.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    links: &'a [LinkTraffic],
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<Traffic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pressure: Option<Pressure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits_hit: Option<Hits>,
}

/// Returns a line with its newline.
///
/// # Errors
/// Fails if the data have no form in JSON; these data always have one.
pub fn line(
    reports: &Reports,
    heading: &Heading,
    interval: &Interval,
    zones: &Zones,
) -> Result<String, String> {
    let psets = interval.psets();
    let part = |row: &Row| -> Part {
        let set = psets.iter().find(|set| *set.pset == row.setting.pset);
        set.map(|set| set.part(row)).unwrap_or_default()
    };
    let zone = |row| zone(reports, row, part(row));
    let used = |used: &stat::interval::Use| Used {
        cpu_usec: used.cpu_usec,
        figures: selected(reports, &used.figures),
    };
    let line = Line {
        report: match heading.kind {
            None => "interval".to_owned(),
            Some(kind) => format!("report-{}", kind.as_str()),
        },
        time: cli::units::utc(heading.end),
        interval: heading.count,
        seconds: interval.elapsed.as_secs_f64(),
        cpus: interval.cpus,
        cpus_online: interval.online,
        size: selected(reports, &interval.size),
        total: used(&interval.total),
        system: used(&interval.system),
        zones: zones.choose(interval).into_iter().map(zone).collect(),
    };
    let text = serde_json::to_string(&line).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// Returns the figures that `-r` selects. The kernel writes the largest number for "no limit", which
/// no JavaScript program can read, so that figure is left out.
fn selected(reports: &Reports, figures: &Figures) -> Figures {
    let mut selected = Figures::default();
    for resource in Resource::ALL {
        selected[resource] = figures[resource].filter(|figure| *figure != u64::MAX);
        if !reports.has(resource) {
            selected[resource] = None;
        }
    }
    selected
}

fn zone<'a>(reports: &Reports, row: &'a Row, part: Part) -> Zone<'a> {
    let mut caps = Figures::default();
    for resource in Resource::ALL {
        caps[resource] = row.cap(resource);
    }
    let has = |section| reports.sections.contains(&section);
    let pset: &Pset = &row.setting.pset;
    Zone {
        name: &row.name,
        id: row.id,
        label: row.setting.label.as_deref(),
        kernel_zone: row.setting.kernel,
        ran_seconds: row.ran.as_secs_f64(),
        used: Used {
            cpu_usec: row.used.cpu_usec,
            figures: selected(reports, &row.used.figures),
        },
        caps: selected(reports, &caps),
        pset: pset.name(),
        pset_type: pset.kind(),
        cpu_shares: part.shares,
        network: row.network.filter(|_| has(Section::Network)),
        links: match has(Section::Network) {
            true => &row.links,
            false => &[],
        },
        disk: row.disk.filter(|_| has(Section::Disk)),
        pressure: row.pressure.filter(|_| has(Section::Pressure)),
        limits_hit: row.hits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Call, parse};
    use crate::example;

    fn printed(options: &str) -> String {
        printed_of(options, &example::interval())
    }

    fn printed_of(options: &str, interval: &Interval) -> String {
        let heading = Heading {
            kind: None,
            count: 1,
            seconds: 5,
            start: 0,
            end: 1_763_674_377,
        };
        let words: Vec<_> = options.split_whitespace().map(Into::into).collect();
        let Ok(Call::Reports(reports)) = parse(&words) else {
            panic!("{options}");
        };
        let zones = Zones::new(&reports.common.zones).unwrap();
        line(&reports, &heading, interval, &zones).unwrap()
    }

    #[test]
    fn resources_and_patterns_of_zones_select_figures() {
        let text = printed("-j -r summary -z w* 5");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let zones = line["zones"].as_array().unwrap();
        let names: Vec<_> = zones.iter().map(|zone| &zone["name"]).collect();
        assert_eq!(names, ["web", "web-of-a-long-name"]);
        let web = &zones[0];
        assert_eq!(web["cpu_millionths"], 200_000);
        assert!(web["physical_bytes"].is_u64());
        for absent in ["lwps", "network", "links", "disk", "pressure", "shm_bytes"] {
            assert!(web.get(absent).is_none(), "{absent}");
        }
        assert!(web["caps"].get("lwps").is_none());
        let text = printed("-j -r disk,lwps 5");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let web = line["zones"].as_array().unwrap();
        let web = web.iter().find(|zone| zone["name"] == "web").unwrap();
        assert!(web.get("physical_bytes").is_none() && web["lwps"].is_u64());
    }

    #[test]
    fn zones_with_a_label_have_the_key() {
        for options in ["-j 5", "-j -r disk 5"] {
            let text = printed_of(options, &example::labeled_interval());
            let line: serde_json::Value = serde_json::from_str(&text).unwrap();
            let zones = line["zones"].as_array().unwrap().iter();
            let labels: Vec<_> = zones
                .filter_map(|zone| Some((zone["name"].as_str()?, zone.get("label")?.as_str()?)))
                .collect();
            let expected = [
                ("web", "PUBLIC"),
                ("db", "CONFIDENTIAL NEED TO KNOW"),
                ("guest", "0x0005-08-00"),
            ];
            assert_eq!(labels, expected, "{options}");
            assert!(!printed(options).contains("\"label\""), "{options}");
        }
    }

    #[test]
    fn the_number_for_no_limit_is_left_out() {
        let words: Vec<_> = ["-j".into(), "5".into()].to_vec();
        let Ok(Call::Reports(reports)) = parse(&words) else {
            panic!();
        };
        let mut figures = Figures::default();
        figures[Resource::ShmMemory] = Some(u64::MAX);
        figures[Resource::ShmIds] = Some(4096);
        let selected = selected(&reports, &figures);
        assert_eq!(selected[Resource::ShmMemory], None);
        assert_eq!(selected[Resource::ShmIds], Some(4096));
    }

    #[test]
    fn a_line_is_one_object_with_units() {
        let text = printed("-j 5");
        assert_eq!(text.matches('\n').count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["time"], "2025-11-20T21:32:57Z");
        let zones = line["zones"].as_array().unwrap();
        let sum: u64 = zones
            .iter()
            .map(|zone| zone["cpu_usec"].as_u64().unwrap())
            .sum();
        let system = line["system"]["cpu_usec"].as_u64().unwrap();
        assert_eq!(line["total"]["cpu_usec"].as_u64(), Some(sum + system));
        let web = zones.iter().find(|zone| zone["name"] == "web").unwrap();
        assert_eq!(web["caps"]["cpu_millionths"], 250_000);
        assert_eq!(web["cpu_millionths"], 200_000);
        assert_eq!(web["cpu_shares"], 3);
        let links = web["links"].as_array().unwrap();
        let sum = |what: &str| -> u64 {
            let figures = links.iter().map(|link| link[what].as_u64().unwrap());
            figures.sum()
        };
        assert_eq!(links[0]["name"], "net0");
        for what in ["bytes_in", "bytes_out"] {
            assert_eq!(web["network"][what], sum(what));
        }
        assert_eq!(web["limits_hit"]["oom_kills"], 1);
        let guest = zones.iter().find(|zone| zone["name"] == "guest").unwrap();
        assert_eq!(guest["kernel_zone"], true);
        assert_eq!(guest["id"], 2_147_483_647);
    }
}
