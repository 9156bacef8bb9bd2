//! Plans: what a verb will do, as data that can be printed, compared and sent.
//!
//! [`ZonePlan`] is carried out by the command itself (install, clone, ...),
//! [`BootPlan`] by the zone's zoneadmd and by the first process of the zone.
//! Every step prints as one line: `-n` shows a plan and does nothing.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::IpType;
use crate::controls::Controls;
use crate::privilege::Capabilities;
use crate::{State, Uuid, Verb, ZoneName};

/// What a command does to one zone, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZonePlan {
    /// The zone.
    pub zone: ZoneName,
    /// The subcommand.
    pub verb: Verb,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// One step of a command.
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
        /// Where.
        path: PathBuf,
    },
    /// Makes an empty dataset: the writable top at `<zonepath>/root`.
    MakeDataset {
        /// The zonepath.
        path: PathBuf,
    },
    /// Makes the zone's dataset: a new top on an image.
    StandOnImage {
        /// The image's digest.
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
    /// Writes what no two zones may share: host name, machine id, hosts.
    Identify {
        /// The dataset's zonepath.
        path: PathBuf,
        /// The uuid that the identity derives from.
        uuid: Uuid,
    },
    /// Puts what was written on stable storage, once for the whole file system.
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
        /// Where.
        path: PathBuf,
    },
    /// Stores the zone's new state.
    Record {
        /// The state.
        state: State,
        /// The uuid, where the zone has one in that state.
        uuid: Option<Uuid>,
    },
    /// Shows the zone's whole root on the host.
    ShowRoot {
        /// The zonepath.
        path: PathBuf,
        /// Where it is shown.
        at: PathBuf,
    },
    /// Takes that view away.
    HideRoot {
        /// Where it is shown.
        at: PathBuf,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin { .. } => f.write_str("store state incomplete"),
            Self::MakeZonepath { path } => write!(f, "make {} (mode 0700)", path.display()),
            Self::MakeDataset { path } => {
                write!(f, "make an empty root at {}/root", path.display())
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
            Self::Freeze => f.write_str("freeze the processes of the zone"),
            Self::CopyTop { path } => write!(f, "copy the top of {}", path.display()),
            Self::Thaw => f.write_str("let the processes go on"),
            Self::Snapshot { path, name } => {
                write!(f, "keep the root of {} as snapshot {name}", path.display())
            }
            Self::Rollback { path, name } => write!(
                f,
                "put a new root at {} on snapshot {name}, and remove what was written since",
                path.display()
            ),
            Self::DestroySnapshot { path, name } => write!(
                f,
                "remove snapshot {name} of {} and layers nobody else needs",
                path.display()
            ),
            Self::Identify { path, .. } => {
                write!(
                    f,
                    "give {}/root its own host name, hosts and machine id",
                    path.display()
                )
            }
            Self::Sync { path } => write!(f, "sync the file system of {}", path.display()),
            Self::DestroyDataset { path } => {
                write!(
                    f,
                    "remove the root of {} and layers nobody else needs",
                    path.display()
                )
            }
            Self::RemoveZonepath { path } => write!(f, "remove {}", path.display()),
            Self::Record { state, .. } => write!(f, "store state {state}"),
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

/// A zone's virtual platform and its init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootPlan {
    /// The zone.
    pub zone: ZoneName,
    /// Its numeric id; 0 in a plan that is only shown.
    pub id: u32,
    /// Given at install.
    pub uuid: Option<Uuid>,
    /// The brand as configured.
    pub brand: String,
    /// Whose network it uses.
    pub ip_type: IpType,
    /// First host id of its range of user and group ids.
    pub first_id: u32,
    /// What zoneadmd does, in order.
    pub platform: Vec<PlatformStep>,
    /// What the zone's first process does then, in order.
    pub inside: Vec<InsideStep>,
    /// Mount points of the configuration's file systems and devices: the mounts there
    /// are remembered, to be changed while the zone runs.
    pub remembered: Vec<PathBuf>,
    /// What the first process becomes.
    pub init: Init,
    /// The signal that asks init to stop everything and power off.
    pub shutdown_signal: i32,
    /// True to stop in state ready.
    pub ready_only: bool,
}

/// The program that becomes process 1 of the zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Init {
    /// A path in the zone, or none for our own zinit.
    pub path: Option<PathBuf>,
    /// Its arguments, its own name first.
    pub arguments: Vec<String>,
    /// Its environment, `NAME=value`.
    pub environment: Vec<String>,
}

