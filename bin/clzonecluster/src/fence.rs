//! Fence requests: the zone of one node asks its host to halt or boot the zone of another node.
//!
//! zoneadmd calls [`serve`] with the words that the zone sent, which may be hostile. The host of the other node is
//! called by ssh, and its part is [`here`]. A success needs proof: the state of the zone on its host, or, if that host
//! does not answer, the word of the hosts' own cluster that it has fenced that host.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use cluster::View;
use clzc::{FenceAction, FenceRefused, FenceRequest, Node, Order, Outcome, Power, Remote};
use model::ZoneName;
use store::Root;

use crate::hosts::{Ssh, own_name};
use crate::local::{Files, call, zone};
use crate::world::{local, plain};

/// Time for a request: Pacemaker gives up a fence operation after 60 s, unless it is told otherwise.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(50);
/// Time for the host of the other node to answer.
const HOST_TIMEOUT: Duration = Duration::from_secs(40);
/// Time for a halt or a boot on the host of the other node.
const ZONE_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum time for the boot of a reboot, if the halt took most of the time of the request.
const MIN_BOOT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for an answer of Pacemaker.
const VIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two questions to Pacemaker if it has fenced a host.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Questions to Pacemaker before the host of the node is called again.
const LOOKS: u32 = 5;
/// Maximum age of a fencing of the host when the request arrives. The clusters of the hosts and of the zones notice the
/// loss of a host at about the same time. An older fencing proves nothing: the host may have been back since.
const MAX_FENCING_AGE: Duration = Duration::from_secs(60);

/// A failure. The text is for the zone, and names no host and no path; the details go to the zone's log on the host.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Refused(#[from] FenceRefused),
    #[error("{node}: its host refused or failed; the log of this zone on its host says why")]
    Host { node: String, why: String },
    #[error(
        "{node}: its host does not answer, and the cluster of the hosts has not confirmed that it has fenced this host"
    )]
    Unconfirmed { node: String, why: String },
    #[error("the host failed; the log of this zone on its host says why")]
    Here(anyhow::Error),
}

impl Failed {
    /// Returns the text for the log of the host.
    fn details(&self) -> String {
        match self {
            Self::Refused(why) => format!("refused: {why}"),
            Self::Host { why, .. } | Self::Unconfirmed { why, .. } => why.clone(),
            Self::Here(error) => format!("{error:#}"),
        }
    }
}

/// Carries out the request of a zone. Returns the exit status, and prints the answer for the zone.
pub fn serve(name: &ZoneName, words: &[String]) -> u8 {
    let asked = plain(&words.join(" "));
    let root = match cli::root(None) {
        Ok(root) => root,
        Err(error) => {
            eprintln!("fence: {error:#}");
            return cli::status::ERROR;
        }
    };
    let began = Instant::now();
    let done = request(&root, name, words);
    let seconds = began.elapsed().as_secs_f64();
    match done {
        Ok(answer) => {
            print!("{answer}");
            record(&root, name, &asked, None, seconds);
            cli::status::OK
        }
        Err(failed) => {
            eprintln!("fence: {failed}.");
            record(&root, name, &asked, Some(&failed.details()), seconds);
            cli::status::ERROR
        }
    }
}

/// Writes the end of a request to the zone's log and to the audit record.
fn record(root: &Root, name: &ZoneName, asked: &str, failed: Option<&str>, seconds: f64) {
    control::audit::record_fence(root, name, asked, failed);
    let end = failed.map_or_else(
        || "done".to_owned(),
        |why| format!("failed: {}", plain(why)),
    );
    let text = format!(
        "fence request '{asked}': {} ({seconds:.1} s)",
        end.replace('\n', " ")
    );
    control::log::message(root, name, &text);
}

/// Returns the answer for the zone.
fn request(root: &Root, name: &ZoneName, words: &[String]) -> Result<String, Failed> {
    let asked = FenceRequest::read(words)?;
    let document = Files::new()
        .and_then(|files| files.read(name))
        .map_err(Failed::Here)?;
    let cluster = document
        .and_then(|document| document.cluster)
        .ok_or(FenceRefused::NoCluster)?;
    let own = own_name();
    let Some(node) = asked.node(&cluster, &own)? else {
        let others = cluster
            .nodes
            .iter()
            .filter(|node| node.physical_host != own);
        return Ok(match asked.action {
            FenceAction::List => others.map(|node| format!("{},\n", node.hostname)).collect(),
            _ => String::new(),
        });
    };
    let victim = Victim {
        name,
        node,
        own: &own,
    };
    let power = match asked.action {
        FenceAction::Reboot => victim.reboot(root)?,
        action => victim.act(action)?,
    };
    Ok(format!("{}\n", power.word()))
}

/// A node that another one fences.
struct Victim<'a> {
    name: &'a ZoneName,
    node: &'a Node,
    /// Name of this host.
    own: &'a str,
}

/// The answer of the host of a node.
enum Said {
    Power(Power),
    /// The host does not answer, for this reason.
    Silent(String),
}

