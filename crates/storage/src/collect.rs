//! Removes the files that crashes left in a folder of layers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::crash;
use crate::dataset::{Dataset, MOUNTED, check_path, ref_target};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::{LayerPath, Layers, User, has_remains, is_mark, same_path};
use crate::layout::{DEAD, LAYERS, LINK, REFS, SNAPSHOTS};
use crate::remove;

/// The result of [`collect`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Number of removed references whose dataset uses another layer.
    pub stale_refs: usize,
    /// Number of removed trees: unused layers, and trees whose removal was interrupted.
    pub removed: usize,
    /// The targets of references whose dataset, or whose folder of layers, does not exist, because
    /// the zone was moved or deleted by hand, or because its file system is not mounted. The layers
    /// of these references are kept.
    pub lost: Vec<PathBuf>,
}

/// The treatment of a layer whose user (a dataset that references it) cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Keep the layer, because the zonepath may be unmounted or moved.
    Keep,
    /// Treat the user of the layer as deleted.
    Drop,
}

/// The behaviour while an operation is in progress in the folder of layers. A snapshot of a large zone
/// takes minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The call waits for the operation.
    Yes,
    /// The call removes no layer and no reference. A later command does.
    No,
}

/// Removes stale references, layers without users and trees whose removal was interrupted.
///
/// A reference is stale only if its dataset was found and uses another layer. The dataset is found
/// by its id, at the path in the reference or beside the folder of layers. A missing dataset does
/// not make a reference stale (see [`Lost`]), except for the copies that commands make beside
/// zones.
pub fn collect(layers: &Path, lost: Lost) -> Result<Collected> {
    collect_around(layers, lost, None, Wait::Yes)
}

/// Runs [`collect`] in the folder that holds the layers of the dataset at `zonepath`, if an
/// operation was killed there. Returns a report of the removals. If no operation was killed, this
/// costs almost nothing, so every command that looks at a zone can begin with it. The zonepath need
/// not exist.
pub fn tidy(zonepath: &Path) -> Result<Option<Collected>> {
    check_path(zonepath)?;
    let mut done: Option<Collected> = None;
    for layers in [zonepath.with_file_name(LAYERS), zonepath.join(LAYERS)] {
        if has_remains(&layers)? {
            let collected = collect_around(&layers, Lost::Keep, None, Wait::No)?;
            done.get_or_insert_default().add(collected);
        }
    }
    Ok(done)
}

impl Collected {
    /// Adds the numbers and lost targets of a report about another folder to this report.
    pub fn add(&mut self, other: Self) {
        self.stale_refs += other.stale_refs;
        self.removed += other.removed;
        self.lost.extend(other.lost);
    }
}

impl Dataset {
    /// Runs [`crate::collect()`] on the folder that holds, or would hold, the layers of the dataset
    /// at `zonepath`. The dataset need not exist.
    pub fn collect(zonepath: &Path, lost: Lost) -> Result<Collected> {
        check_path(zonepath)?;
        let home = Layers::home(&Folder::open(zonepath)?)?;
        crate::collect(&home, lost)
    }
}

