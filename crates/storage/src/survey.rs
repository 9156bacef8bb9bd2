//! Lists the leftovers that [`collect`](crate::collect()) would remove, and changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::collect::{Reference, Verdict, has_no_top, neighbours, users};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::layers::{Layers, User};
use crate::layout::DEAD;

/// A leftover of a killed operation in a folder of layers, or beside this folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Garbage {
    /// A layer that no dataset and no snapshot uses.
    Layer(PathBuf),
    /// A stale reference on a layer that has other users: the dataset that the reference names uses
    /// another layer.
    Reference(PathBuf),
    /// A tree whose removal was interrupted, or the mark of a killed operation.
    Dead(PathBuf),
    /// A zonepath in which a seal, a snapshot or a rollback was interrupted.
    Unfinished(PathBuf),
    /// A reference that names a path at which there is no dataset and no layer: the zone was moved or
    /// deleted by hand, or its storage is not mounted. The referenced layer is kept for this user.
    Lost {
        /// The path of the reference.
        reference: PathBuf,
        /// The path at which the dataset or layer was expected.
        place: PathBuf,
    },
}

/// Returns the leftovers in a folder of layers and beside the folder, sorted, and changes nothing.
/// Returns `None` while an operation is in progress in the folder, because the trees of this
/// operation are no leftovers.
///
/// # Errors
/// Fails if a folder or link cannot be read.
pub fn survey(layers: &Path) -> Result<Option<Vec<Garbage>>> {
    let layers = match Layers::open(layers) {
        Err(e) if e.is_missing() => return Ok(Some(Vec::new())),
        other => other?,
    };
    let Some(_lock) = layers.folder.try_lock()? else {
        return Ok(None);
    };
    let neighbours = neighbours(&layers)?;
    let mut unfinished = BTreeSet::new();
    for path in neighbours.values().filter(|path| !has_no_top(path)) {
        if is_unfinished(path)? {
            unfinished.insert(path.clone());
        }
    }
    // The layers below an unfinished zone are judged only after the zone is repaired.
    let is_open = |user: &Reference| match User::parse(&user.name) {
        Some(User::Dataset(id)) => {
            let mut places = user.place.iter().chain(neighbours.get(&id));
            places.any(|at| unfinished.iter().any(|zonepath| at.starts_with(zonepath)))
        }
        _ => false,
    };
    let mut all = Vec::new();
    for layer in layers.list()? {
        if let Some(mut users) = users(&layer, &neighbours)? {
            for user in users.iter_mut().filter(|user| is_open(user)) {
                user.verdict = Verdict::Live;
            }
            all.push((layer, users));
        }
    }
    // A layer that only unused layers use is removed with those layers.
    let mut gone: BTreeSet<PathBuf> = BTreeSet::new();
    let above = |user: &Reference| match User::parse(&user.name) {
        Some(User::Layer(_)) => user.place.clone(),
        _ => None,
    };
    loop {
        let before = gone.len();
        for (layer, users) in &all {
            let mut live = users.iter().filter(|user| {
                user.verdict != Verdict::Stale && above(user).is_none_or(|at| !gone.contains(&at))
            });
            if live.next().is_none() {
                gone.insert(layer.path());
            }
        }
        if gone.len() == before {
            break;
        }
    }
    let mut found: Vec<Garbage> = unfinished.into_iter().map(Garbage::Unfinished).collect();
    for (layer, users) in &all {
        if gone.contains(&layer.path()) {
            continue;
        }
        for user in users {
            let reference = layer.refs().join(&user.name);
            match (user.verdict, &user.place) {
                (Verdict::Live, _) => {}
                (Verdict::Lost, Some(place)) => found.push(Garbage::Lost {
                    reference,
                    place: place.clone(),
                }),
                (Verdict::Stale | Verdict::Lost, _) => found.push(Garbage::Reference(reference)),
            }
        }
    }
    found.extend(gone.into_iter().map(Garbage::Layer));
    if layers.folder.is_folder(DEAD)? {
        let dead = layers.folder.open_child(DEAD)?;
        let names = dead.entries()?.into_iter();
        found.extend(names.map(|(name, _)| Garbage::Dead(dead.path().join(name))));
    }
    found.sort();
    Ok(Some(found))
}

/// Returns true if the next command that opens the dataset at a zonepath must repair the dataset.
fn is_unfinished(zonepath: &Path) -> Result<bool> {
    let folder = match Folder::open(zonepath) {
        Err(e) if e.is_missing() => return Ok(false),
        other => other?,
    };
    folder.must_be_known()?;
    // The holder of the lock repairs the dataset, or is changing it.
    if folder.try_lock()?.is_none() {
        return Ok(false);
    }
    match Dataset::at(folder).is_sound() {
        Ok(sound) => Ok(!sound),
        // A missing layer is no leftover. It is damage, which the next verb reports.
        Err(Error::NoDataset(_) | Error::LayerMissing { .. }) => Ok(false),
        Err(e) => Err(e),
    }
}
