//! The errors of dataset operations.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a dataset operation, with the path at which the error occurred.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file system call failed.
    #[error("{call} {}", path.display())]
    Io {
        /// The name of the call, such as `rename`.
        call: &'static str,
        /// The path that the call was made for.
        path: PathBuf,
        /// The error that the kernel returned.
        #[source]
        source: io::Error,
    },
    /// A mount call failed.
    #[error(transparent)]
    Mount(#[from] sys::mount::Error),
    /// The zonepath is not absolute or contains `..`.
    #[error("{}: zonepath must be absolute, without '..'", .0.display())]
    BadPath(PathBuf),
    /// A folder has a format that only newer programs can read.
    #[error("{} has format {found}, and these programs know formats up to {known}: use newer programs", path.display())]
    Newer {
        /// The path of the folder.
        path: PathBuf,
        /// The format of the folder.
        found: u64,
        /// The newest format that these programs can read.
        known: u64,
    },
    /// No dataset exists at the path, or its removal has begun.
    #[error("{}: no dataset (nothing at its 'root')", .0.display())]
    NoDataset(PathBuf),
    /// A dataset exists at the path already.
    #[error("{}: a dataset exists already", .0.display())]
    Exists(PathBuf),
    /// A file system is mounted in a folder that is to be removed.
    #[error("{}: in use, {} is mounted", zonepath.display(), mounted.display())]
    Busy {
        /// The zonepath that cannot be removed.
        zonepath: PathBuf,
        /// The mount point that was found below the zonepath.
        mounted: PathBuf,
    },
    /// A link of a dataset has a text that these programs never write.
    #[error("{}: not a link of a dataset: {text:?}", path.display())]
    BadLink {
        /// The path of the link.
        path: PathBuf,
        /// The text of the link.
        text: String,
    },
    /// The layer below a dataset or layer is missing.
    #[error("{}: layer {} is missing", user.display(), layer.display())]
    LayerMissing {
        /// The zonepath or the layer whose link names the missing layer.
        user: PathBuf,
        /// The path at which the layer was expected.
        layer: PathBuf,
    },
    /// The chain of layers has reached its maximum length.
    #[error("{}: {} layers, no more can be mounted", .0.display(), crate::MAX_LAYERS)]
    TooManyLayers(PathBuf),
    /// The kernel cannot id-map this file system, so its files cannot be shown with other owners.
    #[error("{}: {fstype} cannot be id-mapped by this kernel: put the zonepath on ext4, xfs or btrfs", path.display())]
    NoIdmap {
        /// The path of the layer or the zonepath.
        path: PathBuf,
        /// The type of the file system that the kernel cannot id-map.
        fstype: String,
    },
    /// The kernel mounted the overlay read-only.
    #[error("{}: the kernel mounted the zone's root read-only: make room if its disk or quota is full, else see the kernel's log", .0.display())]
    ReadOnly(PathBuf),
    /// A tree has more nested folders than the program follows.
    #[error("{}: folders too deep in folders", .0.display())]
    TooDeep(PathBuf),
    /// The zone has no snapshot of this name.
    #[error("no snapshot {name}")]
    NoSnapshot {
        /// The name of the missing snapshot.
        name: String,
    },
    /// The zone already has a snapshot of this name.
    #[error("snapshot {name} exists already")]
    SnapshotExists {
        /// The name of the snapshot.
        name: String,
    },
    /// The space that a zone's own files use cannot be limited.
    #[error("{}: no quota: {why}", zonepath.display())]
    NoQuota {
        /// The zonepath whose space cannot be limited.
        zonepath: PathBuf,
        /// The reason, and how to solve the problem.
        why: String,
    },
    /// A zonepath on ZFS cannot be moved.
    #[error("{}: is on ZFS, whose file systems are not moved: detach the zone and use zfs send, or zoneadm export and import", .0.display())]
    Elsewhere(PathBuf),
    /// The storage of this dataset cannot send or receive snapshots.
    #[error("{}: only datasets on ZFS are sent and received", .0.display())]
    NoStream(PathBuf),
    /// The command zfs(8) failed.
    #[error("{command}: {why}")]
    Zfs {
        /// The command line of the failed command.
        command: String,
        /// The error message of zfs(8).
        why: String,
    },
    /// ZFS cannot store the zone's root as required.
    #[error("{}: {why}", zonepath.display())]
    ZfsRoot {
        /// The zonepath of the root.
        zonepath: PathBuf,
        /// The reason why ZFS cannot store the root.
        why: String,
    },
    /// No image with this digest or name exists.
    #[error("{0}: no such image")]
    NoImage(String),
    /// Several images have digests that begin with these digits.
    #[error("{0}: several images begin with this")]
    ManyImages(String),
    /// The files of an image were changed after its import.
    #[error("{digest}: damaged, its files now have the digest {found}")]
    Damaged {
        /// The digest that the image's name contains.
        digest: crate::Digest,
        /// The digest that the image's files have now.
        found: crate::Digest,
    },
    /// A dataset is not based on the expected layer.
    #[error("{}: does not stand on {}", zonepath.display(), tree.display())]
    NotBelow {
        /// The zonepath of the dataset.
        zonepath: PathBuf,
        /// The tree of the expected layer.
        tree: PathBuf,
    },
    /// A process writes into a tree while the tree is removed.
    #[error("{}: cannot be emptied, as a process writes into it: end the process and try again", .0.display())]
    NotEmptied(PathBuf),
}

impl Error {
    /// Returns true if the path of a failed call does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns true if a lookup failed because the path crosses into another mount.
    pub(crate) fn is_other_mount(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::CrossesDevices)
    }

    pub(crate) fn io(
        call: &'static str,
        path: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io {
            call,
            path: path.as_ref().to_owned(),
            source: source.into(),
        }
    }
}

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;
