//! `show-rev`: the release of the programs on each host.

use std::time::Duration;

use clzc::{Order, Outcome, Remote, Revision, everywhere, release_of, revision_table};
use model::ZoneName;

use crate::fault::{Fault, UNREACHABLE};
use crate::local::Files;
use crate::world::failure;

/// Time for a program to tell its release.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Programs, with the command that prints their release. The first are always asked.
const PROGRAMS: [(&str, [&str; 2]); 4] = [
    ("zones", ["zoneadm", "--version"]),
    ("zones-cluster", ["clzonecluster", "--version"]),
    ("corosync", ["corosync", "-v"]),
    ("pacemaker", ["pacemakerd", "--version"]),
];
/// Number of programs that are asked without `-v`.
const BASIC: usize = 2;

/// Prints the releases of this host and of all hosts of the zone clusters that it knows. Returns the exit status.
pub fn show(ssh: &dyn Remote, own: &str, names: &[ZoneName], verbose: bool) -> Result<u8, Fault> {
    cli::output::only_prints();
    let files = Files::new()?;
    let mut hosts = vec![own.to_owned()];
    for name in names {
        let cluster = files.read(name)?.and_then(|document| document.cluster);
        for host in cluster.map(|cluster| cluster.hosts()).unwrap_or_default() {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    hosts.sort();
    let programs = &PROGRAMS[..if verbose { PROGRAMS.len() } else { BASIC }];
    let rows = ask(ssh, &hosts, programs);
    let heads: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
    print!("{}", revision_table(&heads, &rows));
    Ok(match rows.iter().all(|row| row.releases.is_ok()) {
        true => 0,
        false => UNREACHABLE,
    })
}

/// Asks all hosts at the same time. A host that cannot tell the release of the first program does not answer.
fn ask(ssh: &dyn Remote, hosts: &[String], programs: &[(&str, [&str; 2])]) -> Vec<Revision> {
    let mut jobs = Vec::new();
    for host in hosts {
        jobs.extend(programs.iter().map(|(_, words)| (host.clone(), *words)));
    }
    let order = |_: &str, words: &[&str; 2]| Order {
        words: words.map(str::to_owned).to_vec(),
        input: String::new(),
        limit: TIMEOUT,
    };
    let outcomes = everywhere(ssh, &jobs, order, &|_, _, _| {});
    let of_host = outcomes.chunks(programs.len().max(1));
    let read = |outcome: &Outcome| match (failure(outcome), outcome) {
        (None, Outcome::Ended { output, .. }) => release_of(output),
        _ => None,
    };
    hosts
        .iter()
        .zip(of_host)
        .map(|(host, outcomes)| Revision {
            host: host.clone(),
            releases: match outcomes.first().and_then(failure) {
                Some(why) => Err(why),
                None => Ok(outcomes.iter().map(read).collect()),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clzc::Stream;

    use super::*;

    /// Hosts of which one is down, and one has no corosync.
    struct Hosts;

    impl Remote for Hosts {
        fn run(&self, host: &str, order: &Order, _: &(dyn Fn(Stream, &str) + Sync)) -> Outcome {
            if host == "down" {
                return Outcome::Unreachable("no route".to_owned());
            }
            let is_absent = host == "bare" && order.words[0] == "corosync";
            Outcome::Ended {
                status: if is_absent { 127 } else { 0 },
                output: format!("{} 1.2\n", order.words[0]),
                errors: String::new(),
            }
        }
    }

    #[test]
    fn a_host_that_is_down_or_lacks_a_program_is_shown() {
        let hosts = ["whole", "down", "bare"].map(str::to_owned);
        let rows = ask(&Hosts, &hosts, &PROGRAMS);
        let release = || Some("1.2".to_owned());
        assert_eq!(rows[0].releases, Ok(vec![release(); 4]));
        assert_eq!(
            rows[1].releases,
            Err("does not answer: no route".to_owned())
        );
        assert_eq!(
            rows[2].releases,
            Ok(vec![release(), release(), None, release()])
        );
    }
}
