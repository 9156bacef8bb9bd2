//! What every kind of storage does for a zone.

use std::fmt::Debug;
use std::path::Path;

use crate::collect::{Collected, Lost};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::stack::Stack;
use crate::usage::Usage;

/// A kind of storage. Datasets are named by the zonepath they are at.
pub trait Driver: Debug + Send + Sync {
    /// The name in configurations and messages.
    fn name(&self) -> &'static str;

    /// Makes an empty dataset, and the zonepath unless it is there.
    fn create(&self, zonepath: &Path) -> Result<()>;

    /// Makes a dataset at `target` that starts as an equal of the halted one at
    /// `origin`.
    fn clone(&self, origin: &Path, target: &Path) -> Result<()>;

    /// Removes a dataset, whatever state it is in; none is no error.
    fn destroy(&self, zonepath: &Path) -> Result<()>;

    /// What to mount for the zone's root.
    fn stack(&self, zonepath: &Path) -> Result<Stack>;

    /// Makes sure that the dataset is on disk before a later write to `index`.
    fn settle(&self, zonepath: &Path, index: &Path) -> Result<()>;

    /// The space a dataset takes.
    fn usage(&self, zonepath: &Path) -> Result<Usage>;

    /// Clears away what crashes left where datasets of `zonepath`'s kind keep
    /// what they share.
    fn collect(&self, zonepath: &Path, lost: Lost) -> Result<Collected>;
}

/// Tops and layers as plain folders: any file system that overlay can write to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layered;

impl Driver for Layered {
    fn name(&self) -> &'static str {
        "layered"
    }

    fn create(&self, zonepath: &Path) -> Result<()> {
        Dataset::create(zonepath).map(drop)
    }

    fn clone(&self, origin: &Path, target: &Path) -> Result<()> {
        Dataset::open(origin)?.clone_to(target).map(drop)
    }

    fn destroy(&self, zonepath: &Path) -> Result<()> {
        Dataset::destroy(zonepath)
    }

    fn stack(&self, zonepath: &Path) -> Result<Stack> {
        Dataset::open(zonepath)?.stack()
    }

    fn settle(&self, zonepath: &Path, index: &Path) -> Result<()> {
        Dataset::open(zonepath)?.settle(index)
    }

    fn usage(&self, zonepath: &Path) -> Result<Usage> {
        Dataset::open(zonepath)?.usage()
    }

    fn collect(&self, zonepath: &Path, lost: Lost) -> Result<Collected> {
        Dataset::collect(zonepath, lost)
    }
}
