//! Copies a zonepath to another file system: the dataset with its layers and snapshots, and all
//! other files. The copy needs no layer of the original.
//!
//! The layers of the dataset and of its snapshots are a tree: several snapshots may stand on one
//! layer. The copy makes this tree again with the operations of every dataset, one layer after the
//! other: it copies the tree of a layer into the top and seals it, makes the snapshots of this
//! layer, and returns to a snapshot before it copies the next branch. So a crash leaves a dataset
//! that [`Dataset::destroy`] removes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use crate::copy::{Copied, Copier, Watch};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::layers::LayerPath;
use crate::layout::{
    BACK, LAYERS, LINK, MOUNTED, NEXT_ROOT, NEXT_VOLUME, QUOTA, ROOT, SNAPSHOTS, TOPS, VOLUME, WORK,
};
use crate::name::Name;
use crate::{crash, remove};

/// The entries of a zonepath that belong to its dataset, to its layers, or to a file system whose
/// root the zonepath is.
const NOT_COPIED: &[&str] = &[
    ROOT,
    NEXT_ROOT,
    WORK,
    VOLUME,
    NEXT_VOLUME,
    LINK,
    "dataset.new",
    BACK,
    "back.new",
    QUOTA,
    "quota.new",
    SNAPSHOTS,
    MOUNTED,
    LAYERS,
    "lost+found",
];

/// The folder, beside a tree that is being copied, of the extra names of files with several names.
const LINKS: &str = ".links";

impl Dataset {
    /// Copies the dataset of a halted zone, its snapshots, and all other files of its zonepath to
    /// `zonepath`, a folder that has no dataset. The copy has layers of its own. `tell` receives
    /// the progress.
    ///
    /// After an error the copy is not complete: [`Dataset::destroy`] removes its dataset.
    pub fn copy_to(&self, zonepath: &Path, tell: &mut dyn FnMut(&Copied)) -> Result<Copied> {
        remove::refuse_mounts(self.zonepath.path(), TOPS)?;
        let _lock = self.lock()?;
        self.let_go_locked()?;
        let tree = Tree::of(self)?;
        let mut copy = Copy {
            to: Self::create(zonepath)?,
            from: self,
            tree: &tree,
            own: BTreeSet::new(),
            done: Copied::default(),
            tell,
        };
        copy.fill(0)?;
        for name in std::mem::take(&mut copy.own) {
            copy.to.destroy_snapshot(&name)?;
        }
        copy.others()?;
        let done = copy.done;
        if let Some(bytes) = self.quota()? {
            crate::driver_at(zonepath)?.set_quota(zonepath, Some(bytes))?;
        }
        Ok(done)
    }
}

/// A layer that the dataset or one of its snapshots needs, or the place below all layers.
#[derive(Debug, Default)]
struct Node {
    /// `None` for the place below all layers.
    layer: Option<LayerPath>,
    /// The snapshots of this layer, with their times of creation.
    snapshots: Vec<(Name, SystemTime)>,
    /// The layers that stand on this one. The last of them is below the top, if one is.
    above: Vec<usize>,
    /// True if the top stands on this layer.
    holds_top: bool,
}

/// The layers of a dataset and of its snapshots.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    fn of(dataset: &Dataset) -> Result<Self> {
        let mut tree = Self {
            nodes: vec![Node::default()],
        };
        for folder in dataset.snapshot_folders()? {
            let name = folder.zonepath().file_name().and_then(Name::parse);
            let (Some(name), Some(bond)) = (name, folder.bond()?) else {
                continue;
            };
            let created = dataset.snapshot_created(&name)?;
            let at = tree.add(bond.layer.chain()?);
            tree.nodes[at].snapshots.push((name, created));
        }
        let chain = match dataset.bond()? {
            Some(bond) => bond.layer.chain()?,
            None => Vec::new(),
        };
        // The chain of the top is added last. A layer of it that a snapshot has, too, becomes the
        // last one above the layer below it.
        let at = tree.add(chain);
        tree.nodes[at].holds_top = true;
        Ok(tree)
    }

    /// Adds a chain, topmost layer first. Returns the number of its topmost layer.
    fn add(&mut self, chain: Vec<LayerPath>) -> usize {
        let mut at = 0;
        for layer in chain.into_iter().rev() {
            let above = &self.nodes[at].above;
            let place = above
                .iter()
                .position(|one| self.nodes[*one].layer.as_ref() == Some(&layer));
            let next = match place {
                Some(place) => self.nodes[at].above.remove(place),
                None => {
                    self.nodes.push(Node {
                        layer: Some(layer),
                        ..Node::default()
                    });
                    self.nodes.len() - 1
                }
            };
            self.nodes[at].above.push(next);
            at = next;
        }
        at
    }
}

/// A copy of a zonepath in progress.
struct Copy<'a> {
    from: &'a Dataset,
    to: Dataset,
    tree: &'a Tree,
    /// The snapshots to which only the copy returns.
    own: BTreeSet<Name>,
    done: Copied,
    tell: Watch<'a>,
}

