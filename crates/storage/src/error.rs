//! The errors of datasets.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a dataset, with the path it happened at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file system call failed.
    #[error("{call} {}", path.display())]
    Io {
        /// The call.
        call: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A mount call failed.
    #[error(transparent)]
    Mount(#[from] sys::mount::Error),
    /// The path must be absolute and plain.
    #[error("{}: zonepath must be absolute, without '..'", .0.display())]
    BadPath(PathBuf),
    /// A folder has a format that only newer programs know.
    #[error("{} has format {found}, and these programs know formats up to {known}: use newer programs", path.display())]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is known here.
        known: u64,
    },
    /// There is no dataset, or its removal was begun.
    #[error("{}: no dataset (nothing at its 'root')", .0.display())]
    NoDataset(PathBuf),
    /// There is a dataset already.
    #[error("{}: a dataset exists already", .0.display())]
    Exists(PathBuf),
    /// Something is mounted where a folder is to be removed.
    #[error("{}: in use, {} is mounted", zonepath.display(), mounted.display())]
    Busy {
        /// The zonepath.
        zonepath: PathBuf,
        /// The mount point found below it.
        mounted: PathBuf,
    },
    /// A link of ours has a text that we never write.
    #[error("{}: not a link of a dataset: {text:?}", path.display())]
    BadLink {
        /// The link.
        path: PathBuf,
        /// Its text.
        text: String,
    },
    /// The dataset or a layer stands on a layer that is not there.
    #[error("{}: layer {} is missing", user.display(), layer.display())]
    LayerMissing {
        /// The zonepath or layer that names it.
        user: PathBuf,
        /// The expected path.
        layer: PathBuf,
    },
    /// The chain of layers is at its limit.
    #[error("{}: {} layers, no more can be mounted", .0.display(), crate::MAX_LAYERS)]
    TooManyLayers(PathBuf),
    /// The file system cannot show files under other owners.
    #[error("{}: {fstype} cannot be id-mapped by this kernel: put the zonepath on ext4, xfs or btrfs", path.display())]
    NoIdmap {
        /// The layer or zonepath.
        path: PathBuf,
        /// The type of its file system.
        fstype: String,
    },
    /// The overlay came out read-only.
    #[error("{}: the kernel mounted the zone's root read-only: make room if its disk or quota is full, else see the kernel's log", .0.display())]
    ReadOnly(PathBuf),
    /// A tree has more folders in folders than are followed.
    #[error("{}: folders too deep in folders", .0.display())]
    TooDeep(PathBuf),
    /// The zone has no snapshot of that name.
    #[error("no snapshot {name}")]
    NoSnapshot {
        /// The name.
        name: String,
    },
    /// The zone has a snapshot of that name.
    #[error("snapshot {name} exists already")]
    SnapshotExists {
        /// The name.
        name: String,
    },
    /// The space of a zone's own files cannot be limited.
    #[error("{}: no quota: {why}", zonepath.display())]
    NoQuota {
        /// The zonepath.
        zonepath: PathBuf,
        /// The reason, and the remedy.
        why: String,
    },
    /// Snapshots of this kind of storage are not sent.
    #[error("{}: only datasets on ZFS are sent and received", .0.display())]
    NoStream(PathBuf),
    /// zfs(8) failed.
    #[error("{command}: {why}")]
    Zfs {
        /// The command.
        command: String,
        /// Its error message.
        why: String,
    },
    /// ZFS cannot store a root as required.
    #[error("{}: {why}", zonepath.display())]
    ZfsRoot {
        /// The zonepath.
        zonepath: PathBuf,
        /// The reason.
        why: String,
    },
    /// There is no such image.
    #[error("{0}: no such image")]
    NoImage(String),
    /// Several images have a digest that begins so.
    #[error("{0}: several images begin with this")]
    ManyImages(String),
    /// The files of an image were changed.
    #[error("{digest}: damaged, its files now have the digest {found}")]
    Damaged {
        /// The digest in the image's name.
        digest: crate::Digest,
        /// The digest of its files.
        found: crate::Digest,
    },
    /// A dataset does not stand on the layer that it should.
    #[error("{}: does not stand on {}", zonepath.display(), tree.display())]
    NotBelow {
        /// The zonepath.
        zonepath: PathBuf,
        /// The tree of the layer.
        tree: PathBuf,
    },
    /// A tree changes while it is removed.
    #[error("{}: cannot be emptied, as a process writes into it: end the process and try again", .0.display())]
    NotEmptied(PathBuf),
}

impl Error {
    /// Tells whether the path of a failed call does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Tells whether a lookup ended at another mount.
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
