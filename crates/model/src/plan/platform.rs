//! The steps in which zoneadmd makes a zone's virtual platform.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Kernel;
use super::network::Link;
use crate::config::IpType;
use crate::controls::Controls;

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
        /// The controls to set.
        controls: Controls,
    },
    /// Starts the process that answers uname(2) for those in the zone.
    Answerer {
        /// The kernel version in its answers.
        kernel: Kernel,
        /// The socket that announces further filters to answer.
        socket: PathBuf,
    },
    /// Moves zoneadmd into a mount namespace of its own, with a scratch folder in it.
    PrivateMounts {
        /// The folder that the scratch file system is mounted on.
        scratch: PathBuf,
    },
    /// Lets only the host's root read the list of file locks: it shows those of all zones.
    HideLocks,
    /// Lets the zone's monotonic and boot clocks start at zero.
    Clocks,
    /// Makes the network namespace.
    Network {
        /// Shared: owned by the host. Exclusive: owned by the zone.
        ip_type: IpType,
        /// True where every user of the zone may open ICMP sockets, as ping(8) does.
        pings: bool,
    },
    /// Uses the network namespace of a running zone, for a job beside it.
    JoinNetwork {
        /// The zone's first process, as the host numbers it.
        pid: i32,
        /// When that was started, in clock ticks since the host booted.
        started: u64,
    },
    /// Starts the first process in its namespaces.
    FirstProcess,
    /// Makes the zone's links and gives them their addresses and routes.
    Links {
        /// The links.
        links: Vec<Link>,
        /// The file that records the host's part of them.
        records: PathBuf,
    },
    /// Sets the resource controls that processes have: locked memory, IPC.
    ProcessControls {
        /// The controls to set.
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
        /// True for a copy that nothing is written to disk of in time.
        #[serde(default)]
        volatile: bool,
    },
    /// Shows a folder or file of the host in the zone. The file systems of the configuration are
    /// held: the first process attaches them at their places, so that they can be unmounted while
    /// the zone runs. Mounts that the host attaches cannot be unmounted.
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
    /// Makes files that show the zone's limits in the form of the kernel's own files about the
    /// host. They are held: the first process covers the kernel's with them.
    LimitFiles {
        /// The folder of the host that they are in.
        folder: PathBuf,
        /// The files of the kernel that they are to cover.
        targets: Vec<PathBuf>,
    },
    /// Gives the zone a host id of its own, in the place where gethostid(3) looks.
    HostId {
        /// The id.
        id: u32,
    },
    /// Mounts /sys of a shared network namespace, read-only.
    Sysfs,
    /// Makes the zone's console.
    Console,
    /// Opens the resources of the machine of a kernel zone: its memory, its control sockets, its
    /// disks and network cards, in this order.
    Machine(Box<MachineParts>),
}

/// The files, sockets and devices of the host that the machine of a kernel zone uses. QEMU gets
/// each as a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineParts {
    /// Bytes of memory.
    pub memory: u64,
    /// True if the memory is had in large pages, where the host can.
    pub large_pages: bool,
    /// The socket of the monitor.
    pub monitor: PathBuf,
    /// The socket of the serial line.
    pub console: PathBuf,
    /// The socket of the channel to the agent in the guest.
    pub agent: PathBuf,
    /// The files of its disks.
    pub files: Vec<MachineFile>,
    /// The links of the zone that are its network cards, by their names.
    pub cards: Vec<String>,
    /// The user of the zone that QEMU runs as.
    pub user: u32,
    /// True if it gets the device by which others answer its page faults.
    #[serde(default)]
    pub faults: bool,
}

/// A file of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFile {
    /// The path on the host.
    pub path: PathBuf,
    /// False admits writes.
    pub read_only: bool,
    /// True if the host's page cache is passed by.
    pub direct: bool,
}

impl fmt::Display for PlatformStep {
    // Long because it is a table with the text of each step.
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

/// A device node of the host, as the zone has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// The path on the host and in the zone: absolute, below /dev.
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
