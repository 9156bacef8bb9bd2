//! Snapshots of running zones.
//!
//! A mounted overlay continues to write to its top even after the top is renamed. So the top of a
//! running zone is copied, and the copy becomes the layer of the snapshot. The zone stands still only
//! while the copy is brought up to date:
//!
//! | zone | step | a crash after the step leaves |
//! |---|---|---|
//! | runs | copy the top to `.dead`; files that are those of the last snapshot become links | garbage, removed by `collect` |
//! | frozen | compare the copy with the top, and copy what changed | the same |
//! | runs | make `.half`, then the layer that it names, without tree, with its reference | `.half`, removed with the layer when opened |
//! | | rename the copy into the layer, store the table of stamps | the same |
//! | | **rename `.half` to `snapshots/<name>`** | - |
//! | | remove old tables | - |
//!
//! The links share files between layers, which never change. They never share a file with the top.
//! On btrfs the copy is a snapshot of the subvolume, which is made while the zone is frozen.
//!
//! The table of stamps (`table.rs`) also tells if the zone has changed at all since the last
//! snapshot. Only the newest [`TABLES_KEPT`] snapshots keep their tables.

mod compare;
mod estimate;
mod fill;
mod stamp;
mod table;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::copy::Copied;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::id::Id;
use crate::layers::{AtWork, LayerPath, Layers, dataset_ref};
use crate::layout::SNAPSHOTS;
use crate::name::Name;
use crate::{crash, fstype, remove};
use compare::{Last, is_of_a_change, is_same, stamps_of};
use fill::{Filler, Zone};
use stamp::{Moment, Node};
use table::{STAMPS, Table, TopMarks, boot_id};

/// Number of the newest snapshots of a zone whose tables are kept. After the removal of the newest
/// snapshot, the next snapshot links files of the one before.
const TABLES_KEPT: usize = 2;

/// A copy of the top of a running zone. The copy is garbage until it becomes a snapshot.
#[derive(Debug)]
pub struct TopCopy {
    tree: PathBuf,
    form: Form,
    /// The number of copied files and bytes; zero if the file system copied the whole top at once.
    pub copied: Copied,
    /// The method of the copy.
    pub method: Method,
    /// The stamps of the copied objects; `None` for a subvolume.
    root: Option<Node>,
    last: Option<(LayerPath, Table)>,
    top: TopMarks,
    /// The moment at which the zone was frozen.
    frozen: Moment,
    /// Other trees to remove.
    graves: Vec<PathBuf>,
    // The mark that keeps `collect` from removing the copy, which no layer uses yet.
    _shared: AtWork,
}

/// The methods to copy a top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A snapshot of a btrfs subvolume. The duration does not depend on the content.
    Subvolume,
    /// File by file, sharing the data blocks of each file.
    Reflink,
    /// File by file, copying the bytes of each file.
    Plain,
}

