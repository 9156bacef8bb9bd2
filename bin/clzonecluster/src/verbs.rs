//! The verbs that act on the zones of all nodes, and those that print.

use std::time::{Duration, Instant};

use clzc::{
    HostReport, Order, Outcome, Reported, Row, ZoneCluster, everywhere, status_json, status_table,
};
use model::ZoneName;

use crate::args::{Names, Request, Verb};
use crate::fault::{FAILED, Fault, INVALID, MISSING, UNREACHABLE};
use crate::hosts::Ssh;
use crate::local::Files;
use crate::world::{World, apply, failure, local, plain};
use crate::{change, configure, revision};

/// Time for a boot, a halt and the like.
const VERB_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for an installation.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(4 * 3600 + 60);

/// Carries out a command. Returns the exit status: that of the worst zone cluster.
pub fn act(ssh: &Ssh, request: &Request) -> Result<u8, Fault> {
    let names = match &request.names {
        Names::These(names) => names.clone(),
        Names::All => {
            let known = Files::new()?.names()?;
            known.iter().filter_map(|name| name.parse().ok()).collect()
        }
    };
    match request.verb {
        Verb::List => return list(&names, request),
        Verb::ShowRev => return revision::show(ssh, ssh.own(), &names, request.verbose),
        Verb::Status => return status(ssh, &names, request.json),
        _ => {}
    }
    let mut worst = 0;
    for name in &names {
        let done = match request.verb {
            Verb::Configure => configure::configure(ssh, name, request),
            Verb::Set => change::set(ssh, name, request),
            Verb::Move => change::relocate(ssh, name, request),
            Verb::Delete => configure::delete(ssh, name, request.force),
            Verb::Show => show(ssh, name),
            Verb::Export => export(ssh, name, request.file.as_deref()),
            _ => zones(ssh, name, request),
        };
        match done {
            Ok(status) => worst = worst.max(status),
            // The other zone clusters are still acted on.
            Err(fault) => {
                eprintln!("clzonecluster: {}", fault.text);
                worst = worst.max(fault.status);
            }
        }
    }
    Ok(worst)
}

/// Acts on the zone of each node.
fn zones(ssh: &Ssh, name: &ZoneName, request: &Request) -> Result<u8, Fault> {
    if let Some(from) = &request.from {
        return configure::take_from(ssh, name, from);
    }
    let target = request.target.as_ref().unwrap_or(name);
    let world = World::look(ssh, target, &[])?;
    // Hosts that were down store the newest configuration first.
    let mut behind = world.spread();
    let cluster = world.cluster()?;
    let hosts = chosen(cluster, &request.hosts)?;
    if request.dry {
        for host in world.lacking(&hosts) {
            println!("{host}: its zone has not taken the newest configuration");
        }
    }
    let mut taking = taking(&world, request, &hosts);
    taking.retain(|host| !behind.contains(host));
    behind.extend(apply(ssh, target, &taking));
    if request.verb == Verb::Uninstall && !request.force {
        let question = format!(
            "Are you sure you want to uninstall zone cluster {name} on {}",
            hosts.join(" ")
        );
        if !cli::prompt::can_ask() {
            return Err(Fault {
                status: INVALID,
                text: "uninstall: expected -F, because no user can be asked".to_owned(),
            });
        }
        if !cli::prompt::confirm(&question) {
            return Ok(FAILED);
        }
    }
    let mut status = 0;
    let mut jobs: Vec<(String, Vec<String>)> = Vec::new();
    for host in hosts {
        let report = match world.report(&host) {
            Some(Reported::Here(report)) => report,
            Some(Reported::Down(why)) => {
                eprintln!("{host}: {why}");
                status = status.max(UNREACHABLE);
                continue;
            }
            None => continue,
        };
        if behind.contains(&host) {
            // The reason was printed.
            status = FAILED;
            continue;
        }
        match words(request, name, target, &host, &report.state) {
            Ok(words) => jobs.push((host, words)),
            Err(done) => println!("{host}: {done}"),
        }
    }
    Ok(status.max(run(ssh, &jobs)))
}

