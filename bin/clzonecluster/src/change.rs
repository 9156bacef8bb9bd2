//! `set` and `move`: changes of the configuration without the shell.

use clzc::{Reported, Shell, Step, ZoneCluster};
use model::ZoneName;
use model::table::GLOBAL;
use syntax::Mode;

use crate::args::Request;
use crate::configure::{HostTemplates, Session, Terminal, software_dirs};
use crate::fault::{FAILED, Fault, INVALID, UNREACHABLE};
use crate::hosts::Ssh;
use crate::verbs::chosen;
use crate::world::{World, apply, on_each};

/// Properties of a node.
const OF_NODE: [&str; 2] = ["hostname", "physical-host"];

/// Sets properties: all of them in one commit, or none.
pub fn set(ssh: &Ssh, name: &ZoneName, request: &Request) -> Result<u8, Fault> {
    let world = World::look(ssh, name, &[])?;
    let stored = world.cluster()?.clone();
    let hosts = match request.hosts.as_slice() {
        [] => Vec::new(),
        some => chosen(&stored, some)?,
    };
    for (property, _) in &request.values {
        if let Some(text) = unknown(property, !hosts.is_empty()) {
            return Err(Fault {
                status: INVALID,
                text: format!("zone cluster {name}: {text}; nothing was changed"),
            });
        }
    }
    let templates = HostTemplates(software_dirs());
    let terminal = Terminal(None);
    let mut shell = Shell::new(name, Some(stored), Mode::File, templates, terminal);
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    match hosts.as_slice() {
        [] => {
            for (property, value) in &request.values {
                shell.set(property, value);
            }
        }
        some => shell.set_of_nodes(some, &request.values),
    }
    if shell.errors() > 0 {
        eprintln!("zone cluster {name}: nothing was changed");
        return Ok(INVALID);
    }
    match shell.finish() {
        Step::Exit(Some(cluster)) => {
            let mut session = Session::new(ssh, name, world.document);
            session.commit(&cluster)?;
            Ok(session.status)
        }
        // The problems were printed.
        Step::Abort => Ok(INVALID),
        _ => catch_up(&world, request, "has these values already"),
    }
}

/// Has the chosen hosts whose zones have not taken the stored configuration take it. Returns the exit status, and prints
/// `already` if no zone lacks it.
fn catch_up(world: &World, request: &Request, already: &str) -> Result<u8, Fault> {
    let hosts = chosen(world.cluster()?, &request.hosts)?;
    let mut status = 0;
    for (host, report) in &world.reports {
        if let (true, Reported::Down(why)) = (hosts.contains(host), report) {
            eprintln!("{host}: {why}");
            status = UNREACHABLE;
        }
    }
    let unstored = world.spread();
    let mut lacking = world.lacking(&hosts);
    match (status, lacking.as_slice()) {
        (0, []) => println!("zone cluster {}: {already}", world.name),
        _ => lacking.retain(|host| !unstored.contains(host)),
    }
    let refused = apply(world.ssh, &world.name, &lacking);
    match unstored.is_empty() && refused.is_empty() {
        true => Ok(status),
        false => Ok(FAILED),
    }
}

/// Returns the complaint about a property that cannot be set, with the one that the user may mean.
fn unknown(property: &str, is_of_node: bool) -> Option<String> {
    let is_known = |name: &str| model::table::global(name).is_some();
    match is_of_node {
        true if OF_NODE.contains(&property) => None,
        true if is_known(property) => Some(format!(
            "{property}: a node has only {}; without -n, set changes the property of all nodes",
            OF_NODE.join(" and ")
        )),
        false if is_known(property) => None,
        false if OF_NODE.contains(&property) => Some(format!(
            "{property}: a property of one node; -n HOST names its host"
        )),
        _ => {
            let all: Vec<&str> = match is_of_node {
                true => OF_NODE.to_vec(),
                false => GLOBAL.iter().map(|spec| spec.name).collect(),
            };
            Some(match cli::command::nearest(property, all) {
                Some(near) => format!("{property}: no such property; did you mean {near}?"),
                None => format!("{property}: no such property"),
            })
        }
    }
}

