//! The plan of a command: install, clone, uninstall and the others.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{State, Uuid, Verb, ZoneName};

/// The steps of a command for one zone, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZonePlan {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The subcommand of zoneadm.
    pub verb: Verb,
    /// The steps of the command, in order.
    pub steps: Vec<Step>,
}

impl fmt::Display for ZonePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} zone {}:", self.verb, self.zone)?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// The call of a tool of the host that creates a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The name of the image that the root becomes. A different recipe has a different name.
    pub image: String,
    /// The path of the tool.
    pub program: PathBuf,
    /// The arguments of the tool. [`Recipe::ROOT`] stands for the folder that the tool fills.
    pub arguments: Vec<String>,
    /// Files to write after the tool has run: their paths in the root, and their contents.
    pub files: Vec<(PathBuf, String)>,
}

impl Recipe {
    /// The argument that stands for the folder to fill.
    pub const ROOT: &'static str = "{root}";

    /// Returns the arguments with the path of a folder in place of [`Recipe::ROOT`].
    pub fn arguments_for<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = &'a OsStr> {
        self.arguments.iter().map(move |word| match word.as_str() {
            Self::ROOT => root.as_os_str(),
            word => OsStr::new(word),
        })
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, image) = (self.program.display(), &self.image);
        write!(f, "make image {image} with {program}")?;
        self.arguments
            .iter()
            .try_for_each(|word| match word.contains(' ') {
                true => write!(f, " '{word}'"),
                false => write!(f, " {word}"),
            })
    }
}