/// A device node of the host, as the zone has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Where it is, on the host and in the zone: an absolute path below /dev.
    pub path: PathBuf,
    /// True for a disk, false for a character device.
    pub block: bool,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner, as the zone numbers it.
    pub uid: u32,
    /// Group, as the zone numbers it.
    pub gid: u32,
}

impl fmt::Display for DeviceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.block { 'b' } else { 'c' };
        let (path, major, minor) = (self.path.display(), self.major, self.minor);
        write!(f, "{path} ({kind} {major}:{minor})")
    }
}

/// A step of zoneadmd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PlatformStep {
    /// Makes the zone's control groups.
    Cgroups {
        /// The v2 group first, then one per v1 hierarchy that can limit something.
        paths: Vec<PathBuf>,
        /// Further v1 groups that zones share.
        shared: Vec<PathBuf>,
    },
    /// Admits devices and no others.
    Devices {
        /// Character devices (major, minor; no minor admits all).
        allowed: Vec<(u32, Option<u32>)>,
        /// Those of the configuration.
        nodes: Vec<DeviceNode>,
    },
    /// Makes device nodes with the zone's owners, for the first process to show them.
    DeviceNodes {
        /// The nodes.
        nodes: Vec<DeviceNode>,
    },
    /// Sets the resource controls that control groups hold.
    Controls {
        /// What is set.
        controls: Controls,
    },
    /// Moves zoneadmd into a mount namespace of its own, with a scratch folder in it.
    PrivateMounts {
        /// The folder that the scratch file system is mounted on.
        scratch: PathBuf,
    },
    /// Lets the zone's monotonic and boot clocks start at zero.
    Clocks,
    /// Makes the network namespace.
    Network {
        /// Shared: owned by the host. Exclusive: owned by the zone.
        ip_type: IpType,
    },
    /// Starts the first process in its namespaces.
    FirstProcess,
    /// Sets the resource controls that processes have: locked memory, IPC.
    ProcessControls {
        /// What is set.
        controls: Controls,
    },
    /// Lets the zone administer ZFS datasets.
    Datasets {
        /// Their names.
        names: Vec<String>,
    },
    /// Assembles the root of its layers, with the zone's ids.
    Root {
        /// The zonepath.
        zonepath: PathBuf,
        /// The writable top in it.
        top: PathBuf,
        /// The work folder beside it.
        work: PathBuf,
        /// Sealed layers, topmost first.
        lowers: Vec<PathBuf>,
    },
    /// Shows a folder or file of the host in the zone. What is in the configuration as a
    /// file system is held: the first process puts it in its place, so that it can be
    /// unmounted while the zone runs. What the host has put there cannot.
    Bind {
        /// On the host.
        source: PathBuf,
        /// In the zone.
        target: PathBuf,
        /// False admits writes.
        read_only: bool,
        /// True where set-id programs keep their rights.
        set_id: bool,
        /// The number under which it is held.
        held: Option<u32>,
    },
    /// Mounts a further file system, to be held.
    Mount {
        /// Its type.
        fstype: String,
        /// The device or name.
        source: String,
        /// In the zone.
        target: PathBuf,
        /// Mount options.
        options: Vec<String>,
        /// The number under which it is held.
        held: u32,
    },
    /// Mounts /sys of a shared network namespace, read-only.
    Sysfs,
    /// Makes the zone's console.
    Console,
}

/// A step of the zone's first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum InsideStep {
    /// Enters v1 control groups, then takes the mount and cgroup views as its own.
    OwnViews,
    /// Brings the loopback link up.
    Loopback,
    /// Mounts a file system without a device.
    Mount {
        /// Its type.
        fstype: String,
        /// In the zone.
        target: PathBuf,
        /// Mount options, `name=value`.
        options: Vec<String>,
        /// True where no program may be started from it.
        noexec: bool,
        /// True where nothing may be written.
        read_only: bool,
    },
    /// Puts what zoneadmd holds in its place, made when it is missing.
    Place {
        /// The number.
        held: u32,
        /// In the zone.
        target: PathBuf,
    },
    /// Populates /dev.
    Devices {
        /// Names of host devices shown there.
        names: Vec<String>,
    },
    /// Shows the device nodes that zoneadmd has made.
    DeviceNodes {
        /// Absolute paths below /dev.
        paths: Vec<PathBuf>,
    },
    /// Covers files and folders with nothing.
    Mask {
        /// Absolute paths in the zone; those that are not there are skipped.
        paths: Vec<PathBuf>,
    },
    /// Makes the zone's root the only one.
    Enter,
    /// Sets the host name.
    Hostname {
        /// The name.
        name: String,
    },
    /// Limits what the zone's root can do.
    Privileges {
        /// The capabilities that are left.
        keep: Capabilities,
    },
    /// Refuses system calls that a zone has no use for.
    Syscalls {
        /// The classic BPF program, a word per instruction.
        program: Vec<u64>,
    },
}

