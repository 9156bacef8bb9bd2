//! A zone's dataset: one writable top on a chain of sealed layers.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, FlockOperation};

use crate::attributes::Attributes;
use crate::collect::{Collected, Lost};
use crate::crash;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::fstype;
use crate::id::Id;
use crate::layers::{
    LayerPath, Layers, MAX_LAYERS, REFS, User, VOLUME, bad_link, dataset_ref, parse_layer,
    relative, resolve,
};
use crate::remove;
use crate::snapshot::SNAPSHOTS;
use crate::stack::Stack;
use crate::top::Form;
use crate::usage::Usage;

/// Name of the writable top in a zonepath.
pub const ROOT: &str = "root";
/// Name of overlay's work folder in a zonepath.
pub const WORK: &str = "work";
/// Name of the link that names the topmost sealed layer.
pub const LINK: &str = "dataset";
/// The next top, while a seal is under way.
pub(crate) const NEXT_ROOT: &str = "root.new";

/// The limit of the top: a link whose text is the bytes.
pub(crate) const QUOTA: &str = "quota";
/// A rollback that counts: a link to the reference on the layer to go back to.
pub(crate) const BACK: &str = "back";
/// The text of the link `root` of a dataset whose top is a subvolume.
const IN_VOLUME: &str = "vol/root";
/// Where something may be mounted.
pub(crate) const TOPS: &[&str] = &[ROOT, NEXT_ROOT, WORK, VOLUME];

/// The most layers below a top that use leads to; more would be merged. A file's first
/// lookup takes 7 us on one layer, 15 us on eight, 217 us on 200.
pub const DEEP: usize = 8;

/// How many are left then. Fewer than [`DEEP`], so that not every seal merges.
const SHORT: usize = 4;

/// The dataset at a zonepath.
#[derive(Debug)]
pub struct Dataset {
    pub(crate) zonepath: Folder,
}

/// What the link of a dataset says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bond {
    pub(crate) layer: LayerPath,
    pub(crate) id: Id,
}

impl Dataset {
    /// Makes an empty dataset without layers below. The zonepath is made (0700,
    /// its parent must exist) unless it is there.
    pub fn create(zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let (folder, _) = Folder::open_or_make(zonepath)?;
        let dataset = Self { zonepath: folder };
        let _lock = dataset.lock()?;
        dataset.refuse_existing()?;
        dataset.choose_form()?;
        crash::point();
        let form = dataset.form()?;
        if form == Form::Volume {
            // A subvolume and what is in it come one after the other.
            form.make(&dataset.zonepath, form.next())?;
            crash::point();
            dataset.take_next()?;
        }
        let root = form.make(&dataset.zonepath, form.name())?;
        rustix::fs::fchmod(&root, rustix::fs::Mode::from_raw_mode(0o755))
            .map_err(|e| root.fail("fchmod", "", e))?;
        Ok(dataset)
    }

    /// Opens a dataset, finishing or taking back a seal that a crash cut off,
    /// and adopting a zonepath that was moved or copied by hand.
    pub fn open(zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let folder = match Folder::open(zonepath) {
            Ok(folder) => folder,
            Err(e) if e.is_missing() => {
                return Err(Error::NoDataset(zonepath.to_owned()));
            }
            Err(e) => return Err(e),
        };
        let dataset = Self { zonepath: folder };
        if !dataset.is_sound()? {
            let _lock = dataset.lock()?;
            dataset.repair()?;
        }
        Ok(dataset)
    }

    /// The zonepath.
    #[must_use]
    pub fn zonepath(&self) -> &Path {
        self.zonepath.path()
    }

    /// The name of the type of file system that the dataset is on.
    #[must_use]
    pub fn fstype(&self) -> String {
        fstype::name(&self.zonepath)
    }

    /// How the dataset is stored, for people: `layered on ext4`.
    pub fn kind(&self) -> Result<String> {
        let volume = match self.form()? {
            Form::Folder => "",
            Form::Volume => ", its top a subvolume",
        };
        Ok(format!("layered on {}{volume}", self.fstype()))
    }

