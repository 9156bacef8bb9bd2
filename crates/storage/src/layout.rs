//! Names of files and folders in a zonepath and in a folder of layers; see the documentation of
//! the crate.

/// Name of the folder of sealed layers.
pub(crate) const LAYERS: &str = ".layers";

pub(crate) const TREE: &str = "tree";

pub(crate) const VOLUME: &str = "vol";

pub(crate) const PARENT: &str = "parent";

pub(crate) const REFS: &str = "refs";

pub(crate) const DEAD: &str = ".dead";

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

/// The folders on which a mount may be.
pub(crate) const TOPS: &[&str] = &[ROOT, NEXT_ROOT, WORK, VOLUME];

/// The folder of a dataset's snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// A snapshot that does not count, as deep in folders as the others so that its
/// links are written alike.
pub(crate) const HALF: &str = ".half";

/// The path of an unfinished snapshot in a zonepath.
pub(crate) const HALF_PATH: &str = "snapshots/.half";

/// The folder in the zonepath.
pub(crate) const MOUNTED: &str = "mounted";

/// The next top, as a subvolume.
pub(crate) const NEXT_VOLUME: &str = "vol.new";
