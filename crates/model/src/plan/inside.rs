//! The steps of a zone's first process before it becomes init.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Interpreter, Kernel};
use crate::privilege::Capabilities;

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
    /// Attaches a mount that zoneadmd holds at its place, which is made if it is missing.
    Place {
        /// The number.
        held: u32,
        /// In the zone.
        target: PathBuf,
    },
    /// Covers files of the kernel that tell about the host with those that tell of the
    /// zone's limits.
    ShowLimits {
        /// Absolute paths in the zone; those that are not there are skipped.
        targets: Vec<PathBuf>,
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
    /// Listens for the zone's own beadm.
    Environments {
        /// The path of its socket, absolute in the zone.
        socket: PathBuf,
    },
    /// Covers files and folders with nothing.
    Mask {
        /// Absolute paths in the zone; those that are not there are skipped.
        paths: Vec<PathBuf>,
    },
    /// Registers an interpreter for the zone's programs, by a path of the host.
    Interpreter {
        /// The interpreter.
        interpreter: Interpreter,
    },
    /// Shows zinit as these commands, where the host's own would look for another init.
    Commands {
        /// Their names.
        names: Vec<String>,
    },
    /// Makes the zone's root the only one.
    Enter,
    /// Gives this boot of the zone an id of its own.
    BootId,
    /// Sets the host name.
    Hostname {
        /// The name.
        name: String,
    },
    /// Writes where names are found.
    Names {
        /// The content of /etc/resolv.conf, for a zone without one of its own.
        resolver: Option<String>,
        /// Lines for /etc/hosts.
        hosts: String,
    },
    /// Shows another kernel, and lets the answerer answer uname(2).
    Kernel {
        /// The kernel version that is shown.
        kernel: Kernel,
        /// The classic BPF program that asks, a word per instruction.
        program: Vec<u64>,
    },
    /// Limits the privileges of the zone's root.
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
            Self::Names { resolver, hosts } => {
                let count = hosts.lines().count();
                write!(f, "write {count} names into /etc/hosts")?;
                f.write_str(if resolver.is_some() {
                    ", and /etc/resolv.conf"
                } else {
                    ""
                })
            }
            Self::Place { target, .. } => write!(f, "put {} in its place", target.display()),
            Self::ShowLimits { targets } => {
                f.write_str("show its limits in")?;
                targets
                    .iter()
                    .try_for_each(|path| write!(f, " {}", path.display()))
            }
            Self::Devices { names } => write!(f, "populate /dev with {}", names.join(" ")),
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