/// Runs [`collect`] for a caller that holds the lock of the dataset at `own`. This dataset is not
/// repaired.
pub(crate) fn collect_around(
    layers: &Path,
    lost: Lost,
    own: Option<&Path>,
    wait: Wait,
) -> Result<Collected> {
    let mut report = Collected::default();
    let layers = match Layers::open(layers) {
        Err(e) if e.is_missing() => return Ok(report),
        other => other?,
    };
    let neighbours = neighbours(&layers)?;
    // Opening a dataset completes an unfinished seal or clone. This happens before the layers are
    // locked, because a seal takes the locks in the opposite order.
    let is_own = |path: &Path| own.is_some_and(|own| same_path(own, path));
    let others = neighbours.values();
    for path in others.filter(|path| !has_no_top(path) && !is_own(path)) {
        match Dataset::mend(path) {
            Ok(()) | Err(Error::NoDataset(_) | Error::LayerMissing { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    let mut graves = Vec::new();
    {
        let _lock = match wait {
            Wait::Yes => layers.lock_exclusive()?,
            Wait::No => match layers.folder.try_lock()? {
                Some(lock) => lock,
                None => return Ok(report),
            },
        };
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
        report.removed += usize::from(!grave.file_name().is_some_and(is_mark));
    }
    Layers::leave(layers.folder.path())?;
    report.lost.sort();
    report.lost.dedup();
    Ok(report)
}

/// Returns true if the dataset at a path is a snapshot, or is mounted by a zone: such a dataset has
/// no top.
pub(crate) fn has_no_top(path: &Path) -> bool {
    path.ends_with(MOUNTED) || path.parent().is_some_and(|at| at.ends_with(SNAPSHOTS))
}

/// Returns the datasets beside the folder of layers, or the dataset that contains this folder, by
/// id.
pub(crate) fn neighbours(layers: &Layers) -> Result<BTreeMap<Id, PathBuf>> {
    let mut found = BTreeMap::new();
    let around = Folder::open(&layers.common())?;
    let mut note = |path: PathBuf| {
        let Ok(folder) = Folder::open(&path) else {
            return;
        };
        let dataset = Dataset::at(folder);
        // A damaged link is an error of that zone only, which opening the zone reports.
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

/// Returns the path and the layer of the dataset with this id.
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
    let Some(users) = users(layer, neighbours)? else {
        return Ok(Vec::new());
    };
    let mut graves = Vec::new();
    let mut live = 0_usize;
    for user in users {
        match (user.verdict, lost) {
            (Verdict::Live, _) => live += 1,
            (Verdict::Lost, Lost::Keep) => {
                live += 1;
                report.lost.extend(user.place);
            }
            (Verdict::Stale | Verdict::Lost, _) => {
                report.stale_refs += 1;
                crash::point();
                graves.extend(layer.drop_ref(&user.name.to_string_lossy())?);
            }
        }
    }
    if live == 0 && graves.is_empty() {
        // The layer has no user: a command was killed while it made the layer or removed it.
        graves.extend(layer.drop_ref("")?);
    }
    Ok(graves)
}

/// A reference on a layer, with the verdict of [`users`].
pub(crate) struct Reference {
    pub(crate) name: OsString,
    /// The path of the user to which the reference leads.
    pub(crate) place: Option<PathBuf>,
    pub(crate) verdict: Verdict,
}

/// Returns the references on a layer, each with a verdict. Returns `None` if the layer was moved to
/// the graves.
pub(crate) fn users(
    layer: &LayerPath,
    neighbours: &BTreeMap<Id, PathBuf>,
) -> Result<Option<Vec<Reference>>> {
    let folder = match layer.open() {
        // The layer was moved to the graves while a layer above it was checked.
        Err(e) if e.is_missing() => return Ok(None),
        other => other?,
    };
    let sealed = layer.form()?.is_some();
    let entries = match folder.open_child(REFS) {
        Err(e) if e.is_missing() => Vec::new(),
        refs => refs?.entries()?,
    };
    let judged = entries.into_iter().map(|(name, _)| {
        let place = ref_target(layer, &name)?;
        let verdict = match (User::parse(&name), &place) {
            // The reference is half of a link that was being replaced.
            (None, _) | (_, None) => Verdict::Stale,
            (Some(User::Layer(_)), Some(place)) => judge_layer(layer, place)?,
            (Some(User::Dataset(id)), Some(place)) => {
                match locate(place, id, neighbours) {
                    Some((_, stands)) if stands == *layer => Verdict::Live,
                    Some(_) => Verdict::Stale,
                    // A seal was interrupted before the dataset named this layer.
                    None if !sealed => Verdict::Stale,
                    None if is_copy(layer, place) => Verdict::Stale,
                    None => Verdict::Lost,
                }
            }
        };
        Ok(Reference {
            name,
            place,
            verdict,
        })
    });
    judged.collect::<Result<_>>().map(Some)
}

/// Returns true if a user that was not found is a copy that a command makes beside a zone, such as
/// `.patch-web`. Only the command knows this copy, so no administrator moved it, and the copy is on
/// the same file system as the layers.
fn is_copy(layer: &LayerPath, place: &Path) -> bool {
    let is_hidden = |name: &OsStr| name.as_bytes().starts_with(b".");
    place.file_name().is_some_and(is_hidden) && layer.layers.parent() == place.parent()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Live,
    Stale,
    Lost,
}

/// Judges the reference of a layer above: the reference is live while the link of that layer names
/// this layer as its parent. If the other folder of layers is missing, the reference is lost.
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
        // The other file system may be unmounted, or the folder moved.
        Err(e) if e.is_missing() && above.layers != layer.layers && !above.layers.exists() => {
            Ok(Verdict::Lost)
        }
        Err(e) if e.is_missing() => Ok(Verdict::Stale),
        Err(e) => Err(e),
    }
}
