//! The steps of a zone's first process before it becomes init.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Interpreter, Kernel};
use crate::privilege::Capabilities;

/// A step of the zone's first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum InsideStep {
    /// Enters the v1 control groups, then unshares the mount and cgroup namespaces.
    OwnViews,
    /// Brings the loopback link up.
    Loopback,
    /// Mounts a file system without a device.
    Mount {
        /// The type of the file system.
        fstype: String,
        /// The mount point in the zone.
        target: PathBuf,
        /// Mount options, some of the form `name=value`.
        options: Vec<String>,
        /// True if no program may be executed from the mount.
        noexec: bool,
        /// True if the mount is read-only.
        read_only: bool,
    },
    /// Makes missing mount points of an immutable zone, on the writable mount of its root.
    MountPoints {
        /// The mount points, absolute in the zone, in the order of their mounts.
        targets: Vec<PathBuf>,
    },
    /// Attaches a mount that zoneadmd holds at its mount point. A missing mount point is created.
    Place {
        /// The number of the held mount.
        held: u32,
        /// The mount point in the zone.
        target: PathBuf,
    },
    /// Covers files of the kernel that show data of the host with files that show the zone's
    /// limits.
    ShowLimits {
        /// Absolute paths in the zone of the files to cover. The step skips paths that do not
        /// exist.
        targets: Vec<PathBuf>,
    },
    /// Creates the files of /dev.
    Devices {
        /// Names of the host's devices that the zone gets in /dev.
        names: Vec<String>,
        /// True if the zone gets nodes that zoneadmd has made, false if it gets the host's nodes.
        own: bool,
    },
    /// Mounts the device nodes that zoneadmd has made on their paths in /dev.
    DeviceNodes {
        /// The paths of the device nodes: absolute, below /dev.
        paths: Vec<PathBuf>,
    },
    /// Listens for requests of the zone's own beadm command.
    Environments {
        /// The path of the socket, absolute in the zone.
        socket: PathBuf,
    },
    /// Covers files with /dev/null, and folders with an empty folder.
    Mask {
        /// Absolute paths in the zone of the files and folders to cover. The step skips paths that
        /// do not exist.
        paths: Vec<PathBuf>,
    },
    /// Registers an interpreter of the host for the zone's programs.
    Interpreter {
        /// The interpreter to register.
        interpreter: Interpreter,
    },
    /// Mounts zinit over commands whose host version would look for another init.
    Commands {
        /// The names of the commands.
        names: Vec<String>,
    },
    /// Makes the zone's root the root of the mount namespace, and detaches all other mounts.
    Enter,
    /// Gives this boot of the zone its own boot id.
    BootId,
    /// Sets the host name.
    Hostname {
        /// The host name.
        name: String,
    },
    /// Writes the files that resolve host names.
    Names {
        /// The content of /etc/resolv.conf. The step writes /etc/resolv.conf only if the zone has
        /// no such file.
        resolver: Option<String>,
        /// The resolver that knows the names of zones. If it answers, its file is written instead
        /// of `resolver`.
        zones: Option<ZoneResolver>,
        /// Lines to write into /etc/hosts.
        hosts: String,
        /// True if the step writes on the writable mount of a read-only root, which exists until
        /// the step [`Enter`](Self::Enter).
        #[serde(default)]
        sealed: bool,
    },
    /// Shows another kernel version, and sends the uname(2) calls of the zone to the answerer.
    Kernel {
        /// The kernel version that the zone sees.
        kernel: Kernel,
        /// The classic BPF program that sends uname(2) to the answerer, one word per instruction.
        program: Vec<u64>,
    },
    /// Limits the privileges of the zone's root.
    Privileges {
        /// The capabilities that the zone's root keeps.
        keep: Capabilities,
    },
    /// Refuses system calls that a zone does not need.
    Syscalls {
        /// The classic BPF program, one word per instruction.
        program: Vec<u64>,
    },
}

/// The resolver of the host that knows the names of zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneResolver {
    /// The address at which the resolver listens.
    pub server: IpAddr,
    /// The content of /etc/resolv.conf that names this resolver.
    pub text: String,
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
            Self::Names {
                resolver,
                zones,
                hosts,
                ..
            } => {
                let count = hosts.lines().count();
                write!(f, "write {count} names into /etc/hosts")?;
                match zones {
                    Some(zones) => {
                        write!(f, ", and /etc/resolv.conf with resolver {}", zones.server)
                    }
                    None if resolver.is_some() => f.write_str(", and /etc/resolv.conf"),
                    None => Ok(()),
                }
            }
            Self::MountPoints { targets } => {
                f.write_str("make missing mount points among")?;
                targets
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Place { target, .. } => write!(f, "put {} in its place", target.display()),
            Self::ShowLimits { targets } => {
                f.write_str("show its limits in")?;
                targets
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Devices { names, own } => {
                let nodes = if *own { "its own " } else { "" };
                write!(f, "populate /dev with {nodes}{}", names.join(" "))
            }
            Self::DeviceNodes { paths } => {
                f.write_str("show")?;
                paths
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Environments { socket } => {
                write!(f, "listen for beadm at {}", socket.display())
            }
            Self::Mask { paths } => {
                f.write_str("mask")?;
                paths
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Interpreter { interpreter } => {
                let program = interpreter.program.clone().unwrap_or_default();
                let (machine, program) = (&interpreter.machine, program.display());
                write!(f, "run programs for {machine} by {program}")
            }
            Self::Commands { names } => write!(f, "show zinit as {}", names.join(" ")),
            Self::BootId => f.write_str("give the boot an id of its own"),
            Self::Enter => f.write_str("make the zone's root the only one"),
            Self::Hostname { name } => write!(f, "set host name {name}"),
            Self::Kernel { kernel, .. } => write!(f, "show kernel {kernel}"),
            Self::Privileges { keep } => write!(f, "keep capabilities {keep}"),
            Self::Syscalls { program } => {
                write!(f, "filter system calls ({} instructions)", program.len())
            }
        }
    }
}