/// Returns the hosts whose zones take their configuration before the verb: those that have not, and those whose zone was
/// deleted by hand; `apply` has all of them take it.
fn taking(world: &World, request: &Request, hosts: &[String]) -> Vec<String> {
    if request.dry || !begins(request.verb) {
        return Vec::new();
    }
    let lacking = world.lacking(hosts);
    let takes = |host: &&String| {
        let must = |here: &HostReport| request.verb == Verb::Apply || here.state.is_empty();
        lacking.contains(host) || world.here(host).is_some_and(must)
    };
    hosts.iter().filter(takes).cloned().collect()
}

/// Returns true if the zone must have its configuration before. A zone that has refused it can always be halted and
/// removed.
const fn begins(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Install | Verb::Clone | Verb::Ready | Verb::Boot | Verb::Reboot | Verb::Apply
    )
}

/// Returns the hosts of `-n`, or all.
pub fn chosen(cluster: &ZoneCluster, wanted: &[String]) -> Result<Vec<String>, Fault> {
    if let Some(host) = wanted.iter().find(|host| cluster.node(host).is_none()) {
        let text = format!(
            "zone cluster {}: it has no node on {host}; its hosts are {}",
            cluster.name(),
            cluster.hosts().join(" ")
        );
        return Err(Fault {
            status: MISSING,
            text,
        });
    }
    Ok(match wanted {
        [] => cluster.hosts(),
        some => some.to_vec(),
    })
}

/// Returns the command for a host, or the text that says why none is needed.
fn words(
    request: &Request,
    name: &ZoneName,
    target: &ZoneName,
    host: &str,
    state: &str,
) -> Result<Vec<String>, String> {
    let zoneadm = |more: &[&str]| -> Vec<String> {
        let words = ["zoneadm", "-z", name.as_str()];
        words
            .iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    };
    let is_down = matches!(state, "" | "configured" | "incomplete" | "installed");
    match request.verb {
        Verb::Boot if state == "running" => Err("runs already".to_owned()),
        Verb::Boot => Ok([zoneadm(&["boot"]), request.passed.clone()].concat()),
        Verb::Ready if matches!(state, "ready" | "running") => Err(format!("is {state} already")),
        Verb::Ready => Ok(zoneadm(&["ready"])),
        Verb::Halt if is_down => Err("does not run".to_owned()),
        Verb::Halt => Ok(zoneadm(&["halt"])),
        Verb::Reboot => Ok(zoneadm(&["reboot"])),
        Verb::Verify => Ok(zoneadm(&["verify"])),
        Verb::Apply if request.dry && state != "running" => Err("does not run".to_owned()),
        Verb::Apply if state != "running" => Err("has the configuration".to_owned()),
        Verb::Apply if request.dry => Ok(zoneadm(&["apply", "-n"])),
        Verb::Apply => Ok(zoneadm(&["apply"])),
        Verb::Uninstall if matches!(state, "" | "configured") => Err("is not installed".to_owned()),
        Verb::Uninstall => Ok(zoneadm(&["uninstall", "-F"])),
        Verb::Install | Verb::Clone if !matches!(state, "" | "configured") => {
            Err(format!("is {state} already"))
        }
        Verb::Install => Ok([local("install", target, &[host]), request.passed.clone()].concat()),
        Verb::Clone => {
            let source = vec![name.to_string()];
            Ok([
                local("clone", target, &[host]),
                request.passed.clone(),
                source,
            ]
            .concat())
        }
        other => Err(format!("{other:?} acts on no zone")),
    }
}

/// Runs a command on each host, and prints what each says. Returns the exit status.
fn run(ssh: &Ssh, jobs: &[(String, Vec<String>)]) -> u8 {
    let began = Instant::now();
    let order = |_: &str, words: &Vec<String>| Order {
        words: words.clone(),
        input: String::new(),
        limit: if words.iter().any(|word| word == "--local") {
            INSTALL_TIMEOUT
        } else {
            VERB_TIMEOUT
        },
    };
    let outcomes = everywhere(ssh, jobs, order, &|host, _, line| {
        eprintln!("{host}: {}", plain(line));
    });
    let mut status = 0;
    for ((host, _), outcome) in jobs.iter().zip(&outcomes) {
        match (failure(outcome), outcome) {
            (None, _) => println!("{host}: done"),
            // Its lines were printed.
            (Some(_), Outcome::Ended { status: ended, .. }) => {
                println!("{host}: failed with status {ended}");
                status = FAILED;
            }
            (Some(why), _) => {
                println!("{host}: {why}");
                status = status.max(UNREACHABLE);
            }
        }
    }
    if !jobs.is_empty() {
        eprintln!(
            "{} hosts in {:.1} s",
            jobs.len(),
            began.elapsed().as_secs_f64()
        );
    }
    status
}

