//! Seeds for cloud-init: the data source NoCloud.
//!
//! A seed has up to four files. `user-data` and `vendor-data` are the administrator's and are
//! copied unread. `meta-data` gets the uuid of the zone as `instance-id` and the name of the zone as
//! `local-hostname`, unless the administrator's file has these keys. `network-config` is the
//! administrator's; without one, cloud-init does not touch the network, because the host configures
//! the links of a zone before its init starts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use model::Config;
use model::config::Resource;

use super::{read_host_file, refuse};
use crate::Error;
use crate::identity::{Identity, Stack};
use crate::tree::Meta;

/// The settings of the administrator: a cloud-config, or a script.
pub(super) const USER_DATA: &str = "user-data";
/// The facts about the instance.
pub(super) const META_DATA: &str = "meta-data";
const VENDOR_DATA: &str = "vendor-data";
const NETWORK_CONFIG: &str = "network-config";

/// The folder of a root in which cloud-init looks for a seed.
const FOLDER: &str = "var/lib/cloud/seed/nocloud";

/// Maximum size of a file of a seed, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The zone for which a seed is made.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// The name of the zone, which is its host name.
    pub name: &'a str,
    /// The uuid of the zone. cloud-init runs again if it changes, as in a clone.
    pub uuid: String,
    /// The network configuration for cloud-init, if the administrator's seed has none. Without any,
    /// cloud-init asks a DHCP server.
    pub network: Option<&'a str>,
}

/// The network configuration of a zone whose links the host configures.
pub const NO_NETWORK: &str = "config: disabled\n";

/// Returns the network configuration of a guest whose only link has static addresses; `None` for
/// another guest, which asks a DHCP server or gets its configuration from the seed.
#[must_use]
pub fn guest_network(config: &Config) -> Option<String> {
    let mut links = config.resources_of("anet");
    let (link, None) = (links.next()?, links.next()) else {
        return None;
    };
    // The host routes to a link without a lower link, and answers no ARP on it; netplan cannot
    // configure such a link.
    if matches!(link.get("lower-link"), "" | "auto") {
        return None;
    }
    let addresses: Vec<String> = words(link, "allowed-address")
        .filter(|address| address.parse::<IpAddr>().is_ok() || is_network(address))
        .map(|address| match address.contains('/') {
            true => format!("\"{address}\""),
            // An address without a length is in no network of its own.
            false if address.contains(':') => format!("\"{address}/128\""),
            false => format!("\"{address}/32\""),
        })
        .collect();
    if addresses.is_empty() {
        return None;
    }
    let mut text = format!(
        "version: 2\nethernets:\n  net0:\n    match: {{name: \"e*\"}}\n    addresses: [{}]\n",
        addresses.join(", ")
    );
    let routers = words(link, "defrouter").filter(|one| one.parse::<IpAddr>().is_ok());
    let routes: Vec<String> = routers
        .map(|one| {
            let all = if one.contains(':') {
                "::/0"
            } else {
                "0.0.0.0/0"
            };
            format!("      - {{to: \"{all}\", via: \"{one}\", on-link: true}}\n")
        })
        .collect();
    if !routes.is_empty() {
        text.push_str(&format!("    routes:\n{}", routes.concat()));
    }
    Some(text)
}

/// Returns the addresses of a property, which commas separate.
fn words<'r>(resource: &'r Resource, property: &str) -> impl Iterator<Item = &'r str> {
    resource.get(property).split(',').map(str::trim)
}

/// Returns true for an address with the length of its network.
fn is_network(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok()
    })
}

/// The files of a seed, with their names.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed {
    /// The names and contents. No message may contain a content, because it may have passwords.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