impl Copy<'_> {
    /// Copies everything above a layer. The copy stands on the copied layer, with an empty top.
    fn fill(&mut self, at: usize) -> Result<()> {
        let node = &self.tree.nodes[at];
        for (name, created) in &node.snapshots {
            self.to.snapshot_made(name, *created)?;
        }
        let branches = node.above.len() + usize::from(node.holds_top);
        let back = match node.snapshots.first() {
            Some((name, _)) => Some(name.clone()),
            None if branches > 1 => Some(self.own_snapshot()?),
            None => None,
        };
        let return_to = |copy: &Self| match &back {
            Some(name) => copy.to.rollback(name),
            None => Ok(()),
        };
        for (number, next) in node.above.iter().enumerate() {
            if number > 0 {
                return_to(self)?;
            }
            if let Some(layer) = &self.tree.nodes[*next].layer {
                self.copy_top(&layer.open_tree()?)?;
                let _lock = self.to.lock()?;
                self.to.seal_short()?;
            }
            self.fill(*next)?;
        }
        if node.holds_top {
            if !node.above.is_empty() {
                return_to(self)?;
            }
            self.copy_top(&self.from.open_top()?)?;
        }
        Ok(())
    }

    /// Makes a snapshot under a name that no snapshot of the original has.
    fn own_snapshot(&mut self) -> Result<Name> {
        let taken = |name: &Name| {
            let nodes = self.tree.nodes.iter();
            let mut names = nodes.flat_map(|node| &node.snapshots);
            self.own.contains(name) || names.any(|(known, _)| known == name)
        };
        let name = (0..)
            .filter_map(|number| format!("moving-{number}").parse().ok())
            .find(|name| !taken(name));
        let name: Name = name.ok_or_else(|| Error::NoDataset(self.to.zonepath().to_owned()))?;
        self.to.snapshot(&name)?;
        self.own.insert(name.clone());
        Ok(name)
    }

    /// Copies a tree into the empty top of the copy.
    fn copy_top(&mut self, from: &Folder) -> Result<()> {
        let top = self.to.open_top()?;
        let (path, _) = self.to.top_paths()?;
        let beside = Folder::open(path.parent().unwrap_or(&path))?;
        self.with_links(&beside, |copier| copier.folder(from, &top))
    }

    /// Copies the files of the zonepath that do not belong to the dataset.
    fn others(&mut self) -> Result<()> {
        let (from, to) = (&self.from.zonepath, &self.to.zonepath);
        let to = Folder::open(to.path())?;
        let entries = from.entries()?;
        self.with_links(&to, |copier| {
            for (name, _) in entries {
                let is_copied =
                    NOT_COPIED.iter().all(|known| name != *known) && to.kind(&name)?.is_none();
                if !is_copied {
                    continue;
                }
                crash::point();
                if from.is_folder(&name)? {
                    to.make(&name)?;
                    copier.folder(&from.open_child(&name)?, &to.open_child(&name)?)?;
                } else {
                    copier.entry(from, &to, &name)?;
                }
            }
            Ok(())
        })
    }

    fn with_links(
        &mut self,
        beside: &Folder,
        copy: impl FnOnce(&mut Copier<'_>) -> Result<()>,
    ) -> Result<()> {
        beside.make(LINKS)?;
        crash::point();
        let links = beside.open_child(LINKS)?;
        let mut copier = Copier::watched(links, self.done, &mut *self.tell);
        let done = copy(&mut copier);
        self.done = copier.done;
        crash::point();
        remove::bury(&beside.path().join(OsStr::new(LINKS)))?;
        done
    }
}

/// Moves a zonepath to another path of the same file system. The layers of its dataset stay where
/// they are. An empty folder at the new path is replaced.
///
/// # Errors
/// Fails with [`Error::Elsewhere`] if the storage of the zone cannot be moved, with
/// [`Error::Exists`] if the new path is in use, and with errors of the kernel.
pub fn rename_zonepath(from: &Path, to: &Path) -> Result<()> {
    layered(from)?;
    match rustix::fs::rmdir(to) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST | rustix::io::Errno::NOTDIR) => {
            return Err(Error::Exists(to.to_owned()));
        }
        Err(e) => return Err(Error::io("rmdir", to, e)),
    }
    Dataset::open(from)?.move_to(to).map(drop)
}

/// Copies the zonepath of a halted zone to another file system, see [`Dataset::copy_to`].
///
/// # Errors
/// As [`Dataset::copy_to`].
pub fn copy_zonepath(from: &Path, to: &Path, tell: &mut dyn FnMut(&Copied)) -> Result<Copied> {
    layered(from)?;
    layered(to)?;
    Dataset::open(from)?.copy_to(to, tell)
}

/// Fails if the root at a zonepath is, or would be, a file system of ZFS.
fn layered(zonepath: &Path) -> Result<()> {
    match crate::driver_at(zonepath)?.has_layers() {
        true => Ok(()),
        false => Err(Error::Elsewhere(zonepath.to_owned())),
    }
}