/// A step of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Stores the state `incomplete`, with the uuid and id range that the zone will have.
    Begin {
        /// The UUID of the zone from this step on.
        uuid: Uuid,
    },
    /// Makes the zonepath, with owner root and mode 0700.
    MakeZonepath {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Writes a mark into the zonepath, which means that the root is being unpacked.
    MarkUnpacking {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Removes that mark, because the unpacked root is complete and on the disk.
    EndUnpacking {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Makes an empty dataset: the writable top at `<zonepath>/root`.
    MakeDataset {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Makes a root of the host's own distribution and keeps it as an image.
    Bootstrap {
        /// The recipe with which to create the root.
        recipe: Recipe,
    },
    /// Imports a container image, unless the host already has it.
    ImportImage {
        /// The source of the container image.
        source: String,
    },
    /// Configures the zone to run the command of its image.
    LayImageInit {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Limits the space for files of a zone without a limit. If the file system has no such limits,
    /// the step only tells so.
    LimitSpace {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The limit in bytes.
        bytes: u64,
    },
    /// Makes the zone's dataset: a new top above the layers of an image.
    StandOnImage {
        /// The image's digest, or its name.
        image: String,
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Fills the root as the brand requires.
    Populate {
        /// The name of the brand.
        brand: String,
        /// The root folder of the zone's dataset.
        root: PathBuf,
        /// The brand options of the command line.
        options: Vec<String>,
    },
    /// Makes the zone's dataset as a copy of the origin's dataset: a new top above the origin's
    /// sealed layers.
    CloneDataset {
        /// The zone to copy.
        origin: ZoneName,
        /// The zonepath of the origin.
        from: PathBuf,
        /// The zonepath of the new zone.
        to: PathBuf,
        /// The snapshot of the origin to copy; `None` means the present content of the origin.
        snapshot: Option<String>,
    },
    /// Freezes all processes of the zone.
    Freeze,
    /// Creates the guest of a kernel zone: its disks and its record.
    MakeMachine {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The brand options of the command line.
        options: Vec<String>,
    },
    /// Creates the guest of a kernel zone as a copy of the origin's guest.
    CloneMachine {
        /// The zonepath of the origin.
        from: PathBuf,
        /// The zonepath of the new zone.
        to: PathBuf,
    },
    /// Removes the disks of a kernel zone that are in its zonepath.
    DestroyMachine {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Copies the writable top of the zone's root while the zone runs. Files that are unchanged
    /// since the last snapshot are not copied.
    BeginCopy {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Copies the files of the top that have changed meanwhile.
    CompleteCopy {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Lets the frozen processes of the zone continue.
    Thaw,
    /// Makes a snapshot, from the copied top or by sealing the top of a halted zone.
    Snapshot {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The name of the snapshot.
        name: String,
    },
    /// Makes a snapshot with the layers of another snapshot of the zone.
    ShareSnapshot {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The name of the other snapshot.
        from: String,
        /// The name of the snapshot.
        name: String,
    },
    /// Merges layers below the root of a halted zone.
    MergeLayers {
        /// The zonepath of the zone.
        path: PathBuf,
        /// Maximum number of layers after the merge.
        most: usize,
    },
    /// Merges layers below the root of a running zone. The merged layer is used from the zone's
    /// next boot on.
    MergeBeside {
        /// The zonepath of the zone.
        path: PathBuf,
        /// Maximum number of layers after the merge.
        most: usize,
    },
    /// Sets the root back to a snapshot.
    Rollback {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The name of the snapshot.
        name: String,
    },
    /// Removes a snapshot, and the layers that no other zone or snapshot uses.
    DestroySnapshot {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The name of the snapshot.
        name: String,
    },
    /// Writes the identity of the zone into its root: host name, machine id, and hosts file.
    Identify {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The uuid that the identity derives from.
        uuid: Uuid,
    },
    /// Copies the content of a folder of the host into the zone's root.
    LayProfile {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The folder of the host.
        profile: PathBuf,
    },
    /// Applies a profile of Solaris to the zone's root.
    ApplyProfile {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The profile on the host, or the folder of profiles.
        profile: PathBuf,
    },
    /// Writes a seed for the cloud-init in the zone's root.
    LaySeed {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The folder of the host with the files of the seed.
        seed: PathBuf,
        /// The uuid of the zone, by which cloud-init recognises a new instance.
        uuid: Uuid,
    },
    /// Makes the disk on which cloud-init in a guest finds its seed.
    MakeSeedDisk {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The folder of the host with the files of the seed.
        seed: PathBuf,
        /// The uuid of the zone, by which cloud-init recognises a new instance.
        uuid: Uuid,
    },
    /// Writes all changes of one file system to stable storage.
    Sync {
        /// A path on that file system.
        path: PathBuf,
    },
    /// Removes the dataset of the zone. Layers that other zones or snapshots use stay.
    DestroyDataset {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Removes the zonepath if no file of the user is in it.
    RemoveZonepath {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Stores the zone's new state.
    Record {
        /// The new state.
        state: State,
        /// The UUID of the zone; `None` if a zone in the new state has no UUID.
        uuid: Option<Uuid>,
    },
    /// Removes the zone from the index, and then its configuration.
    DeleteConfiguration,
    /// Copies the content of an archive or a folder of the host into an empty root.
    Unpack {
        /// The root of the zone's dataset.
        root: PathBuf,
        /// The option `-a` or `-d`, and a path.
        options: Vec<String>,
    },
    /// Writes SUNWdetached.xml into the zonepath: the configuration and the list of packages.
    WriteManifest {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Stores that no host owns the zonepath.
    ReleaseZonepath {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Removes SUNWdetached.xml from the zonepath.
    RemoveManifest {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Writes a mark into the zonepath, which means that the zone was attached without a check.
    MarkForced {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Updates the package records and configuration files of a sparse zone from the host.
    FollowHost {
        /// The zonepath of the zone.
        path: PathBuf,
    },
    /// Records in the index that the zonepath is being moved.
    BeginMove {
        /// The new zonepath.
        to: PathBuf,
        /// True if the files are copied; false if the folder is renamed.
        copy: bool,
    },
    /// Renames the zonepath. Its layers stay where they are.
    RenameZonepath {
        /// The old zonepath.
        from: PathBuf,
        /// The new zonepath.
        to: PathBuf,
    },
    /// Copies the zonepath to another file system: the root with its layers and snapshots, and all
    /// other files.
    CopyZonepath {
        /// The old zonepath.
        from: PathBuf,
        /// The new zonepath.
        to: PathBuf,
    },
    /// Stores the new zonepath in the configuration and in the index.
    StoreZonepath {
        /// The new zonepath.
        to: PathBuf,
    },
    /// Removes the old zonepath, and the record of the move from the index.
    EndMove {
        /// The old zonepath; `None` if it was renamed.
        from: Option<PathBuf>,
    },
    /// Mounts the zone's whole root on the host.
    ShowRoot {
        /// The zonepath of the zone.
        path: PathBuf,
        /// The mount point of the root on the host.
        at: PathBuf,
    },
    /// Unmounts the view of the zone's root on the host.
    HideRoot {
        /// The mount point to unmount on the host.
        at: PathBuf,
    },
}

impl fmt::Display for Step {
    // This function is long because it is a table with the text of each step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin { .. } => f.write_str("store state incomplete"),
            Self::MakeZonepath { path } => write!(f, "make {} (mode 0700)", path.display()),
            Self::MarkUnpacking { path } => {
                write!(f, "mark the root of {} as unfinished", path.display())
            }
            Self::EndUnpacking { path } => {
                write!(f, "mark the root of {} as whole", path.display())
            }
            Self::MakeDataset { path } => {
                write!(f, "make an empty root at {}/root", path.display())
            }
            Self::Bootstrap { recipe } => write!(f, "{recipe}"),
            Self::ImportImage { source } => write!(f, "import image {source}"),
            Self::LayImageInit { path } => write!(
                f,
                "configure the zone at {} to run the command of its image",
                path.display()
            ),
            Self::LimitSpace { path, bytes } => {
                write!(f, "limit the files of {} to {bytes} bytes", path.display())
            }
            Self::StandOnImage { image, path } => {
                write!(
                    f,
                    "put a new root at {}/root on image {image}",
                    path.display()
                )
            }
            Self::Populate {
                brand,
                root,
                options,
            } => {
                write!(f, "install brand {brand} into {}", root.display())?;
                options.iter().try_for_each(|option| write!(f, " {option}"))
            }
            Self::CloneDataset {
                origin,
                from,
                to,
                snapshot,
            } => {
                let (to, from) = (to.display(), from.display());
                write!(f, "put a new root at {to}/root on ")?;
                match snapshot {
                    None => write!(f, "the sealed layers of zone {origin} ({from})"),
                    Some(name) => write!(f, "snapshot {name} of zone {origin} ({from})"),
                }
            }
            Self::MakeMachine { path, options } => {
                write!(f, "make the machine and its disks at {}", path.display())?;
                options.iter().try_for_each(|option| write!(f, " {option}"))
            }
            Self::CloneMachine { from, to } => write!(
                f,
                "put new disks at {} on those at {}",
                to.display(),
                from.display()
            ),
            Self::DestroyMachine { path } => {
                write!(f, "remove the disks at {}", path.display())
            }
            Self::Freeze => f.write_str("freeze the processes of the zone"),
            Self::BeginCopy { path } => {
                write!(f, "copy the top of {} while the zone runs", path.display())
            }
            Self::CompleteCopy { path } => write!(
                f,
                "copy the files of the top of {} that have changed",
                path.display()
            ),
            Self::Thaw => f.write_str("let the processes go on"),
            Self::Snapshot { path, name } => {
                write!(f, "keep the root of {} as snapshot {name}", path.display())
            }
            Self::ShareSnapshot { path, from, name } => write!(
                f,
                "keep the root of {} as snapshot {name}, with the files of snapshot {from}, as \
                 none has changed",
                path.display()
            ),
            Self::MergeLayers { path, most } => write!(
                f,
                "merge the layers below {} until {most} are left",
                path.display()
            ),
            Self::MergeBeside { path, most } => write!(
                f,
                "merge the layers below {} until {most} are left, for its next boot",
                path.display()
            ),
            Self::Rollback { path, name } => write!(
                f,
                "put a new root at {} on snapshot {name}, and remove all later changes",
                path.display()
            ),
            Self::DestroySnapshot { path, name } => write!(
                f,
                "remove snapshot {name} of {} and the layers that only it uses",
                path.display()
            ),
            Self::Identify { path, .. } => {
                write!(
                    f,
                    "give {}/root its own host name, hosts and machine id",
                    path.display()
                )
            }
            Self::LayProfile { path, profile } => write!(
                f,
                "copy the contents of {} into {}/root",
                profile.display(),
                path.display()
            ),
            Self::ApplyProfile { path, profile } => write!(
                f,
                "apply the profile {} to {}/root",
                profile.display(),
                path.display()
            ),
            Self::LaySeed { path, seed, .. } => write!(
                f,
                "give cloud-init in {}/root the seed {}",
                path.display(),
                seed.display()
            ),
            Self::MakeSeedDisk { path, seed, .. } => write!(
                f,
                "make a disk for cloud-init at {} with the seed {}",
                path.display(),
                seed.display()
            ),
            Self::Sync { path } => write!(f, "sync the file system of {}", path.display()),
            Self::DestroyDataset { path } => {
                write!(
                    f,
                    "remove the root of {} and the layers that only it uses",
                    path.display()
                )
            }
            Self::RemoveZonepath { path } => write!(f, "remove {}", path.display()),
            Self::Record { state, .. } => write!(f, "store state {state}"),
            Self::DeleteConfiguration => f.write_str("delete the configuration"),
            Self::Unpack { root, options } => {
                write!(f, "unpack {} into {}", options.join(" "), root.display())
            }
            Self::WriteManifest { path } => {
                write!(f, "write {}/SUNWdetached.xml", path.display())
            }
            Self::ReleaseZonepath { path } => {
                write!(f, "record that no host owns {}", path.display())
            }
            Self::RemoveManifest { path } => {
                write!(f, "remove {}/SUNWdetached.xml", path.display())
            }
            Self::MarkForced { path } => write!(f, "write {}/SUNWattached.xml", path.display()),
            Self::FollowHost { path } => write!(
                f,
                "update package records and configuration files of {} from this host",
                path.display()
            ),
            Self::BeginMove { to, copy } => {
                let how = if *copy { "is being copied" } else { "moves" };
                write!(f, "record that the zonepath {how} to {}", to.display())
            }
            Self::RenameZonepath { from, to } => {
                write!(f, "rename {} to {}", from.display(), to.display())
            }
            Self::CopyZonepath { from, to } => write!(
                f,
                "copy the root of {}, its layers and snapshots, and all other files to {}",
                from.display(),
                to.display()
            ),
            Self::StoreZonepath { to } => write!(f, "store zonepath {}", to.display()),
            Self::EndMove { from } => match from {
                Some(from) => write!(
                    f,
                    "remove {} and the layers that only it uses",
                    from.display()
                ),
                None => f.write_str("record the end of the move"),
            },
            Self::ShowRoot { path, at } => {
                write!(
                    f,
                    "mount the root of {} at {}",
                    path.display(),
                    at.display()
                )
            }
            Self::HideRoot { at } => write!(f, "unmount {}", at.display()),
        }
    }
}