    /// What to mount for the zone's root.
    pub fn stack(&self) -> Result<Stack> {
        let lowers = match self.bond()? {
            Some(bond) => {
                let chain = bond.layer.chain()?;
                chain.iter().map(LayerPath::tree).collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        let (top, work) = self.top_paths()?;
        Ok(Stack {
            zonepath: self.zonepath.path().to_owned(),
            top,
            work,
            lowers,
        })
    }

    /// Turns the top into a layer and gives the dataset a new, empty top.
    ///
    /// Nothing may be mounted on the dataset: a live overlay would go on
    /// writing into the layer. Takes the same time whatever is in it. An
    /// untouched top on a layer stays: the layer below is the answer.
    pub fn seal(&self) -> Result<Id> {
        let _lock = self.lock()?;
        self.seal_locked().map(|bond| bond.layer.id)
    }

    /// Merges the topmost layers until at most `most` are left, and says how
    /// many there are then. The dataset's content stays what it was, other
    /// users of the layers keep theirs.
    ///
    /// Like [`Dataset::seal`], for halted zones. Takes a hard link for each
    /// file in the merged layers; no data is copied.
    pub fn shorten(&self, most: usize) -> Result<usize> {
        let _lock = self.lock()?;
        self.shorten_locked(most)
    }

    /// How many layers are below the top.
    pub fn depth(&self) -> Result<usize> {
        Ok(match self.bond()? {
            Some(bond) => bond.layer.chain()?.len(),
            None => 0,
        })
    }

    /// [`Dataset::shorten`] to as many layers as a seal leaves when it merges.
    pub fn tend(&self) -> Result<usize> {
        self.shorten(SHORT)
    }

    /// [`Dataset::shorten`] for whoever holds the lock.
    pub(crate) fn shorten_locked(&self, most: usize) -> Result<usize> {
        let Some(former) = self.bond()? else {
            return Ok(0);
        };
        let chain = former.layer.chain()?;
        let most = most.max(1);
        if chain.len() <= most {
            return Ok(chain.len());
        }
        let (merged, kept) = chain.split_at(chain.len() - most + 1);
        let graves = {
            let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
            let (tree, mut graves) = layers.merge(merged, !kept.is_empty())?;
            let name = dataset_ref(former.id);
            let layer = layers.make(kept.first(), &name, self.zonepath.path())?;
            layers.take_up(&tree, &layer, Form::Folder)?;
            crash::point();
            self.write_bond(&Bond {
                layer,
                id: former.id,
            })?;
            crash::point();
            graves.extend(former.layer.drop_ref(&name)?);
            graves
        };
        for grave in graves {
            remove::bury(&grave)?;
        }
        Ok(most)
    }

    /// Makes a dataset at `zonepath` that starts as an equal of this one and
    /// shares its layers. This one is sealed first, see [`Dataset::seal`].
    ///
    /// Nothing of this is on disk for certain before [`Dataset::settle`].
    pub fn clone_to(&self, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let _lock = self.lock()?;
        let bond = self.seal_short()?;
        Self::make_on(&bond.layer, zonepath)
    }

    /// Seals the top, and merges layers when there are [`DEEP`] then: a snapshot of the
    /// running zone may put one more on them.
    pub(crate) fn seal_short(&self) -> Result<Bond> {
        let bond = self.seal_locked()?;
        if bond.layer.chain()?.len() < DEEP {
            return Ok(bond);
        }
        self.shorten_locked(SHORT)?;
        self.bond()?
            .ok_or_else(|| Error::NoDataset(self.zonepath.path().to_owned()))
    }

    /// Makes a dataset at `zonepath` that stands on a layer. Whoever calls this
    /// holds the lock of a user of the layer.
    pub(crate) fn make_on(layer: &LayerPath, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let (folder, made) = Folder::open_or_make(zonepath)?;
        let clone = Self { zonepath: folder };
        // Before the lock, too: a dataset cannot be cloned onto itself.
        clone.refuse_existing()?;
        let _clone_lock = clone.lock()?;
        clone.refuse_existing()?;
        crash::point();
        let done = clone.stand_on(layer);
        if done.is_err() {
            // The error that counts is the first one; `collect` finds the rest.
            for grave in clone.destroy_locked().unwrap_or_default() {
                let _ = remove::bury(&grave);
            }
            if made {
                let _ = std::fs::remove_dir(zonepath);
            }
        }
        done.map(|()| clone)
    }

    /// Removes the dataset at `zonepath`, whatever state it is in, and every
    /// layer that nothing else uses. The zonepath stays, with what else is in it.
    ///
    /// Refuses while anything is mounted below. Nothing there is no error.
    pub fn destroy(zonepath: &Path) -> Result<()> {
        check_path(zonepath)?;
        let folder = match Folder::open(zonepath) {
            Ok(folder) => folder,
            Err(e) if e.is_missing() => {
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let dataset = Self { zonepath: folder };
        remove::refuse_mounts(zonepath, TOPS)?;
        let home = Layers::home(&dataset.zonepath)?;
        // Until the graves are empty, so that nobody else digs in them.
        let (_, shared) = Layers::enter(&home)?;
        let graves = {
            let _lock = dataset.lock()?;
            dataset.destroy_locked()?
        };
        // All that counts is done: the rest only frees space, and may be left
        // to `collect`.
        let mut emptied = vec![home];
        for grave in graves {
            remove::bury(&grave)?;
            // <layers>/.dead/<grave>; a moved dataset's are in several folders.
            emptied.extend(grave.ancestors().nth(2).map(Path::to_owned));
        }
        drop(shared);
        emptied.sort();
        emptied.dedup();
        emptied.iter().try_for_each(|layers| Layers::leave(layers))
    }

    /// Moves the dataset with its zonepath, and all else in that, to another
    /// path of the same file system (EXDEV otherwise). Layers stay where they are.
    pub fn move_to(self, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        if rustix::fs::lstat(zonepath).is_ok() {
            return Err(Error::Exists(zonepath.to_owned()));
        }
        remove::refuse_mounts(self.zonepath.path(), TOPS)?;
        {
            let _lock = self.lock()?;
            // Right at both places, wherever a crash leaves it.
            self.link_absolutely()?;
            for snapshot in self.snapshot_folders()? {
                snapshot.link_absolutely()?;
            }
            crash::point();
            let from = self.zonepath.path();
            rustix::fs::rename(from, zonepath).map_err(|e| Error::io("rename", from, e))?;
        }
        crash::point();
        // Opening sees that it was moved, and tells the layer.
        let moved = Self::open(zonepath)?;
        {
            let _lock = moved.lock()?;
            for one in std::iter::once(Self::open(zonepath)?).chain(moved.snapshot_folders()?) {
                if let Some(bond) = one.bond()? {
                    one.write_bond(&bond)?;
                }
            }
        }
        Ok(moved)
    }

    /// Makes sure that the dataset's own changes (not what was written into the
    /// top, see [`Dataset::sync`]) are on disk before a later write to `index`
    /// (a path that exists) can be.
    ///
    /// Free where the file system's journal keeps the order anyway and `index`
    /// is on the same one (ext4, xfs); one `syncfs` elsewhere. See the crate's
    /// documentation for the reasoning.
    pub fn settle(&self, index: &Path) -> Result<()> {
        let vfs = rustix::fs::fstatfs(&self.zonepath)
            .map_err(|e| self.zonepath.fail("fstatfs", "", e))?;
        let index = rustix::fs::stat(index).map_err(|e| Error::io("stat", index, e))?;
        let ordered = match vfs.f_type {
            TMPFS => return Ok(()),
            EXT4 | XFS => index.st_dev == self.zonepath.device()?,
            _ => false,
        };
        if ordered { Ok(()) } else { self.sync() }
    }

    /// Writes everything on the dataset's file system to disk. For whoever has
    /// filled the top from the host: file contents follow no order.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.zonepath).map_err(|e| self.zonepath.fail("syncfs", "", e))
    }

    /// The space this dataset takes; walks through all of it.
    pub fn usage(&self) -> Result<Usage> {
        crate::usage::of(&self.stack()?)
    }

    /// Runs [`crate::collect`] on the folder of layers where the dataset at
    /// `zonepath`, which need not be one, has or would have its layers.
    pub fn collect(zonepath: &Path, lost: Lost) -> Result<Collected> {
        check_path(zonepath)?;
        let home = Layers::home(&Folder::open(zonepath)?)?;
        crate::collect(&home, lost)
    }

    pub(crate) fn at(zonepath: Folder) -> Self {
        Self { zonepath }
    }

    /// The layer this dataset stands on and its id, unchecked.
    pub(crate) fn names(&self) -> Result<Option<(LayerPath, Id)>> {
        Ok(self.bond()?.map(|bond| (bond.layer, bond.id)))
    }

    pub(crate) fn lock(&self) -> Result<crate::folder::Lock> {
        self.zonepath.lock(FlockOperation::LockExclusive)
    }

    /// Refuses a zonepath with a dataset in it. What a clone left that died before
    /// it counted is none, and used again.
    fn refuse_existing(&self) -> Result<()> {
        let exists = || Err(Error::Exists(self.zonepath.path().to_owned()));
        for name in [LINK, VOLUME, SNAPSHOTS] {
            if self.zonepath.kind(name)?.is_some() {
                return exists();
            }
        }
        match self.zonepath.kind(ROOT)? {
            None => Ok(()),
            // A link into a volume that was never made.
            Some(FileType::Symlink)
                if self.zonepath.read_link(ROOT)?.as_deref() == Some(IN_VOLUME.as_ref()) =>
            {
                Ok(())
            }
            Some(_) => exists(),
        }
    }

    pub(crate) fn bond(&self) -> Result<Option<Bond>> {
        self.read_bond(LINK)
    }

    pub(crate) fn read_bond(&self, name: &str) -> Result<Option<Bond>> {
        let Some(text) = self.zonepath.read_link(name)? else {
            return Ok(None);
        };
        parse_bond(self.zonepath.path(), Path::new(&text))
            .map(Some)
            .ok_or_else(|| bad_link(self.zonepath.path().join(name), &text))
    }

    fn link_absolutely(&self) -> Result<()> {
        match self.bond()? {
            Some(bond) => {
                let target = bond.layer.refs().join(dataset_ref(bond.id));
                self.zonepath.relink(LINK, target)
            }
            None => Ok(()),
        }
    }

    /// Decides what form the top of a new dataset has, by its file system.
    fn choose_form(&self) -> Result<()> {
        match Form::best(&self.zonepath)? {
            Form::Folder => Ok(()),
            Form::Volume if self.zonepath.kind(ROOT)?.is_some() => Ok(()),
            Form::Volume => self.zonepath.link(ROOT, IN_VOLUME),
        }
    }

    pub(crate) fn write_bond(&self, bond: &Bond) -> Result<()> {
        let target = bond.layer.refs().join(dataset_ref(bond.id));
        let text = relative(self.zonepath.path(), &target, &common(&bond.layer));
        self.zonepath.relink(LINK, text)
    }

    pub(crate) fn ref_place(&self, layer: &LayerPath) -> PathBuf {
        relative(&layer.refs(), self.zonepath.path(), &common(layer))
    }

    /// Makes the parts of a clone. The link comes before the reference: a crash
    /// between them leaves a user without reference, which opening mends, and
    /// never a reference from nowhere, which would keep the layer for ever.
    fn stand_on(&self, layer: &LayerPath) -> Result<()> {
        let tree = layer.open_tree()?;
        self.choose_form()?;
        crash::point();
        self.make_next(&Attributes::of(&tree)?)?;
        crash::point();
        let bond = Bond {
            layer: layer.clone(),
            id: Id::random()?,
        };
        let target = bond.layer.refs().join(dataset_ref(bond.id));
        self.zonepath.link(
            LINK,
            relative(self.zonepath.path(), &target, &common(layer)),
        )?;
        crash::point();
        let refs = Folder::open(&layer.refs())?;
        refs.link(dataset_ref(bond.id), self.ref_place(layer))?;
        crash::point();
        self.take_next()
    }

    pub(crate) fn seal_locked(&self) -> Result<Bond> {
        let root = self.open_top()?;
        let attributes = Attributes::of(&root)?;
        let below = self.bond()?;
        if let Some(bond) = &below {
            let tree = bond.layer.open_tree()?;
            if root.is_empty()? && attributes == Attributes::of(&tree)? {
                return Ok(bond.clone());
            }
            if bond.layer.chain()?.len() >= MAX_LAYERS {
                return Err(Error::TooManyLayers(self.zonepath.path().to_owned()));
            }
        }

        let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        let id = match &below {
            Some(bond) => bond.id,
            None => Id::random()?,
        };
        // The next top is there before anything counts, so that a missing
        // `root` with it means a seal and without it a removal.
        self.make_next(&attributes)?;
        crash::point();
        let parent = below.as_ref().map(|bond| &bond.layer);
        let layer = layers.make(parent, &dataset_ref(id), self.zonepath.path())?;
        let bond = Bond { layer, id };
        self.write_bond(&bond)?;
        crash::point();
        // From here on the layer counts.
        let form = self.form()?;
        self.zonepath
            .rename(form.name(), &bond.layer.open()?, form.sealed())?;
        crash::point();
        self.take_next()?;
        crash::point();
        self.drop_former_ref(&bond)?;
        Ok(bond)
    }

    /// Drops the reference on the layer below that an interrupted seal left.
    fn drop_former_ref(&self, bond: &Bond) -> Result<()> {
        if !bond.layer.path().exists() {
            return Ok(());
        }
        if let Some(parent) = bond.layer.parent()? {
            // Never the last one: the layer above holds its own.
            Folder::open(&parent.refs())?.unlink(dataset_ref(bond.id))?;
        }
        Ok(())
    }

    /// Takes the dataset apart; returns what is left to be removed.
    fn destroy_locked(&self) -> Result<Vec<PathBuf>> {
        let (home, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        let mut graves = Vec::new();
        let form = self.form()?;
        // The root goes first: without it nothing takes the rest for a zone.
        for name in [form.next(), form.name()] {
            graves.extend(home.put_aside(&self.zonepath, OsStr::new(name))?);
            crash::point();
        }
        graves.extend(self.drop_snapshots(&home)?);
        graves.extend(self.drop_bond()?);
        crash::point();
        for name in [BACK, QUOTA, "back.new", "quota.new", "dataset.new"] {
            self.zonepath.unlink(name)?;
        }
        crash::point();
        if form == Form::Volume {
            self.zonepath.unlink(ROOT)?;
        }
        graves.extend(home.put_aside(&self.zonepath, OsStr::new(WORK))?);
        crash::point();
        Ok(graves)
    }

    /// Gives up what this stands on.
    pub(crate) fn drop_bond(&self) -> Result<Vec<PathBuf>> {
        let mut graves = Vec::new();
        if let Some(bond) = self.bond()? {
            // A copy by hand that was never opened holds no reference. A layer
            // without references is one whose end was cut off.
            if self.holds_ref(&bond)? || !bond.layer.refs().exists() {
                self.drop_former_ref(&bond)?;
                graves.extend(bond.layer.drop_ref(&dataset_ref(bond.id))?);
            }
            crash::point();
            self.zonepath.unlink(LINK)?;
        }
        Ok(graves)
    }
}

/// File system types whose journal keeps the order of changes to folders.
const EXT4: rustix::fs::FsWord = 0xEF53;
const XFS: rustix::fs::FsWord = 0x5846_5342;
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// Refuses paths whose text does not say where they lead.
pub(crate) fn check_path(zonepath: &Path) -> Result<()> {
    let plain = zonepath
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if zonepath.is_absolute() && plain && zonepath.parent().is_some() {
        return Ok(());
    }
    Err(Error::BadPath(zonepath.to_owned()))
}

/// The folder within which the links of a layer and its users are relative.
fn common(layer: &LayerPath) -> PathBuf {
    layer.layers.parent().unwrap_or(&layer.layers).to_owned()
}

fn parse_bond(zonepath: &Path, text: &Path) -> Option<Bond> {
    let Some(User::Dataset(id)) = User::parse(text.file_name()?) else {
        return None;
    };
    let refs = text.parent()?;
    if refs.file_name()? != REFS {
        return None;
    }
    let layer = parse_layer(zonepath, refs.parent()?)?;
    Some(Bond { layer, id })
}

pub(crate) fn has_tree(layer: &LayerPath) -> Result<bool> {
    Ok(layer.form()?.is_some())
}

/// Where a reference leads, if there is one.
pub(crate) fn ref_target(layer: &LayerPath, name: &OsStr) -> Result<Option<PathBuf>> {
    let refs = layer.refs();
    let text = match Folder::open(&refs) {
        Ok(folder) => folder.read_link(name)?,
        Err(e) if e.is_missing() => None,
        Err(e) => return Err(e),
    };
    Ok(text.and_then(|text: OsString| resolve(&refs, Path::new(&text))))
}