impl Victim<'_> {
    fn failed(&self, why: &str) -> Failed {
        Failed::Host {
            node: self.node.hostname.clone(),
            why: format!("{}: {why}", self.node.physical_host),
        }
    }

    /// Calls the host of the node.
    fn call(&self, action: FenceAction, limit: Duration) -> Result<Said, Failed> {
        let host = &self.node.physical_host;
        let more = [host, self.node.hostname.as_str(), action.name(), self.own];
        let order = Order {
            words: local("fence", self.name, &more),
            input: String::new(),
            limit,
        };
        match Ssh::alone().run(host, &order, &|_, _| {}) {
            Outcome::Ended {
                status: 0, output, ..
            } => Power::read(output.trim())
                .map(Said::Power)
                .ok_or_else(|| self.failed("its answer is neither on nor off")),
            Outcome::Ended { status, errors, .. } => {
                Err(self.failed(&format!("status {status}: {}", plain(errors.trim()))))
            }
            Outcome::Unreachable(why) => Ok(Said::Silent(plain(&why))),
            Outcome::Late(limit) => Ok(Said::Silent(format!("no answer in {} s", limit.as_secs()))),
        }
    }

    /// Has the host carry out `status`, `off` or `on`. Waits for the hosts' cluster to fence a host that does not answer.
    fn act(&self, action: FenceAction) -> Result<Power, Failed> {
        let asked = SystemTime::now();
        let end = Instant::now() + REQUEST_TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let silent = match self.call(action, left.min(HOST_TIMEOUT))? {
                Said::Power(power) => return Ok(power),
                Said::Silent(why) => why,
            };
            for _ in 0..LOOKS {
                let fenced = is_fenced(&self.node.physical_host, asked);
                let unconfirmed = match fenced {
                    Ok(true) if action != FenceAction::On => return Ok(Power::Off),
                    Ok(_) => {
                        "the cluster of the hosts has not confirmed that it has fenced this host"
                            .to_owned()
                    }
                    Err(error) => format!("the cluster of the hosts cannot be asked: {error:#}"),
                };
                // The state of a silent host is not known now; only a fence operation waits for its end.
                if action != FenceAction::Off || Instant::now() + LOOK_INTERVAL >= end {
                    return Err(Failed::Unconfirmed {
                        node: self.node.hostname.clone(),
                        why: format!("{}: {silent}; {unconfirmed}", self.node.physical_host),
                    });
                }
                thread::sleep(LOOK_INTERVAL);
            }
        }
    }

    /// Halts the zone of the node, and boots it again. As with other fence agents, a boot that fails is no failure: the
    /// node is fenced.
    fn reboot(&self, root: &Root) -> Result<Power, Failed> {
        let began = Instant::now();
        let power = self.act(FenceAction::Off)?;
        let left = REQUEST_TIMEOUT.saturating_sub(began.elapsed());
        let note = match self.call(FenceAction::On, left.max(MIN_BOOT_TIMEOUT)) {
            Ok(Said::Power(power)) => return Ok(power),
            Ok(Said::Silent(why)) => why,
            Err(failed) => failed.details(),
        };
        let text = format!(
            "fence: {} is fenced, and was not booted again: {note}",
            self.node.hostname
        );
        control::log::message(root, self.name, &text);
        Ok(power)
    }
}

/// Returns true if the cluster of the hosts has fenced this host since shortly before the request, and the host has not
/// joined again.
fn is_fenced(host: &str, asked: SystemTime) -> anyhow::Result<bool> {
    // The times in the output are local times.
    let words = ["TZ=UTC", "crm_mon", "-1", "-r", "--output-as=xml"];
    let (status, output, errors) = call("env", &words, "", VIEW_TIMEOUT)?;
    ensure!(status == 0, "crm_mon: status {status}: {}", errors.trim());
    let view = View::read(&output)?;
    let since = asked.checked_sub(MAX_FENCING_AGE).unwrap_or(UNIX_EPOCH);
    let seconds = since
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Ok(view.is_fenced(host, seconds))
}

// ---- the host of the other node ----

/// Carries out an action on the zone of this host. Returns the state after it.
///
/// # Errors
/// Fails if the zone cluster as this host knows it has other nodes, or if the zone does not reach the wanted state.
pub fn here(
    files: &Files,
    name: &ZoneName,
    host: &str,
    hostname: &str,
    action: &str,
    from: &str,
) -> anyhow::Result<Power> {
    let document = files.read(name)?;
    let cluster = document.and_then(|document| document.cluster);
    let cluster = cluster.context("this host has no such zone cluster")?;
    let node = cluster
        .node(host)
        .context("this host has no node of the zone cluster")?;
    ensure!(host == own_name(), "this host is not {host}");
    ensure!(
        node.hostname == hostname,
        "the node of this host is {}, and {from} believes that it is {hostname}: run 'clzonecluster apply {name}'",
        node.hostname
    );
    ensure!(
        cluster.node(from).is_some(),
        "{from} has no node of the zone cluster"
    );
    let action = FenceAction::read(action).context("no such action")?;
    let root = cli::root(None)?;
    if action != FenceAction::Status {
        let text = format!(
            "fence: the node on {from} asked: {} {hostname}",
            action.name()
        );
        control::log::message(&root, name, &text);
        control::audit::record_fence(
            &root,
            name,
            &format!("{} {hostname} from {from}", action.name()),
            None,
        );
    }
    let before = power(name)?;
    let (wanted, verb) = match action {
        FenceAction::Status => return Ok(before),
        FenceAction::Off => (Power::Off, "halt"),
        FenceAction::On => (Power::On, "boot"),
        _ => bail!("{}: expected status, off or on", action.name()),
    };
    if before == wanted {
        return Ok(before);
    }
    let done = call("zoneadm", &["-z", name.as_str(), verb], "", ZONE_TIMEOUT);
    // The state counts: another command may have done the same at this time.
    let after = power(name)?;
    if after != wanted {
        let (status, _, errors) = done?;
        bail!(
            "zoneadm {verb}: status {status}, and the zone is {}: {}",
            after.word(),
            errors.trim()
        );
    }
    Ok(after)
}

fn power(name: &ZoneName) -> anyhow::Result<Power> {
    let (state, _) = zone(name)?;
    Power::of_state(&state)
        .with_context(|| format!("zone {name}: it is {state}, which is neither on nor off"))
}
