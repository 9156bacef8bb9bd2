//! The steps with which zoneadmd makes a zone's virtual platform.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Kernel;
use super::network::Link;
use crate::config::IpType;
use crate::controls::Controls;
use crate::immutable::Layout;

/// A step of zoneadmd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PlatformStep {
    /// Makes the zone's control groups.
    Cgroups {
        /// The zone's own groups: first the v2 group, then one group per v1 hierarchy that can
        /// limit a resource.
        paths: Vec<PathBuf>,
        /// Further v1 groups, which all zones share.
        shared: Vec<PathBuf>,
    },
    /// Lets the zone open the listed devices, and no others.
    Devices {
        /// Character devices of every zone, as major and minor number. A missing minor number
        /// admits all minor numbers.
        allowed: Vec<(u32, Option<u32>)>,
        /// The device nodes that the configuration names.
        nodes: Vec<DeviceNode>,
    },
    /// Makes device nodes with owners of the zone. The first process of the zone mounts the nodes
    /// in /dev.
    DeviceNodes {
        /// The nodes to make.
        nodes: Vec<DeviceNode>,
    },
    /// Sets the resource controls that control groups enforce.
    Controls {
        /// The controls to set.
        controls: Controls,
    },
    /// Starts the process that answers uname(2) calls of the zone's processes.
    Answerer {
        /// The kernel version with which the process answers.
        kernel: Kernel,
        /// The socket that receives further seccomp filters whose calls the process answers.
        socket: PathBuf,
    },
    /// Moves zoneadmd into its own mount namespace, and mounts a scratch file system in that
    /// namespace.
    PrivateMounts {
        /// The folder on which the scratch file system is mounted.
        scratch: PathBuf,
    },
    /// Lets only root of the host read /proc/locks, because this list shows the file locks of all
    /// zones.
    HideLocks,
    /// Lets the zone's monotonic clock and boot clock start at zero.
    Clocks,
    /// Creates the network namespace.
    Network {
        /// The network type. The host owns a shared namespace, the zone an exclusive one.
        ip_type: IpType,
        /// True if every user of the zone may open ICMP sockets for ping(8).
        pings: bool,
    },
    /// Uses the network namespace of a running zone, for a job that runs beside that zone.
    JoinNetwork {
        /// The pid of the zone's first process on the host.
        pid: i32,
        /// The start time of the first process, in clock ticks since the host booted.
        started: u64,
    },
    /// Starts the first process of the zone in its namespaces.
    FirstProcess,
    /// Makes the zone's links, and sets their addresses and routes.
    Links {
        /// The links to make.
        links: Vec<Link>,
        /// The file that records the host's part of the links.
        records: PathBuf,
    },
    /// Sets the resource controls that belong to processes: locked memory and System V IPC.
    ProcessControls {
        /// The controls to set.
        controls: Controls,
    },
    /// Lets the zone administer ZFS datasets.
    Datasets {
        /// The names of the datasets.
        names: Vec<String>,
    },
    /// Mounts the root, an overlay of the zone's layers, with the zone's ids.
    Root {
        /// The zonepath of the zone.
        zonepath: PathBuf,
        /// The writable top in the zonepath.
        top: PathBuf,
        /// The work folder of the overlay, beside the top.
        work: PathBuf,
        /// The sealed layers, the topmost first.
        lowers: Vec<PathBuf>,
        /// True if the overlay is mounted `volatile`, because the root is a copy whose data need
        /// not reach the disk.
        #[serde(default)]
        volatile: bool,
    },
    /// Mounts the folder that zones of higher labels can read at /export, and a file system in
    /// memory for the views of zones of lower labels at /zone.
    Export {
        /// The zonepath of the zone. Its folder `export` holds the files.
        zonepath: PathBuf,
    },
    /// Mounts the writable folders of an immutable zone, and the read-only ones in them, over its
    /// root. Afterwards the root itself is still writable for zoneadmd.
    Immutable(Layout),
    /// Makes the root of an immutable zone read-only.
    Seal,
    /// Mounts a folder or file of the host in the zone. zoneadmd holds the file systems of the
    /// configuration: the first process attaches them at their mount points, so that the zone can
    /// unmount them while it runs. Mounts that the host attaches cannot be unmounted.
    Bind {
        /// The path of the folder or file on the host.
        source: PathBuf,
        /// The path of the mount in the zone.
        target: PathBuf,
        /// True if the mount is read-only.
        read_only: bool,
        /// True if set-id programs on the mount keep their rights.
        set_id: bool,
        /// The number under which zoneadmd holds the mount.
        held: Option<u32>,
    },
    /// Mounts a further file system. zoneadmd holds the mount for the first process.
    Mount {
        /// The type of the file system.
        fstype: String,
        /// The device, or the name of the source.
        source: String,
        /// The mount point in the zone.
        target: PathBuf,
        /// The mount options.
        options: Vec<String>,
        /// The number under which zoneadmd holds the mount.
        held: u32,
    },
    /// Makes files that show the zone's limits in the form of the kernel's files about the host.
    /// zoneadmd holds the files, and the first process mounts them over the kernel's files.
    LimitFiles {
        /// The folder of the host with the files that show the zone's limits.
        folder: PathBuf,
        /// The files of the kernel that the zone's files cover.
        targets: Vec<PathBuf>,
    },
    /// Gives the zone its own host id, in the file that gethostid(3) reads.
    HostId {
        /// The host id of the zone.
        id: u32,
    },
    /// Mounts /sys read-only in a zone with a shared network namespace.
    Sysfs,
    /// Makes the zone's console.
    Console,
    /// Opens the resources of a kernel zone's guest: its memory, control sockets, disks and network
    /// cards, in this order.
    Machine(Box<MachineParts>),
}

