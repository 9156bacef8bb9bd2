//! Compares the host's part of the zones' network with the needs of the zones.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{Error, Needs, Settings, TABLE, plan};
use crate::publish::Forward;

/// The state of a part of the host's network for zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartState {
    /// The part exists as zones need it.
    Set,
    /// Another program has removed or changed the part.
    Lost,
}

/// A part of the host's network that was made or changed for zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The name of the part: the file below /proc/sys, the address, or the nftables table.
    pub part: String,
    /// The state of the part.
    pub state: PartState,
    /// The content of the file before the change for zones; `None` for other parts.
    pub before: Option<String>,
}

/// Returns the parts of the host's network that `needs` asks for. A part is lost if
/// [`super::prepare`] would make it again. The caller must be in the host's network namespace.
///
/// # Errors
/// Fails if the kernel's state cannot be read, or if the host has a route into the pool.
pub fn parts(needs: &Needs, forwards: &[Forward], settings: &Settings) -> Result<Vec<Part>, Error> {
    let recorded = settings;
    let mut settings = settings.clone();
    let work = plan(needs, forwards, &mut settings)?;
    let is_lost = |path: &str| {
        let is_wrong = work.settings.iter().any(|(changed, _)| changed == path);
        is_wrong && !is_of_new_link(path, recorded)
    };
    let mut parts = files(&settings, is_lost);
    if needs.pool {
        for own in crate::pool::of_host() {
            let is_missing = work.missing.iter().any(|one| one.ip == own.ip);
            if own.ip.is_ipv6() && is_missing && !has_ipv6() {
                continue;
            }
            parts.push(Part {
                part: format!("address {}", own.ip),
                state: state(is_missing),
                before: None,
            });
        }
    }
    if needs.has_rules() {
        parts.push(Part {
            part: format!("table inet {TABLE}"),
            state: state(work.rules.is_some()),
            before: None,
        });
    }
    Ok(parts)
}

/// Returns the files that were changed for zones and are still needed.
fn files(settings: &Settings, is_lost: impl Fn(&str) -> bool) -> Vec<Part> {
    let mut parts = Vec::new();
    for (path, before) in &settings.before {
        let is_lost = is_lost(path);
        let now = fs::read_to_string(path).unwrap_or_default();
        // The file is of a link that was removed, or that no zone needs any more.
        if !is_lost && now.trim() != needed(path) {
            continue;
        }
        parts.push(Part {
            part: path.clone(),
            state: state(is_lost),
            before: Some(before.clone()),
        });
    }
    parts
}

/// Returns true if a file says whether a link accepts router advertisements, and the link has come
/// since a zone was booted, such as the link of a container. Zones do not need this file: the next
/// boot sets it for the host.
fn is_of_new_link(path: &str, recorded: &Settings) -> bool {
    path.ends_with("/accept_ra") && recorded.before.iter().all(|(known, _)| known != path)
}

fn state(is_lost: bool) -> PartState {
    if is_lost {
        PartState::Lost
    } else {
        PartState::Set
    }
}

/// Returns true if the host's loopback can have IPv6 addresses.
fn has_ipv6() -> bool {
    let disabled = Path::new("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    fs::read_to_string(disabled).is_ok_and(|text| text.trim() == "0")
}

/// Returns the content that zones need in a file below /proc/sys. For accept_ra this is 2, so that
/// a host that forwards still accepts router advertisements.
fn needed(path: &str) -> &'static str {
    if path.ends_with("/accept_ra") {
        "2"
    } else {
        "1"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_advertisements_of_a_new_link_are_not_lost() {
        let mut recorded = Settings::default();
        let known = "/proc/sys/net/ipv6/conf/eth0/accept_ra";
        recorded.before.push((known.to_owned(), "1".to_owned()));
        assert!(!is_of_new_link(known, &recorded));
        let new = known.replace("eth0", "veth62868e0");
        assert!(is_of_new_link(&new, &recorded));
        // Without forwarding, zones do not reach the network of a new link.
        let forwarding = "/proc/sys/net/ipv4/conf/eth9/forwarding";
        assert!(!is_of_new_link(forwarding, &recorded));
    }

    #[test]
    fn only_files_that_zones_need_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        for (name, now) in [
            ("forwarding", "1\n"),
            ("accept_ra", "1\n"),
            ("proxy_ndp", "0\n"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, now).unwrap();
            let path = path.display().to_string();
            settings.before.push((path, "0".to_owned()));
        }
        let gone = folder.path().join("gone").display().to_string();
        settings.before.push((gone, "0".to_owned()));
        let parts = files(&settings, |path| path.ends_with("accept_ra"));
        let states: Vec<(bool, PartState)> = parts
            .iter()
            .map(|one| (one.part.ends_with("forwarding"), one.state))
            .collect();
        assert_eq!(states, [(true, PartState::Set), (false, PartState::Lost)]);
        assert_eq!(parts[0].before.as_deref(), Some("0"));
    }
}