// ---- verbs that print ----

fn list(names: &[ZoneName], request: &Request) -> Result<u8, Fault> {
    cli::output::only_prints();
    let known = Files::new()?.names()?;
    if let Names::These(names) = &request.names {
        if let Some(name) = names.iter().find(|name| !known.contains(&name.to_string())) {
            return Err(Fault::missing(name));
        }
    }
    let names: Vec<String> = names.iter().map(ZoneName::to_string).collect();
    print!("{}", clzc::list_of(&names));
    Ok(0)
}

fn status(ssh: &Ssh, names: &[ZoneName], json: bool) -> Result<u8, Fault> {
    cli::output::only_prints();
    let (mut rows, mut status) = (Vec::new(), 0);
    for name in names {
        let world = World::look(ssh, name, &[])?;
        for node in &world.cluster()?.nodes {
            let down = || Reported::Down("not asked".to_owned());
            let reported = world
                .report(&node.physical_host)
                .cloned()
                .unwrap_or_else(down);
            if reported.here().is_none() {
                status = UNREACHABLE;
            }
            rows.push(Row {
                cluster: name.to_string(),
                host: node.physical_host.clone(),
                hostname: node.hostname.clone(),
                is_older: world
                    .here(&node.physical_host)
                    .is_some_and(|here| here.pending || world.older.contains(&node.physical_host)),
                reported,
            });
        }
    }
    match json {
        true => print!("{}", status_json(&rows)),
        false => print!("{}", status_table(&rows)),
    }
    Ok(status)
}

fn show(ssh: &Ssh, name: &ZoneName) -> Result<u8, Fault> {
    cli::output::only_prints();
    let world = World::look(ssh, name, &[])?;
    let generation = world
        .document
        .as_ref()
        .map_or(0, |document| document.generation);
    println!("generation: {generation}");
    print!("{}", world.cluster()?.info());
    Ok(0)
}

fn export(ssh: &Ssh, name: &ZoneName, file: Option<&str>) -> Result<u8, Fault> {
    let world = World::look(ssh, name, &[])?;
    let text = world.cluster()?.export();
    match file {
        None => print!("{text}"),
        Some(file) => {
            let path = std::path::Path::new(file);
            store::atomic::write(path, text.as_bytes(), 0o644).map_err(Fault::failed)?;
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_verb_that_begins_has_zones_take_their_configuration() {
        let report = |state: &str, pending| {
            Reported::Here(HostReport {
                state: state.to_owned(),
                pending,
                ..HostReport::default()
            })
        };
        let ssh = Ssh::alone();
        let world = World {
            ssh: &ssh,
            name: "pg".parse().unwrap(),
            document: None,
            reports: vec![
                ("same".to_owned(), report("installed", false)),
                ("older".to_owned(), report("installed", false)),
                ("pending".to_owned(), report("running", true)),
                ("absent".to_owned(), report("", false)),
                ("down".to_owned(), Reported::Down("no route".to_owned())),
                ("other".to_owned(), report("installed", true)),
            ],
            older: vec!["older".to_owned()],
        };
        let hosts = ["same", "older", "pending", "absent", "down"].map(str::to_owned);
        for (words, expected) in [
            (&["boot", "pg"][..], "older pending absent"),
            (&["apply", "pg"], "same older pending absent"),
            (&["apply", "-d", "pg"], ""),
            (&["verify", "pg"], ""),
            (&["halt", "pg"], ""),
            (&["uninstall", "-F", "pg"], ""),
        ] {
            let request = crate::args::tests::request(words);
            let taking = taking(&world, &request, &hosts).join(" ");
            assert_eq!(taking, expected, "{words:?}");
        }
    }
}