impl fmt::Display for PlatformStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroups { paths, shared } => {
                f.write_str("make control groups")?;
                paths
                    .iter()
                    .chain(shared)
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Devices { allowed, nodes } => {
                f.write_str("admit devices")?;
                for (major, minor) in allowed {
                    match minor {
                        Some(minor) => write!(f, " {major}:{minor}")?,
                        None => write!(f, " {major}:*")?,
                    }
                }
                nodes.iter().try_for_each(|node| write!(f, " {node}"))
            }
            Self::DeviceNodes { nodes } => {
                f.write_str("make device nodes")?;
                nodes
                    .iter()
                    .try_for_each(|node| write!(f, " {}", node.path.display()))
            }
            Self::Controls { controls } | Self::ProcessControls { controls } => {
                write!(f, "set {controls}")
            }
            Self::PrivateMounts { scratch } => {
                write!(
                    f,
                    "leave the host's mounts, scratch at {}",
                    scratch.display()
                )
            }
            Self::Clocks => f.write_str("start the zone's clocks at zero"),
            Self::Network { ip_type } => write!(f, "make a network namespace, ip-type {ip_type}"),
            Self::FirstProcess => f.write_str("start the first process in its namespaces"),
            Self::Root { top, lowers, .. } => {
                write!(f, "mount / of {}", top.display())?;
                lowers
                    .iter()
                    .try_for_each(|layer| write!(f, " over {}", layer.display()))
            }
            Self::Bind {
                source,
                target,
                read_only,
                ..
            } => write!(
                f,
                "show {} at {}{}",
                source.display(),
                target.display(),
                if *read_only { ", read-only" } else { "" }
            ),
            Self::Mount {
                fstype,
                source,
                target,
                options,
                ..
            } => write!(
                f,
                "mount {fstype} {source} at {} [{}]",
                target.display(),
                options.join(",")
            ),
            Self::Datasets { names } => write!(f, "delegate {}", names.join(" ")),
            Self::Sysfs => f.write_str("mount sysfs at /sys, read-only"),
            Self::Console => f.write_str("make the console"),
        }
    }
}

impl fmt::Display for InsideStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnViews => f.write_str("take mounts and control groups as its own"),
            Self::Loopback => f.write_str("bring lo up"),
            Self::Mount {
                fstype,
                target,
                options,
                ..
            } => {
                write!(
                    f,
                    "mount {fstype} at {} [{}]",
                    target.display(),
                    options.join(",")
                )
            }
            Self::Place { target, .. } => write!(f, "put {} in its place", target.display()),
            Self::Devices { names } => write!(f, "populate /dev with {}", names.join(" ")),
            Self::DeviceNodes { paths } => {
                f.write_str("show")?;
                paths
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Mask { paths } => {
                f.write_str("mask")?;
                paths
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Enter => f.write_str("make the zone's root the only one"),
            Self::Hostname { name } => write!(f, "set host name {name}"),
            Self::Privileges { keep } => write!(f, "keep capabilities {keep}"),
            Self::Syscalls { program } => {
                write!(f, "filter system calls ({} instructions)", program.len())
            }
        }
    }
}

impl fmt::Display for ZonePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} zone {}:", self.verb, self.zone)?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))
    }
}

impl fmt::Display for BootPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.first_id + 65_535;
        writeln!(
            f,
            "boot zone {} with user ids {}-{last}:",
            self.zone, self.first_id
        )?;
        self.platform
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))?;
        writeln!(f, "  then, as the first process of the zone:")?;
        self.inside
            .iter()
            .try_for_each(|step| writeln!(f, "    {step}"))?;
        if self.ready_only {
            return writeln!(f, "    wait for boot");
        }
        match &self.init.path {
            Some(path) => writeln!(f, "    run {}", path.display()),
            None => writeln!(f, "    run zinit"),
        }
    }
}
