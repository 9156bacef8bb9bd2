//! The releases of programs on the hosts, for `show-rev`.

use std::collections::BTreeMap;

/// Maximum length of a release that is shown, in characters: the text is of another host.
const MAX_RELEASE: usize = 40;

/// The releases on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Name of the host.
    pub host: String,
    /// The release of each program, `None` for one that the host does not have; or the reason why the host does not
    /// answer.
    pub releases: Result<Vec<Option<String>>, String>,
}

/// Finds the release in the output of `PROGRAM --version`: the first word that begins with a digit.
#[must_use]
pub fn release_of(output: &str) -> Option<String> {
    let words = output.lines().next()?.split_whitespace();
    let mut words = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    let found = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let kept = found.chars().filter(|c| !c.is_control());
    Some(kept.take(MAX_RELEASE).collect())
}

/// Returns the table of `show-rev`, and a line for each program of which hosts have different releases.
#[must_use]
pub fn revision_table(programs: &[&str], rows: &[Revision]) -> String {
    let mut lines: Vec<Vec<String>> = vec![
        ["Host"]
            .iter()
            .chain(programs)
            .map(|&word| word.to_owned())
            .collect(),
    ];
    lines.push(lines[0].iter().map(|word| "-".repeat(word.len())).collect());
    for row in rows {
        let mut line = vec![row.host.clone()];
        match &row.releases {
            Ok(releases) => line.extend(
                releases
                    .iter()
                    .map(|one| one.clone().unwrap_or_else(|| "-".to_owned())),
            ),
            Err(why) => line.push(why.clone()),
        }
        lines.push(line);
    }
    let columns = programs.len() + 1;
    let mut widths = vec![0; columns];
    for line in lines.iter().filter(|line| line.len() == columns) {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    for (place, program) in programs.iter().enumerate() {
        if let Some(line) = difference(program, place, rows) {
            text.push_str(&format!("\n{line}\n"));
        }
    }
    text
}

/// Returns a line that names the hosts of each release, or `None` if all hosts that answer have the same one.
fn difference(program: &str, place: usize, rows: &[Revision]) -> Option<String> {
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let Ok(releases) = &row.releases else {
            continue;
        };
        let release = releases.get(place)?.as_deref().unwrap_or("none");
        hosts.entry(release).or_default().push(&row.host);
    }
    let parts: Vec<String> = hosts
        .iter()
        .map(|(release, hosts)| format!("{release} on {}", hosts.join(" ")))
        .collect();
    (parts.len() > 1).then(|| format!("{program}: the releases differ: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(host: &str, releases: &[Option<&str>]) -> Revision {
        let releases = releases.iter().map(|one| one.map(str::to_owned));
        Revision {
            host: host.to_owned(),
            releases: Ok(releases.collect()),
        }
    }

    #[test]
    fn finds_releases() {
        for (output, release) in [
            ("zoneadm 0.9.0\n", Some("0.9.0")),
            (
                "Corosync Cluster Engine, version '3.1.7'\nCopyright (c) 2006-2021\n",
                Some("3.1.7"),
            ),
            (
                "Pacemaker 2.1.5-1+deb12u1\nWritten by",
                Some("2.1.5-1+deb12u1"),
            ),
            ("zoneadm\n2", None),
            ("", None),
        ] {
            assert_eq!(release_of(output).as_deref(), release, "{output}");
        }
        let long = format!("x 1{}", "0".repeat(500));
        assert_eq!(
            release_of(&long).map(|found| found.len()),
            Some(MAX_RELEASE)
        );
    }

    #[test]
    fn tells_which_hosts_differ() {
        let rows = [
            row("host1", &[Some("0.9.0"), Some("3.1.7")]),
            Revision {
                host: "host2".to_owned(),
                releases: Err("does not answer: no route".to_owned()),
            },
            row("host3", &[Some("0.9.1"), None]),
        ];
        insta::assert_snapshot!(revision_table(&["zones", "corosync"], &rows));
    }

    #[test]
    fn equal_releases_need_no_remark() {
        let rows = [row("a", &[Some("1")]), row("b", &[Some("1")])];
        assert_eq!(
            revision_table(&["zones"], &rows),
            "Host   zones\n----   -----\na      1\nb      1\n"
        );
    }
}
