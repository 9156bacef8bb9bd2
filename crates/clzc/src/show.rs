//! Tables.

use serde::Serialize;

use crate::report::{HostReport, Reported};

/// A line of `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the zone cluster.
    pub cluster: String,
    /// Name of the host.
    pub host: String,
    /// Host name in the zone.
    pub hostname: String,
    /// The answer of the host.
    pub reported: Reported,
    /// The configuration of the host is not the newest.
    pub is_older: bool,
}

impl Row {
    /// Returns the status of the node, and that of its zone.
    fn statuses(&self) -> (String, String) {
        let Reported::Here(report) = &self.reported else {
            return ("Offline".to_owned(), "host does not answer".to_owned());
        };
        let status = if self.is_online() {
            "Online"
        } else {
            "Offline"
        };
        let mut zone = match report.state.as_str() {
            "" => "not configured".to_owned(),
            state => capital(state),
        };
        if report.quorate == Some(false) {
            zone.push_str(", no quorum");
        }
        if self.is_older {
            zone.push_str(", older configuration");
        }
        (status.to_owned(), zone)
    }

    /// Returns true if the zone runs, and has a majority if it has a ring.
    fn is_online(&self) -> bool {
        let here = self.reported.here();
        here.is_some_and(|report| report.state == "running" && report.quorate != Some(false))
    }

    fn brand(&self) -> &str {
        self.reported
            .here()
            .map_or("", |report| report.brand.as_str())
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first
            .to_uppercase()
            .chain(letters)
            .filter(|c| !c.is_control())
            .collect()
    })
}

/// Returns the table of `status`.
#[must_use]
pub fn status_table(rows: &[Row]) -> String {
    let head = [
        "Name",
        "Brand",
        "Node Name",
        "Zone Host Name",
        "Status",
        "Zone Status",
    ];
    let mut lines = vec![
        head.map(str::to_owned),
        head.map(|word| "-".repeat(word.len())),
    ];
    let mut last = "";
    for row in rows {
        let (status, zone) = row.statuses();
        // The name is on the first line of its zone cluster only.
        let (name, brand) = match row.cluster == last {
            true => ("", ""),
            false => (row.cluster.as_str(), row.brand()),
        };
        last = &row.cluster;
        let line = [name, brand, &row.host, &row.hostname, &status, &zone];
        lines.push(line.map(str::to_owned));
    }
    let widths =
        (0..head.len()).map(|place| lines.iter().map(|line| line[place].chars().count()).max());
    let widths: Vec<usize> = widths.map(Option::unwrap_or_default).collect();
    let mut text = String::from("=== Zone Clusters ===\n\n--- Zone Cluster Status ---\n\n");
    for line in lines {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// A line of `status -j`.
#[derive(Serialize)]
struct Object<'a> {
    cluster: &'a str,
    host: &'a str,
    hostname: &'a str,
    /// The reason why the host does not answer; null if it does.
    unreachable: Option<&'a str>,
    brand: Option<&'a str>,
    /// The state of the zone; null if it is not known, or if the host does not have the zone.
    state: Option<&'a str>,
    online: bool,
    /// Null if the zone does not run or has no ring.
    quorate: Option<bool>,
    older_configuration: bool,
}

/// Returns the text of `status -j`: an array with an object for each node.
#[must_use]
pub fn status_json(rows: &[Row]) -> String {
    let object = |row: &'_ Row| {
        let here = row.reported.here();
        let word = |text: fn(&HostReport) -> &str| here.map(text).filter(|text| !text.is_empty());
        let object = Object {
            cluster: &row.cluster,
            host: &row.host,
            hostname: &row.hostname,
            unreachable: match &row.reported {
                Reported::Down(why) => Some(why),
                Reported::Here(_) => None,
            },
            brand: word(|report| &report.brand),
            state: word(|report| &report.state),
            online: row.is_online(),
            quorate: here.and_then(|report| report.quorate),
            older_configuration: row.is_older,
        };
        serde_json::to_value(object).unwrap_or_default()
    };
    let objects: Vec<_> = rows.iter().map(object).collect();
    serde_json::to_string_pretty(&objects).unwrap_or_default() + "\n"
}

/// Returns the text of `list`: a name on each line.
#[must_use]
pub fn list_of(names: &[String]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(host: &str, reported: Reported) -> Row {
        Row {
            cluster: "pg".to_owned(),
            host: host.to_owned(),
            hostname: host.replace("host", "pg"),
            reported,
            is_older: false,
        }
    }

    fn here(state: &str, quorate: Option<bool>) -> Reported {
        let brand = if state.is_empty() { "" } else { "native" };
        Reported::Here(HostReport {
            state: state.to_owned(),
            brand: brand.to_owned(),
            quorate,
            pending: false,
            version: None,
        })
    }

    fn rows() -> [Row; 5] {
        let mut older = row("host5", here("installed", None));
        older.is_older = true;
        [
            row("host1", here("running", None)),
            row("host2", here("running", Some(false))),
            row("host3", Reported::Down("no route".to_owned())),
            row("host4", here("", None)),
            older,
        ]
    }

    #[test]
    fn tells_the_status_of_each_node() {
        insta::assert_snapshot!(status_table(&rows()));
    }

    #[test]
    fn tells_programs_the_status_of_each_node() {
        insta::assert_snapshot!(status_json(&rows()));
        assert_eq!(status_json(&[]), "[]\n");
    }
}
