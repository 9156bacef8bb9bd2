//! Checks the layers of a host on disk: each needs a user. This code parses the format itself, so
//! that it does not share a fault with the programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the faults of the layers of the zones in a folder: those of [`lacking`], layers without
/// users, references of users that are gone or that use another layer, and removals that were not
/// completed.
#[must_use]
pub fn problems(zones: &Path) -> Vec<String> {
    let (mut found, wanted) = survey(bonds(zones));
    found.extend(garbage(&zones.join(".layers"), &wanted));
    found
}

/// Returns the users that have lost their layer or their reference on it. There are none at
/// any moment: whoever collects garbage then would remove a layer in use. Copies and snapshots
/// that are being made or removed, whose names begin with a dot, zonepaths with a mark of a
/// command that is making them and zonepaths without a top are only removed, and may lack both.
#[must_use]
pub fn lacking(zones: &Path) -> Vec<String> {
    let mut bonds = bonds(zones);
    bonds.retain(|bond| !is_unfinished(bond.strip_prefix(zones).unwrap_or(bond), zones));
    survey(bonds).0
}

/// Returns true for a symbolic link, by its path below `zones`, of a user that is incomplete.
fn is_unfinished(bond: &Path, zones: &Path) -> bool {
    let mut names = bond.iter().map(|name| name.to_string_lossy());
    if names.any(|name| name.starts_with('.')) {
        return true;
    }
    let zonepath = bond.iter().next().map(|name| zones.join(name));
    let zonepath = zonepath.unwrap_or_default();
    let names = inside(&zonepath);
    let names: Vec<_> = names
        .iter()
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy())
        .collect();
    let layer = |link: &str| linked(&zonepath.join(link))?.parent().map(Path::to_owned);
    // The zone itself keeps the layer until it uses another one.
    if bond.ends_with("mounted/dataset") && layer("mounted/dataset") == layer("dataset") {
        return true;
    }
    // During a switch of layers, a zone uses the layer that `back` leads to.
    if bond.components().count() == 2 && names.iter().any(|name| name == "back") {
        return true;
    }
    let has_top = ["root", "root.new", "vol", "vol.new"]
        .iter()
        .any(|top| names.iter().any(|name| name == top));
    !has_top || names.iter().any(|name| name.starts_with(".unfinished-"))
}

/// Returns the objects that the symbolic links in `bonds` need but that do not exist, and the
/// layers and references that are needed.
fn survey(bonds: Vec<PathBuf>) -> (Vec<String>, BTreeSet<PathBuf>) {
    let mut found = Vec::new();
    let mut wanted = BTreeSet::new();
    for bond in bonds {
        let target = linked(&bond);
        let reference = target.clone().unwrap_or_default();
        let layer = reference
            .parent()
            .and_then(Path::parent)
            .map(Path::to_owned);
        let Some(layer) = layer.filter(|layer| layer.is_dir()) else {
            found.push(format!("{} leads to no layer", bond.display()));
            continue;
        };
        if fs::symlink_metadata(&reference).is_err() {
            found.push(format!("{} has no reference on its layer", bond.display()));
        }
        wanted.insert(reference);
        wanted.insert(layer);
    }
    // Each layer needs the layer below it, with its own reference to it.
    let mut open: Vec<PathBuf> = wanted
        .iter()
        .filter(|path| path.is_dir())
        .cloned()
        .collect();
    while let Some(layer) = open.pop() {
        let Some(parent) = linked(&layer.join("parent")) else {
            continue;
        };
        let name = layer
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let reference = parent.join("refs").join(format!("layer-{name}"));
        if !parent.is_dir() {
            found.push(format!("layer {name} stands on one that is missing"));
        } else if fs::symlink_metadata(&reference).is_err() {
            found.push(format!("layer {name} has no reference on its parent"));
        }
        wanted.insert(reference);
        if wanted.insert(parent.clone()) {
            open.push(parent);
        }
    }
    (found, wanted)
}

/// Returns the layers, references and trees that have no user.
fn garbage(layers: &Path, wanted: &BTreeSet<PathBuf>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in inside(layers) {
        if entry.ends_with(".dead") {
            let graves = inside(&entry).len();
            if graves > 0 {
                found.push("trees in .dead".to_owned());
            }
            continue;
        }
        if !wanted.contains(&entry) {
            found.push("a layer that nobody stands on".to_owned());
            continue;
        }
        for reference in inside(&entry.join("refs")) {
            if !wanted.contains(&reference) {
                let place = fs::read_link(&reference).unwrap_or_default();
                found.push(format!("a reference of nobody: {}", place.display()));
            }
        }
        if !["tree", "vol"].iter().any(|name| entry.join(name).exists()) {
            found.push("a layer without a tree".to_owned());
        }
    }
    found
}

/// Returns the symbolic links from datasets, snapshots and mounted roots to their layers.
fn bonds(zones: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for zonepath in inside(zones) {
        if zonepath.ends_with(".layers") {
            continue;
        }
        found.push(zonepath.join("dataset"));
        found.push(zonepath.join("mounted/dataset"));
        found.extend(
            inside(&zonepath.join("snapshots"))
                .iter()
                .map(|at| at.join("dataset")),
        );
        // Boot environments that are being prepared are at the same depth as snapshots.
        found.extend(
            inside(&zonepath.join("environments"))
                .iter()
                .map(|at| at.join("dataset")),
        );
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    found
}

/// Returns the target of a symbolic link, as the link stores it.
fn linked(link: &Path) -> Option<PathBuf> {
    let text = fs::read_link(link).ok()?;
    let mut path = link.parent()?.to_owned();
    for part in text.components() {
        match part {
            std::path::Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    Some(path)
}

fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
