//! The plan of a command: install, clone, uninstall and the others.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{State, Uuid, Verb, ZoneName};

/// The steps of a command for one zone, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZonePlan {
    /// The zone.
    pub zone: ZoneName,
    /// The subcommand.
    pub verb: Verb,
    /// The steps, in order.
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

/// The call of a host's tool that makes a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The name of the image that it becomes; another recipe has another.
    pub image: String,
    /// The tool.
    pub program: PathBuf,
    /// Its arguments; [`Recipe::ROOT`] stands for the folder that it fills.
    pub arguments: Vec<String>,
    /// Files that are written afterwards, by names in the root.
    pub files: Vec<(PathBuf, String)>,
}

impl Recipe {
    /// The argument that stands for the folder.
    pub const ROOT: &'static str = "{root}";

    /// The arguments for one folder.
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
        /// Identity of the zone from now on.
        uuid: Uuid,
    },
    /// Makes the zonepath, owned by root, mode 0700.
    MakeZonepath {
        /// The path of the root.
        path: PathBuf,
    },
    /// Says in the zonepath that a root is being unpacked there.
    MarkUnpacking {
        /// The zonepath.
        path: PathBuf,
    },
    /// The root that was being unpacked is whole, and on the disk.
    EndUnpacking {
        /// The zonepath.
        path: PathBuf,
    },
    /// Makes an empty dataset: the writable top at `<zonepath>/root`.
    MakeDataset {
        /// The zonepath.
        path: PathBuf,
    },
    /// Makes a root of the host's own distribution and keeps it as an image.
    Bootstrap {
        /// The recipe of the root.
        recipe: Recipe,
    },
    /// Imports a container image, as far as it is not here.
    ImportImage {
        /// The source of the image.
        source: String,
    },
    /// Configures the zone to run the command of its image.
    LayImageInit {
        /// The zonepath.
        path: PathBuf,
    },
    /// Makes the zone's dataset: a new top on an image.
    StandOnImage {
        /// The image's digest, or its name.
        image: String,
        /// The zonepath.
        path: PathBuf,
    },
    /// Populates the root as the brand does.
    Populate {
        /// The brand.
        brand: String,
        /// The dataset's root.
        root: PathBuf,
        /// Brand options of the command line.
        options: Vec<String>,
    },
    /// Makes the zone's dataset as a copy of the origin's: a new top on its sealed layers.
    CloneDataset {
        /// The zone copied from.
        origin: ZoneName,
        /// Its zonepath.
        from: PathBuf,
        /// The new zonepath.
        to: PathBuf,
        /// The origin's snapshot; none for the origin as it is now.
        snapshot: Option<String>,
    },
    /// Stops every process of the zone where it is.
    Freeze,
    /// Makes the machine of a kernel zone: its disks, and its record.
    MakeMachine {
        /// The zonepath.
        path: PathBuf,
        /// Brand options of the command line.
        options: Vec<String>,
    },
    /// Makes the machine of a kernel zone as a copy of the origin's.
    CloneMachine {
        /// The origin's zonepath.
        from: PathBuf,
        /// The new zonepath.
        to: PathBuf,
    },
    /// Removes the disks of a kernel zone that lie in its zonepath.
    DestroyMachine {
        /// The zonepath.
        path: PathBuf,
    },
    /// Copies the writable top.
    CopyTop {
        /// The zonepath.
        path: PathBuf,
    },
    /// Lets the zone go on.
    Thaw,
    /// Makes a snapshot: of the copied top, or by sealing the top of a halted zone.
    Snapshot {
        /// The zonepath.
        path: PathBuf,
        /// The snapshot.
        name: String,
    },
    /// Merges layers below the root of a halted zone.
    MergeLayers {
        /// The zonepath.
        path: PathBuf,
        /// Maximum number that are left.
        most: usize,
    },
    /// Merges layers below the root of a zone that runs, for its next boot.
    MergeBeside {
        /// The zonepath.
        path: PathBuf,
        /// Maximum number that are left.
        most: usize,
    },
    /// Takes the root back to a snapshot.
    Rollback {
        /// The zonepath.
        path: PathBuf,
        /// The snapshot.
        name: String,
    },
    /// Removes a snapshot, and layers that nobody else needs.
    DestroySnapshot {
        /// The zonepath.
        path: PathBuf,
        /// The snapshot.
        name: String,
    },
    /// Writes the identity of the zone: host name, machine id, hosts.
    Identify {
        /// The dataset's zonepath.
        path: PathBuf,
        /// The uuid that the identity derives from.
        uuid: Uuid,
    },
    /// Copies the content of a folder of the host into the zone's root.
    LayProfile {
        /// The dataset's zonepath.
        path: PathBuf,
        /// The folder.
        profile: PathBuf,
    },
    /// Writes all changes to stable storage, once for the whole file system.
    Sync {
        /// A path on it.
        path: PathBuf,
    },
    /// Removes the dataset; layers that others need stay.
    DestroyDataset {
        /// The zonepath.
        path: PathBuf,
    },
    /// Removes the zonepath when nothing of the user's is in it.
    RemoveZonepath {
        /// The path of the zone's dataset.
        path: PathBuf,
    },
    /// Stores the zone's new state.
    Record {
        /// The state.
        state: State,
        /// The uuid, where the zone has one in that state.
        uuid: Option<Uuid>,
    },
    /// Copies the content of an archive or a folder of the host into an empty root.
    Unpack {
        /// The dataset's root.
        root: PathBuf,
        /// `-a` or `-d`, and a path.
        options: Vec<String>,
    },
    /// Writes the configuration and the list of packages into the zonepath.
    WriteManifest {
        /// The zonepath.
        path: PathBuf,
    },
    /// Removes that file.
    RemoveManifest {
        /// The zonepath.
        path: PathBuf,
    },
    /// Says in the zonepath that the zone was attached without a check.
    MarkForced {
        /// The zonepath.
        path: PathBuf,
    },
    /// Updates the own part of a sparse zone to the host's packages.
    FollowHost {
        /// The zonepath.
        path: PathBuf,
    },
    /// Shows the zone's whole root on the host.
    ShowRoot {
        /// The zonepath.
        path: PathBuf,
        /// The mount point.
        at: PathBuf,
    },
    /// Takes that view away.
    HideRoot {
        /// The mount point.
        at: PathBuf,
    },
}

impl fmt::Display for Step {
    // Long because it is a table with the text of each step.
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
            Self::CopyTop { path } => write!(f, "copy the top of {}", path.display()),
            Self::Thaw => f.write_str("let the processes go on"),
            Self::Snapshot { path, name } => {
                write!(f, "keep the root of {} as snapshot {name}", path.display())
            }
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
            Self::Unpack { root, options } => {
                write!(f, "unpack {} into {}", options.join(" "), root.display())
            }
            Self::WriteManifest { path } => {
                write!(f, "write {}/SUNWdetached.xml", path.display())
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