/// The files, sockets and devices of the host that the guest of a kernel zone uses. QEMU gets each
/// file, socket and device as a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineParts {
    /// Memory of the guest in bytes.
    pub memory: u64,
    /// True if large pages hold the guest's memory, provided that the host has such pages.
    pub large_pages: bool,
    /// The socket of the QEMU monitor.
    pub monitor: PathBuf,
    /// The socket of the guest's serial line.
    pub console: PathBuf,
    /// The socket of the channel to the agent in the guest.
    pub agent: PathBuf,
    /// The files of the guest's disks.
    pub files: Vec<MachineFile>,
    /// The names of the zone's links that are the guest's network cards.
    pub cards: Vec<String>,
    /// The user id in the zone with which QEMU runs.
    pub user: u32,
    /// True if QEMU gets the device with which another process answers its page faults.
    #[serde(default)]
    pub faults: bool,
}

/// A file of one of the guest's disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFile {
    /// The path of the disk's file on the host.
    pub path: PathBuf,
    /// True if the file is opened read-only.
    pub read_only: bool,
    /// True if the file is accessed without the host's page cache.
    pub direct: bool,
}

impl fmt::Display for PlatformStep {
    // This function is long because it is a table with the text of each step.
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
            Self::Answerer { kernel, .. } => write!(f, "answer uname with {kernel}"),
            Self::LimitFiles { folder, .. } => {
                write!(f, "write its limits into {}", folder.display())
            }
            Self::HostId { id } => write!(f, "set host id {id:08x}"),
            Self::Export { zonepath } => write!(
                f,
                "mount {} at /export, for zones of higher labels to read",
                zonepath.join("export").display()
            ),
            Self::HideLocks => f.write_str("close /proc/locks to all but the host's root"),
            Self::Clocks => f.write_str("start the zone's clocks at zero"),
            Self::Network { ip_type, pings } => {
                let without = if *pings { "" } else { ", without ICMP sockets" };
                write!(f, "make a network namespace, ip-type {ip_type}{without}")
            }
            Self::JoinNetwork { pid, .. } => write!(f, "use the network of process {pid}"),
            Self::Links { links, .. } => {
                f.write_str("make the links")?;
                let mut separator = " ";
                for link in links {
                    write!(f, "{separator}{link}")?;
                    separator = ", ";
                }
                Ok(())
            }
            Self::FirstProcess => f.write_str("start the first process in its namespaces"),
            Self::Root { top, lowers, .. } => {
                write!(f, "mount / of {}", top.display())?;
                lowers
                    .iter()
                    .try_for_each(|layer| write!(f, " over {}", layer.display()))
            }
            Self::Immutable(layout) => layout.fmt(f),
            Self::Seal => f.write_str("make / read-only"),
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
            Self::Machine(parts) => write!(f, "{parts}"),
        }
    }
}

impl fmt::Display for MachineParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = crate::table::short_size(self.memory);
        write!(f, "give the machine {memory} of memory")?;
        f.write_str(if self.large_pages {
            " in large pages"
        } else {
            ""
        })?;
        for file in &self.files {
            write!(f, ", {}", file.path.display())?;
            f.write_str(if file.read_only { " (read-only)" } else { "" })?;
        }
        self.cards.iter().try_for_each(|card| write!(f, ", {card}"))
    }
}

/// A device node of the host, with the attributes that it has in the zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// The absolute path below /dev. The path is the same on the host and in the zone.
    pub path: PathBuf,
    /// True for a block device, false for a character device.
    pub block: bool,
    /// The major number of the device.
    pub major: u32,
    /// The minor number of the device.
    pub minor: u32,
    /// The permission bits of the node.
    pub mode: u32,
    /// The user id of the owner in the zone.
    pub uid: u32,
    /// The group id of the owner in the zone.
    pub gid: u32,
}

impl fmt::Display for DeviceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.block { 'b' } else { 'c' };
        let (path, major, minor) = (self.path.display(), self.major, self.minor);
        write!(f, "{path} ({kind} {major}:{minor})")
    }
}