/// Prints no content, because it may have passwords.
impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.files.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Reads the seed in the folder `folder` of the host, and completes it for a zone.
///
/// # Errors
/// Fails with [`Error::Source`] if a file is too large or is no regular file, or if `meta-data` is
/// in JSON without the needed keys.
pub fn read(folder: &Path, instance: &Instance<'_>) -> Result<Seed, Error> {
    let given = |name: &str| -> Result<Option<Vec<u8>>, Error> {
        let path = folder.join(name);
        match path.exists() {
            true => read_host_file(&path, MAX_BYTES).map(Some),
            false => Ok(None),
        }
    };
    let meta = given(META_DATA)?.unwrap_or_default();
    let meta =
        complete(meta, instance).map_err(|problem| refuse(&folder.join(META_DATA), problem))?;
    let user = given(USER_DATA)?.unwrap_or_else(|| b"#cloud-config\n{}\n".to_vec());
    let mut files = vec![(META_DATA, meta), (USER_DATA, user)];
    let network = given(NETWORK_CONFIG)?.or_else(|| instance.network.map(Vec::from));
    if let Some(network) = network {
        files.push((NETWORK_CONFIG, network));
    }
    if let Some(vendor) = given(VENDOR_DATA)? {
        files.push((VENDOR_DATA, vendor));
    }
    Ok(Seed { files })
}

/// Adds the keys of the instance that the administrator's meta-data does not have.
fn complete(meta: Vec<u8>, instance: &Instance<'_>) -> Result<Vec<u8>, &'static str> {
    let text = String::from_utf8(meta).map_err(|_| "expected text in UTF-8")?;
    let is_json = text.trim_start().starts_with('{');
    let has = |key: &str| match is_json {
        true => text.contains(&format!("\"{key}\"")),
        false => text
            .lines()
            .any(|line| line.starts_with(&format!("{key}:"))),
    };
    let mut own = String::new();
    // A name such as 5e3 or on is no text in YAML without quotes.
    for (key, value) in [
        ("instance-id", instance.uuid.as_str()),
        ("local-hostname", instance.name),
    ] {
        if !has(key) {
            own.push_str(&format!("{key}: \"{value}\"\n"));
        }
    }
    match is_json && !own.is_empty() {
        true => {
            Err("expected the keys instance-id and local-hostname in JSON, or YAML without them")
        }
        false => Ok(format!("{own}{text}").into_bytes()),
    }
}

/// Makes the seed of a root that was copied the seed of another instance: sets its `instance-id`
/// and `local-hostname`. A root without a seed, or with `meta-data` in JSON, does not change.
///
/// # Errors
/// Fails if the top cannot be written.
pub fn renew(top: &Path, layers: &[PathBuf], identity: &Identity) -> Result<(), Error> {
    let mut stack = Stack::open(top, layers)?;
    let (name, id) = (identity.name.as_str(), &identity.machine_id);
    let file = Path::new(FOLDER).join(META_DATA);
    let Some((meta, owner)) = stack.read_with_meta(&file, MAX_BYTES)? else {
        return Ok(());
    };
    let Ok(text) = String::from_utf8(meta) else {
        return Ok(());
    };
    if text.trim_start().starts_with('{') {
        return Ok(());
    }
    let renewed: String = text
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("instance-id", _)) => format!("instance-id: \"{id}\"\n"),
            Some(("local-hostname", _)) => format!("local-hostname: \"{name}\"\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    stack.replace(&file, owner, renewed.as_bytes())
}

/// Writes a seed into a new root, for the cloud-init in it.
///
/// # Errors
/// Fails with [`Error::Refused`] if the root has no cloud-init.
pub fn write(seed: &Seed, top: &Path, layers: &[PathBuf]) -> Result<(), Error> {
    let mut stack = Stack::open(top, layers)?;
    if !stack.has_any(&["usr/bin/cloud-init", "usr/local/bin/cloud-init"])? {
        return Err(Error::Refused(
            "the root has no cloud-init to read user-data: install a root with the package cloud-init, or give a profile in XML (docs/first-boot.md)".to_owned(),
        ));
    }
    stack.folder(Path::new(FOLDER), Meta::root(0o700))?;
    for (name, content) in &seed.files {
        let name = Path::new(FOLDER).join(name);
        stack.replace(&name, Meta::root(0o600), content)?;
    }
    Ok(())
}
