//! The state of the host's network that zones use: `zoneadm network`.

use std::path::{Path, PathBuf};

use net::Record;
use net::host_side::{self, Needs, Settings};
use serde::Serialize;

use crate::network::common::{Common, root_of};
use crate::network::error::NetworkError;
use crate::network::file::read;
use crate::network::{prepare, published, resolver};

pub use net::host_side::{Part, PartState};

/// The host's network, and the links of all ZONES_ROOTs for which the host routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostNetwork {
    /// The parts that were created or changed for zones.
    pub parts: Vec<Part>,
    /// The links of zones for which the host routes, sorted by ZONES_ROOT and zone. The links of a
    /// killed zone stay in the list until a command notices the end of the zone.
    pub links: Vec<ZoneLink>,
    /// The description of the chain of the host's firewall that blocks the zones' connections to
    /// the outside, if there is one.
    pub firewall: Option<String>,
    /// The reason why zones do not know the names of other zones, if the host cannot run the
    /// resolver.
    pub names: Option<String>,
}

/// A link of a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ZoneLink {
    /// The ZONES_ROOT of the zone.
    pub root: String,
    /// The name of the zone.
    pub zone: String,
    /// The link's name in the zone.
    pub link: String,
    /// The host's end of the link, or its macvlan link.
    pub host: Option<String>,
    /// The description of the link's kind and of its lower link.
    pub over: String,
    /// The addresses that the zone has by its configuration, with prefix lengths.
    pub addresses: Vec<String>,
    /// The published ports of the host, as `[ADDRESS:]PORT[-PORT]/PROTOCOL`.
    pub published: Vec<String>,
}

impl HostNetwork {
    /// Returns whether another program has removed or changed a part of the zones' network.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.parts.iter().any(|part| part.state == PartState::Lost)
    }
}

/// Returns the state of the host's network, and changes nothing. Must be called in the host's
/// namespaces.
///
/// # Errors
/// Fails if the kernel's state cannot be read.
pub fn look() -> Result<HostNetwork, NetworkError> {
    let Some(common) = Common::open_existing().map_err(NetworkError::Common)? else {
        return Ok(HostNetwork::default());
    };
    let settings: Settings = read(&common.settings())?.unwrap_or_default();
    let records = records(&common);
    let needs = needs(&common, &records);
    let forwards = published::forwards(&common).map_err(NetworkError::Common)?;
    let mut parts = host_side::parts(&needs, &forwards, &settings)
        .map_err(|error| NetworkError::Common(error.into()))?;
    let mut names = None;
    if needs.has_pool() {
        let is_up = matches!(resolver::state(common.folder()), resolver::State::Up(_));
        if !is_up {
            names = resolver::obstacle();
        }
        if names.is_none() {
            parts.push(Part {
                part: format!("resolver of {}", resolver::DOMAIN),
                state: if is_up {
                    PartState::Set
                } else {
                    PartState::Lost
                },
                before: None,
            });
        }
    }
    // The next step runs nft(8). Other commands must not wait for it, so the lock is released.
    drop(common);
    let firewall = match needs.has_rules() {
        true => host_side::firewall_warnings(),
        false => Vec::new(),
    };
    let mut links: Vec<ZoneLink> = records
        .iter()
        .flat_map(|(path, record)| links_of(path, record))
        .collect();
    links.sort();
    Ok(HostNetwork {
        parts,
        links,
        firewall: (!firewall.is_empty()).then(|| firewall.join("\n")),
        names,
    })
}

/// Restores the parts of the host's network that zones need and that another program has removed or
/// changed. Must be called in the host's namespaces.
///
/// # Errors
/// Fails with the part that could not be restored.
pub fn repair() -> Result<(), NetworkError> {
    let Some(common) = Common::open_existing().map_err(NetworkError::Common)? else {
        return Ok(());
    };
    let needs = needs(&common, &records(&common));
    if needs.is_nothing() {
        return Ok(());
    }
    prepare(&common, &needs).map_err(NetworkError::Common)?;
    Ok(())
}

/// Returns the records of all zones for which the host routes. An unreadable record is an error
/// only for its own zone.
fn records(common: &Common) -> Vec<(PathBuf, Record)> {
    let paths = common.link_records().into_iter();
    paths
        .filter_map(|path| {
            let record = read::<Record>(&path).ok()??;
            Some((path, record))
        })
        .collect()
}

fn needs(common: &Common, records: &[(PathBuf, Record)]) -> Needs {
    let links = records.iter().flat_map(|(_, record)| &record.links);
    let mut needs = Needs::of_record(&Record {
        links: links.cloned().collect(),
        ..Record::default()
    });
    if common.has_holds() {
        needs.hold();
    }
    needs
}

fn links_of(path: &Path, record: &Record) -> Vec<ZoneLink> {
    let zone = path.file_stem().unwrap_or_default().to_string_lossy();
    let links = record.links.iter().map(|held| ZoneLink {
        root: root_of(path).to_string_lossy().into_owned(),
        zone: zone.clone().into_owned(),
        link: held.name.clone(),
        host: held.host.clone().or_else(|| held.outer.clone()),
        over: held.over.clone(),
        addresses: held.addresses.iter().map(ToString::to_string).collect(),
        published: held.published.iter().map(ToString::to_string).collect(),
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_zone_and_the_root_of_its_links() {
        let mut held = net::record::Held {
            name: "net0".into(),
            host: Some("zone1-0".into()),
            over: "routed by the host".into(),
            ..Default::default()
        };
        held.addresses = vec![net::pool::of_host()[0]];
        let record = Record {
            links: vec![held],
            ..Record::default()
        };
        let links = links_of(Path::new("/srv/run/zones/network/web.json"), &record);
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].root, "/srv");
        assert_eq!((&*links[0].zone, &*links[0].link), ("web", "net0"));
        assert_eq!(links[0].host.as_deref(), Some("zone1-0"));
        assert!(links[0].addresses[0].starts_with("10.208.0.1/"));
        let main = links_of(Path::new("/run/zones/network/web.json"), &record);
        assert_eq!(main[0].root, "/");
    }
}
