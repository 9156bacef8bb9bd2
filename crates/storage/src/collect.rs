//! Clears away what crashes left in a folder of layers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, LINK, MOUNTED, ref_target};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::{DEAD, LayerPath, Layers, REFS, User, same_path};
use crate::remove;
use crate::snapshot::SNAPSHOTS;

/// What [`collect`] did and found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Collected {
    /// References removed because their dataset stands on another layer.
    pub stale_refs: usize,
    /// Trees removed: unused layers, and removals that were cut off.
    pub removed: usize,
    /// Where references lead that have no dataset there: the zone was moved or
    /// deleted by hand. Their layers are kept.
    pub lost: Vec<PathBuf>,
}

/// What to do with a layer whose user is nowhere to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Keep the layer: the zonepath may be unmounted or moved.
    Keep,
    /// Take the user for gone.
    Drop,
}

/// Removes stale references, layers without users and unfinished removals.
///
/// A reference is stale only on evidence: its dataset (the same id, at the path
/// it names or anywhere beside the folder of layers) stands on another layer.
/// A dataset that is not found is no evidence, see [`Lost`].
pub fn collect(layers: &Path, lost: Lost) -> Result<Collected> {
    collect_around(layers, lost, None)
}

/// [`collect`] for whoever holds the lock of the dataset at `own`: that one is not mended.
pub(crate) fn collect_around(layers: &Path, lost: Lost, own: Option<&Path>) -> Result<Collected> {
    let mut report = Collected::default();
    let layers = match Layers::open(layers) {
        Err(e) if e.is_missing() => return Ok(report),
        other => other?,
    };
    let neighbours = neighbours(&layers)?;
    // Opening mends what a seal or clone left undone. Before the lock: a seal
    // takes the locks in the other order.
    let has_no_top = |path: &Path| {
        path.ends_with(MOUNTED) || path.parent().is_some_and(|at| at.ends_with(SNAPSHOTS))
    };
    let is_own = |path: &Path| own.is_some_and(|own| same_path(own, path));
    let others = neighbours.values();
    for path in others.filter(|path| !has_no_top(path) && !is_own(path)) {
        match Dataset::open(path) {
            Ok(_) | Err(Error::NoDataset(_) | Error::LayerMissing { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    let mut graves = Vec::new();
    {
        let _lock = layers.lock_exclusive()?;
        for layer in layers.list()? {
            graves.extend(sweep(&layer, &neighbours, lost, &mut report)?);
        }
        if layers.folder.is_folder(DEAD)? {
            let dead = layers.folder.open_child(DEAD)?;
            for (name, _) in dead.entries()? {
                graves.push(dead.path().join(name));
            }
        }
    }
    graves.sort();
    graves.dedup();
    for grave in graves {
        remove::bury(&grave)?;
        report.removed += 1;
    }
    Layers::leave(layers.folder.path())?;
    report.lost.sort();
    report.lost.dedup();
    Ok(report)
}

/// The datasets beside the folder of layers, or the one around it, by id.
fn neighbours(layers: &Layers) -> Result<BTreeMap<Id, PathBuf>> {
    let mut found = BTreeMap::new();
    let around = Folder::open(&layers.common())?;
    let mut note = |path: PathBuf| {
        let Ok(folder) = Folder::open(&path) else {
            return;
        };
        let dataset = Dataset::at(folder);
        // A broken link is that zone's trouble, found when it is opened.
        if let Ok(Some((_, id))) = dataset.names() {
            found.insert(id, path);
        }
        for other in dataset.others().unwrap_or_default() {
            if let Ok(Some((_, id))) = other.names() {
                found.insert(id, other.zonepath().to_owned());
            }
        }
    };
    if around.kind(LINK)?.is_some() {
        note(around.path().to_owned());
    }
    for (name, _) in around.entries()? {
        note(around.path().join(name));
    }
    Ok(found)
}

/// Where a dataset with this id is, and the layer it stands on.
fn locate(
    place: &Path,
    id: Id,
    neighbours: &BTreeMap<Id, PathBuf>,
) -> Option<(PathBuf, LayerPath)> {
    let named = std::iter::once(place).chain(neighbours.get(&id).map(PathBuf::as_path));
    for path in named {
        let Ok(folder) = Folder::open(path) else {
            continue;
        };
        if let Ok(Some((layer, found))) = Dataset::at(folder).names() {
            if found == id {
                return Some((path.to_owned(), layer));
            }
        }
    }
    None
}

fn sweep(
    layer: &LayerPath,
    neighbours: &BTreeMap<Id, PathBuf>,
    lost: Lost,
    report: &mut Collected,
) -> Result<Vec<PathBuf>> {
    let folder = match layer.open() {
        // Put aside while a layer above was looked at.
        Err(e) if e.is_missing() => return Ok(Vec::new()),
        other => other?,
    };
    let sealed = layer.form()?.is_some();
    let users = if folder.is_folder(REFS)? {
        folder.open_child(REFS)?.entries()?
    } else {
        Vec::new()
    };
    let mut graves = Vec::new();
    let mut live = 0_usize;
    for (name, _) in &users {
        let place = ref_target(layer, name)?;
        let verdict = match (User::parse(name), &place) {
            // Half of a link that was being replaced.
            (None, _) | (_, None) => Verdict::Stale,
            (Some(User::Layer(_)), Some(place)) => judge_layer(layer, place)?,
            (Some(User::Dataset(id)), Some(place)) => {
                match locate(place, id, neighbours) {
                    Some((_, stands)) if stands == *layer => Verdict::Live,
                    Some(_) => Verdict::Stale,
                    // A seal that was cut off before the dataset named it.
                    None if !sealed => Verdict::Stale,
                    None => Verdict::Lost,
                }
            }
        };
        match (verdict, lost) {
            (Verdict::Live, _) => live += 1,
            (Verdict::Lost, Lost::Keep) => {
                live += 1;
                report.lost.extend(place);
            }
            (Verdict::Stale | Verdict::Lost, _) => {
                report.stale_refs += 1;
                graves.extend(layer.drop_ref(&name.to_string_lossy())?);
            }
        }
    }
    if live == 0 && graves.is_empty() {
        // Nobody at all: cut off while it was made or while it was put aside.
        graves.extend(layer.drop_ref("")?);
    }
    Ok(graves)
}

enum Verdict {
    Live,
    Stale,
    Lost,
}

/// A layer above holds its reference while it says that it stands here.
fn judge_layer(layer: &LayerPath, place: &Path) -> Result<Verdict> {
    let above = place.parent().zip(place.file_name().and_then(Id::parse));
    let Some((layers, id)) = above else {
        return Ok(Verdict::Stale);
    };
    let above = LayerPath {
        layers: layers.to_owned(),
        id,
    };
    match above.parent() {
        Ok(Some(parent)) if parent == *layer => Ok(Verdict::Live),
        Ok(_) => Ok(Verdict::Stale),
        Err(e) if e.is_missing() => Ok(Verdict::Stale),
        Err(e) => Err(e),
    }
}
