//! The rules of labels for what zones share: a folder, a dataset or a device of the host belongs to
//! one label. A zone reads a lower zone only by the view that the programs mount, and writes to no
//! other label.

mod backing;
mod local;

use std::collections::BTreeSet;
use std::path::Path;

use label::{Label, Relation};
use model::config::LABEL;
use model::plan::DeviceNode;
use model::{Config, ZoneName, privilege};
use store::index::Index;
use store::xml;

use super::compared::Compared;
use super::sources::{is_read_only, lofs};
use host::{Error, Host, devices};

/// Refuses a copy of a zone's files to a zone whose label does not dominate the label of the files.
///
/// # Errors
/// Fails with [`Error::Refused`].
pub fn admit_copy(from: &Config, to: &Config) -> Result<(), Error> {
    let (Some(low), high) = (from.label(), to.label()) else {
        return Ok(());
    };
    if high.is_some_and(|high| high.dominates(low)) {
        return Ok(());
    }
    let shown = high.map_or_else(|| "no label".to_owned(), |high| format!("the label {high}"));
    Err(Error::Refused(format!(
        "has {shown}, and the files of zone {} have the label {low}: a copy at a label that does not dominate {low} would lower the label of the files.",
        from.name()
    )))
}

/// Returns the problems of a zone with a label.
pub(super) fn problems(host: &Host, index: &Index, config: &Config) -> Vec<String> {
    let Some(label) = config.label() else {
        return Vec::new();
    };
    let mut lines = of_zone(config);
    let mut compared = match Compared::new() {
        Ok(compared) => compared,
        Err(why) => {
            lines.push(format!("could not verify {LABEL}: {why}"));
            return lines;
        }
    };
    let nodes: Vec<DeviceNode> = devices::nodes(patterns(config));
    for entry in index.entries() {
        let zone = &entry.name;
        if zone.is_global() || zone == config.name() {
            continue;
        }
        let zonepath = host.root.path(&entry.zonepath);
        for other in configurations(host, zone, &mut lines) {
            let relation = other.label().map(|other| label.relation(other));
            let theirs = || devices::nodes(patterns(&other.config));
            if !nodes.is_empty() && (relation != Some(Relation::Equal) || other.runs) {
                lines.extend(of_devices(&nodes, &theirs(), zone));
            }
            if relation == Some(Relation::Equal) {
                continue;
            }
            let name = described(zone, other.label());
            lines.extend(of_folders(config, &other.config, &name, &mut compared));
            lines.extend(of_datasets(config, &other.config, &name));
            let theirs = (&other.config, zonepath.as_path());
            lines.extend(backing::problems(config, theirs, &name, &mut compared));
        }
    }
    lines
}

/// A configuration with which another zone runs, or will run.
struct Other {
    config: Config,
    runs: bool,
}

impl Other {
    fn label(&self) -> Option<Label> {
        self.config.label()
    }
}

/// Returns the configuration with which a zone runs, and its stored configuration, which may be
/// another one. A configuration that cannot be read is a problem: the zone could share anything.
fn configurations(host: &Host, zone: &ZoneName, lines: &mut Vec<String>) -> Vec<Other> {
    let mut unreadable = |error: &store::Error| {
        lines.push(format!(
            "could not verify {LABEL}: the configuration of zone {zone} cannot be compared: {}",
            host::flatten(error)
        ));
    };
    let mut found = Vec::new();
    match xml::load_running(&host.root, zone) {
        Ok(config) => found.push(Other { config, runs: true }),
        Err(store::Error::NoSuchZone(_)) => {}
        Err(error) => unreadable(&error),
    }
    match xml::load(&host.root, zone) {
        Ok(config) if found.iter().any(|other| other.config == config) => {}
        Ok(config) => found.push(Other {
            config,
            runs: false,
        }),
        Err(error) => unreadable(&error),
    }
    found
}

fn described(zone: &ZoneName, label: Option<Label>) -> String {
    match label {
        Some(label) => format!("zone {zone}, whose label is {label}"),
        None => format!("zone {zone}, which has no label"),
    }
}

/// Returns the problems of the zone alone.
fn of_zone(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let privileges = config.get("limitpriv");
    let openings = privilege::openings(privileges, config.ip_type(), false);
    let openings = openings.unwrap_or_default();
    for (open, name) in [
        (openings.unfiltered, "sys_unfiltered"),
        (openings.io_uring, "proc_io_uring"),
    ] {
        if open {
            lines.push(format!(
                "could not verify limitpriv {name}: a zone with a {LABEL} runs under the whole filter of system calls: remove {name}"
            ));
        }
    }
    lines.extend(config.filesystems().filter_map(|fs| local::problem(&fs)));
    lines
}

/// Returns a problem for each folder that overlaps with a folder of a zone of another label, unless
/// both zones only read it.
fn of_folders(config: &Config, other: &Config, name: &str, compared: &mut Compared) -> Vec<String> {
    let mut lines = Vec::new();
    for ours in lofs(config) {
        for theirs in lofs(other) {
            if is_read_only(&ours) && is_read_only(&theirs) {
                continue;
            }
            let (own, their) = (Path::new(&ours.special), Path::new(&theirs.special));
            if let Some(relation) = compared.relation(own, their) {
                lines.push(format!(
                    "could not verify fs {}: {} {relation} {}, the source of fs {} of {name}: two labels share no folder that one of them can write to",
                    ours.dir.display(),
                    ours.special,
                    theirs.special,
                    theirs.dir.display()
                ));
            }
        }
    }
    lines
}

fn of_datasets(config: &Config, other: &Config, name: &str) -> Vec<String> {
    let below = |low: &str, high: &str| {
        let rest = low.strip_prefix(high);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut lines = Vec::new();
    for own in config.datasets() {
        let mut theirs = other.datasets();
        if let Some(their) = theirs.find(|their| below(their, &own) || below(&own, their)) {
            lines.push(format!(
                "could not verify zfs dataset {own}: {their} is a dataset of {name}: a dataset belongs to one {LABEL}"
            ));
        }
    }
    lines
}

/// Returns the patterns of the devices that are compared. All zones with a dataset have /dev/zfs,
/// by which the kernel shows each of them its own datasets only.
fn patterns(config: &Config) -> impl Iterator<Item = String> {
    let all = config.device_patterns();
    all.filter(|pattern| pattern != "/dev/zfs")
}

fn of_devices(own: &[DeviceNode], theirs: &[DeviceNode], zone: &ZoneName) -> Vec<String> {
    let id = |node: &DeviceNode| (node.block, node.major, node.minor);
    let taken: BTreeSet<_> = theirs.iter().map(id).collect();
    let found = own.iter().find(|node| taken.contains(&id(node)));
    let line = found.map(|node| {
        format!(
            "could not verify device {}: zone {zone} has it: with a {LABEL}, a device is in one zone at a time",
            node.path.display()
        )
    });
    line.into_iter().collect()
}

#[cfg(test)]
mod tests;
