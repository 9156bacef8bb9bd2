//! The names of files and folders in a zonepath and in a folder of layers; see the documentation of
//! the crate.

/// The name of the folder of sealed layers.
pub(crate) const LAYERS: &str = ".layers";

pub(crate) const TREE: &str = "tree";

pub(crate) const VOLUME: &str = "vol";

pub(crate) const PARENT: &str = "parent";

pub(crate) const REFS: &str = "refs";

pub(crate) const DEAD: &str = ".dead";

/// The name of the writable top in a zonepath.
pub const ROOT: &str = "root";

/// The name of overlay's work folder in a zonepath.
pub const WORK: &str = "work";

/// The name of the folder in a zonepath that zones of higher labels can read. The files are in the
/// folder `root` in it.
pub const EXPORT: &str = "export";

/// The name of the link to the topmost sealed layer.
pub const LINK: &str = "dataset";

/// The name of the next top during a seal.
pub(crate) const NEXT_ROOT: &str = "root.new";

/// The name of the link whose text is the size limit of the top, in bytes.
pub(crate) const QUOTA: &str = "quota";

/// The name of the link that a valid rollback leaves. It leads to the reference on the target layer
/// of the rollback.
pub(crate) const BACK: &str = "back";

/// The names of the entries of a zonepath on which a file system may be mounted.
pub(crate) const TOPS: &[&str] = &[ROOT, NEXT_ROOT, WORK, VOLUME];

/// The name of the folder of a dataset's snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// The name of a snapshot that is not complete. Its depth is that of a complete snapshot, so that
/// its relative links have the same text.
pub(crate) const HALF: &str = ".half";

/// The path of an unfinished snapshot, relative to the zonepath.
pub(crate) const HALF_PATH: &str = "snapshots/.half";

/// The name of the folder in the zonepath that keeps the layers which a running zone has mounted.
pub(crate) const MOUNTED: &str = "mounted";

/// The name of the next top if the top is a subvolume.
pub(crate) const NEXT_VOLUME: &str = "vol.new";