impl Dataset {
    /// Returns a snapshot whose content is that of the zone's root, or `None` if the root may have
    /// changed since the newest snapshot. The zone may run.
    pub fn unchanged_since(&self) -> Result<Option<Name>> {
        let known = self.snapshots_on_layers()?;
        let named = |layer: &LayerPath| {
            let same = known.iter().rev().find(|(_, one)| one == layer);
            same.map(|(snapshot, _)| snapshot.name.clone())
        };
        // A snapshot of the halted zone took all files away from the top.
        if let Some(bond) = self.untouched()? {
            return Ok(named(&bond.layer));
        }
        let below = self.bond()?.map(|bond| bond.layer);
        let top = self.open_top()?;
        let Some((layer, table)) = last_table(&known, TopMarks::of(&top)?) else {
            return Ok(None);
        };
        if !fstype::tells_changes(&top) || !table.is_of_this_boot() || layer.parent()? != below {
            return Ok(None);
        }
        let Some(last) = Last::new(layer.open_tree()?, &table.root, true) else {
            return Ok(None);
        };
        match is_same(&top, &last, &table.root) {
            Ok(true) => Ok(named(&layer)),
            Ok(false) => Ok(None),
            Err(error) if is_of_a_change(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns an estimate of the bytes that a snapshot of the running zone would copy: the files that
    /// have changed since the last snapshot, or all files of the top without one. The estimate is 0
    /// on file systems that share blocks.
    pub fn bytes_to_copy(&self) -> Result<u64> {
        let top = self.open_top()?;
        if self.form()? == Form::Volume || fstype::shares_blocks(&top) {
            return Ok(0);
        }
        let last = match fstype::tells_changes(&top) {
            true => last_table(&self.snapshots_on_layers()?, TopMarks::of(&top)?),
            false => None,
        };
        let last = match &last {
            Some((layer, table)) => Last::new(layer.open_tree()?, &table.root, true),
            None => None,
        };
        estimate::changed_bytes(&top, last.as_ref())
    }

    /// Copies the top of a zone whose processes are frozen, or that is halted. The copy has the
    /// content that the processes would find after a power failure.
    pub fn copy_top(&self) -> Result<TopCopy> {
        let mut copy = self.begin_copy()?;
        match self.complete_copy(&mut copy) {
            Ok(()) => Ok(copy),
            Err(error) => {
                copy.discard();
                Err(error)
            }
        }
    }

    /// Copies the top of a zone that runs. The copy is of no use before [`Dataset::complete_copy`].
    pub fn begin_copy(&self) -> Result<TopCopy> {
        let (layers, shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        let (form, top) = (self.form()?, self.open_top()?);
        let dead = layers.graves()?;
        let name = Id::random()?.to_string();
        let marks = TopMarks::of(&top)?;
        let mut copy = TopCopy {
            tree: dead.path().join(&name),
            form,
            copied: Copied::default(),
            method: Method::Subvolume,
            root: None,
            last: last_table(&self.snapshots_on_layers()?, marks),
            top: marks,
            frozen: Moment::now(),
            graves: Vec::new(),
            _shared: shared,
        };
        if form == Form::Volume {
            return Ok(copy);
        }
        if !fstype::tells_changes(&top) {
            // All files are copied while the zone is frozen.
            dead.make(&name)?;
            copy.root = Some(Node::nothing_yet());
            return Ok(copy);
        }
        let links = Id::random()?.to_string();
        dead.make(&links)?;
        dead.make(&name)?;
        let to = dead.open_child(&name)?;
        let mut filler = Filler::new(&dead, dead.open_child(&links)?, copy.copied, Zone::Runs);
        let filled = filler.fill(top, to, copy.last_folder()?);
        copy.copied = filler.done();
        copy.graves.push(dead.path().join(&links));
        match filled {
            Ok(root) => {
                copy.root = Some(root);
                Ok(copy)
            }
            Err(error) => {
                copy.discard();
                Err(error)
            }
        }
    }

    /// Brings a copy up to date, while the processes of the zone are frozen.
    pub fn complete_copy(&self, copy: &mut TopCopy) -> Result<()> {
        copy.frozen = Moment::now();
        // The copy itself keeps `collect` away.
        let dead = Layers::open(&Layers::home(&self.zonepath)?)?.graves()?;
        let name = copy.tree.file_name().unwrap_or_default();
        let Some(mut root) = copy.root.take() else {
            let volume = self.zonepath.open_child(copy.form.name())?;
            return sys::btrfs::snapshot_subvolume(&volume, &dead, OsStr::new(name))
                .map_err(|e| Error::io("make a snapshot of", volume.path(), e));
        };
        let links = Id::random()?.to_string();
        dead.make(&links)?;
        copy.graves.push(dead.path().join(&links));
        let to = dead.open_child(name)?;
        let mut filler = Filler::new(&dead, dead.open_child(&links)?, copy.copied, Zone::Frozen);
        let settled = filler.settle(self.open_top()?, to, copy.last_folder()?, &mut root);
        copy.copied = filler.done();
        copy.graves.append(&mut filler.graves);
        copy.root = Some(root);
        copy.method = match copy.copied {
            Copied {
                copied_bytes: 0,
                shared_bytes,
                ..
            } if shared_bytes > 0 => Method::Reflink,
            _ => Method::Plain,
        };
        settled
    }

    /// Makes a snapshot from a complete copy. The zone may run again.
    pub fn snapshot_of_copy(&self, name: &Name, mut copy: TopCopy) -> Result<()> {
        let made = {
            let _lock = self.lock()?;
            self.refuse_snapshot(name)
                .and_then(|()| self.take_copy(name, &mut copy))
        };
        match made {
            Ok(()) => copy.graves.iter().try_for_each(|grave| remove::bury(grave)),
            Err(_) => {
                copy.discard();
                made
            }
        }
    }

    fn take_copy(&self, name: &Name, copy: &mut TopCopy) -> Result<()> {
        let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        if copy.form == Form::Volume {
            // The work folder is removed, because a copy-up that the freeze interrupted may have
            // left a useless file in it.
            remove::bury(&copy.tree.join(crate::WORK))?;
        }
        // The content of the files must be on disk before the snapshot is.
        rustix::fs::syncfs(&layers.folder).map_err(|e| layers.folder.fail("syncfs", "", e))?;
        let below = self.bond()?.map(|bond| bond.layer);
        let id = Id::random()?;
        let place = self.zonepath.path().join(SNAPSHOTS).join(name.as_str());
        // The snapshot's link names the layer before the layer exists, so that the next open of the
        // dataset finds the layer.
        let layer = layers.reserve()?;
        self.make_half_at(&layer, id, SystemTime::now())?;
        if !layers.make_reserved(&layer, below.as_ref(), &dataset_ref(id), &place)? {
            return Err(Error::Exists(layer.path()));
        }
        layers.take_up(&copy.tree, &layer, copy.form)?;
        crash::point();
        // Without a table the next snapshot is only larger, and a full disk may have no space for
        // it.
        let _ = copy.table(&layer)?.store(&layer);
        crash::point();
        self.keep(name)?;
        crash::point();
        self.note_sizes();
        self.drop_old_tables()
    }

    fn drop_old_tables(&self) -> Result<()> {
        let known = self.snapshots_on_layers()?;
        let mut kept: Vec<&LayerPath> = Vec::new();
        for (_, layer) in known.iter().rev() {
            if kept.contains(&layer) {
                continue;
            }
            let folder = layer.open()?;
            if folder.kind(STAMPS)?.is_none() {
                continue;
            }
            match kept.len() < TABLES_KEPT {
                true => kept.push(layer),
                false => drop(folder.unlink(STAMPS)?),
            }
        }
        Ok(())
    }
}

/// Returns the newest snapshot's layer that has a table of this top.
fn last_table(known: &[(crate::Snapshot, LayerPath)], top: TopMarks) -> Option<(LayerPath, Table)> {
    known.iter().rev().find_map(|(_, layer)| {
        let table = Table::of(layer).filter(|table| table.top == top)?;
        Some((layer.clone(), table))
    })
}

impl TopCopy {
    /// Removes the copy. `collect` removes the files that cannot be removed now.
    pub fn discard(self) {
        for grave in self.graves.iter().chain([&self.tree]) {
            let _ = remove::bury(grave);
        }
    }

    /// Returns the tree of the last snapshot with its table.
    fn last_folder(&self) -> Result<Option<Last<'_>>> {
        let Some((layer, table)) = &self.last else {
            return Ok(None);
        };
        Ok(Last::new(
            layer.open_tree()?,
            &table.root,
            table.is_of_this_boot(),
        ))
    }

    /// Returns the table of the copy, which is the tree of `layer`.
    fn table(&mut self, layer: &LayerPath) -> Result<Table> {
        let mut root = match self.root.take() {
            Some(root) => root,
            None => stamps_of(&layer.open_tree()?, 0)?,
        };
        root.judge(self.frozen);
        Ok(Table {
            boot: boot_id(),
            top: self.top,
            root,
        })
    }
}
