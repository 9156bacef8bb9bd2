//! Compares the host's part of the network of zones with the needs of zones.

use std::{fs, io};

use serde::Serialize;

use super::{Settings, TABLE, dropped, has_rules, missing};
use crate::netlink::Netlink;

/// The state of a part of the host's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartState {
    /// It is there, as zones need it.
    Set,
    /// Another program has removed or changed it.
    Lost,
}

/// A part of the host's network that was made or changed for zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The file below /proc/sys, the address, or the nftables table.
    pub part: String,
    /// Its state.
    pub state: PartState,
    /// The content of the file before the change for zones; nothing for other parts.
    pub before: Option<String>,
}

/// Returns the parts of the host's network that were made for zones, and a warning if the host's
/// firewall keeps zones from the outside. To be called in the host's network namespace.
///
/// # Errors
/// Fails if the kernel does not tell the host's addresses.
pub fn parts(settings: &Settings) -> io::Result<(Vec<Part>, Option<String>)> {
    let mut parts = Vec::new();
    for (path, before) in &settings.before {
        let Ok(now) = fs::read_to_string(path) else {
            // A link that has gone.
            continue;
        };
        parts.push(Part {
            part: path.clone(),
            state: state(now.trim() == needed(path)),
            before: Some(before.clone()),
        });
    }
    if settings.addressed {
        let missing = missing(&Netlink::open()?.all_addresses()?);
        for own in crate::pool::of_host() {
            let is_missing = missing.iter().any(|one| one.ip == own.ip);
            // A host without IPv6 has no address of IPv6.
            if own.ip.is_ipv4() || !is_missing {
                parts.push(Part {
                    part: format!("address {}", own.ip),
                    state: state(!is_missing),
                    before: None,
                });
            }
        }
    }
    let mut firewall = None;
    if settings.translates {
        parts.push(Part {
            part: format!("table inet {TABLE}"),
            state: state(has_rules(settings)),
            before: None,
        });
        firewall = dropped();
    }
    Ok((parts, firewall))
}

fn state(is_set: bool) -> PartState {
    if is_set {
        PartState::Set
    } else {
        PartState::Lost
    }
}

/// Returns the content that zones need of a file below /proc/sys: 2 lets a host that forwards go on
/// to accept router advertisements.
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
    fn a_setting_that_another_program_changed_back_is_lost() {
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
        let (parts, firewall) = parts(&settings).unwrap();
        let states: Vec<PartState> = parts.iter().map(|one| one.state).collect();
        use PartState::{Lost, Set};
        assert_eq!(states, [Set, Lost, Lost]);
        assert_eq!(parts[0].before.as_deref(), Some("0"));
        assert_eq!(firewall, None);
    }
}