/// Changes the zonepath. Each host moves the files of its halted zone when it takes the new configuration.
pub fn relocate(ssh: &Ssh, name: &ZoneName, request: &Request) -> Result<u8, Fault> {
    let zonepath = request.file.as_deref().unwrap_or_default();
    let world = World::look(ssh, name, &[])?;
    let mut cluster: ZoneCluster = world.cluster()?.clone();
    let only = chosen(&cluster, &request.hosts)?;
    let invalid = |text: String| Fault {
        status: INVALID,
        text,
    };
    cluster
        .relocate(zonepath.as_ref())
        .map_err(|error| invalid(error.to_string()))?;
    if let Some(problem) = cluster.problems().first() {
        return Err(invalid(problem.clone()));
    }
    let is_new = Some(&cluster) != world.cluster().ok();
    let lacking = world.lacking(&only);
    let mut installed = Vec::new();
    for (host, report) in &world.reports {
        // The others have moved their zones already.
        if !is_new && !lacking.contains(host) {
            continue;
        }
        match report.here().map(|report| report.state.as_str()) {
            None | Some("" | "configured") => {}
            Some("installed") => installed.push(host.clone()),
            Some(state) => {
                return Err(Fault::failed(format!(
                    "{host}: zone {name} is {state}, and only a halted zone can be moved: {}; nothing was changed",
                    remedy(state, host, name)
                )));
            }
        }
    }
    if !is_new {
        return catch_up(
            &world,
            request,
            &format!("the zonepath is {zonepath} already"),
        );
    }
    // Each host says now if it cannot move its zone, and not after the others have moved theirs.
    let words = ["zoneadm", "-z", name.as_str(), "move", "-n", zonepath].map(str::to_owned);
    if !on_each(ssh, &installed, |_| words.to_vec(), "").is_empty() {
        eprintln!("zone cluster {name}: nothing was changed");
        return Ok(FAILED);
    }
    let mut session = Session::new(ssh, name, world.document).moving();
    if !request.hosts.is_empty() {
        session = session.only_now(only);
    }
    session.commit(&cluster)?;
    Ok(session.status)
}

/// Returns the command after which the zone can be moved.
fn remedy(state: &str, host: &str, name: &ZoneName) -> String {
    let verb = match state {
        "incomplete" => "uninstall",
        _ => "halt",
    };
    format!("clzonecluster {verb} -n {host} {name}")
}

#[cfg(test)]
mod tests {
    use clzc::HostReport;

    use super::*;
    use crate::args::tests::request;
    use crate::world::tests::{Noted, two};

    #[test]
    fn a_repeated_command_has_the_hosts_that_lack_the_configuration_take_it() {
        let report = |pending| {
            Reported::Here(HostReport {
                pending,
                ..HostReport::default()
            })
        };
        let down = || Reported::Down("no route".to_owned());
        for (words, a, b, expected, done) in [
            (&[][..], report(false), report(false), 0, &[][..]),
            (&[], report(true), report(false), 0, &["a apply"]),
            (&["-n", "b"], report(true), report(false), 0, &[]),
            (&[], report(true), down(), UNREACHABLE, &["a apply"]),
            (&["-n", "a"], report(false), down(), 0, &[]),
        ] {
            let hosts = Noted::default();
            let world = World {
                ssh: &hosts,
                name: "pg".parse().unwrap(),
                document: Some(two()),
                reports: vec![("a".to_owned(), a), ("b".to_owned(), b)],
                older: Vec::new(),
            };
            let request = request(&[&["move", "-f", "/zones/pg", "pg"], words].concat());
            assert_eq!(catch_up(&world, &request, "already").unwrap(), expected);
            assert_eq!(hosts.done(), done, "{words:?}");
        }
    }

    #[test]
    fn a_zone_that_cannot_be_halted_is_uninstalled() {
        let name: ZoneName = "pg".parse().unwrap();
        for (state, expected) in [
            ("running", "clzonecluster halt -n a pg"),
            ("incomplete", "clzonecluster uninstall -n a pg"),
        ] {
            assert_eq!(remedy(state, "a", &name), expected);
        }
    }

    #[test]
    fn names_the_property_that_was_meant() {
        assert_eq!(unknown("autoboot", false), None);
        assert_eq!(unknown("hostname", true), None);
        for (property, is_of_node, said) in [
            ("autobot", false, "did you mean autoboot?"),
            ("hostnam", true, "did you mean hostname?"),
            ("hostname", false, "-n HOST"),
            ("autoboot", true, "without -n"),
            ("lower-link", false, "lower-link: no such property"),
        ] {
            let text = unknown(property, is_of_node).unwrap_or_default();
            assert!(text.contains(said), "{property}: {text}");
        }
    }
}
