//! The protocol of zoneadmd's socket: one JSON packet as the request, and one as the reply.
//!
//! After zoneadmd accepts a [`Request::Console`], the client sends [`ConsolePacket`]s through the
//! connection, and zoneadmd sends the plain bytes of the console.

use std::path::PathBuf;

use limits::Changed;
use model::config::machine::KeySource;
use model::controls::Controls;
use model::plan::{Init, MachineFile};
use serde::{Deserialize, Serialize};

/// Maximum length of a packet in bytes.
pub const MAX_PACKET: usize = 16 * 1024;

/// The requests to zoneadmd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Starts init in a zone that is ready.
    Boot(Init),
    /// Ends every process of the zone and takes down its mounts, network and limits; zoneadmd
    /// answers at the end.
    Halt,
    /// Asks init to shut down the zone cleanly; zoneadmd answers when the zone is down.
    Shutdown,
    /// Interrupts a zoneadmd that waits while it holds the zone's lock. In the pause before a zone
    /// that rebooted itself boots again, zoneadmd cancels that boot, and the zone is halted. If
    /// `shutdown` is set, zoneadmd also stops waiting for a shutdown. zoneadmd answers at the end,
    /// with an error if it did not wait.
    Cancel {
        /// True to cancel a shutdown, too.
        shutdown: bool,
    },
    /// Saves the memory of the kernel zone and ends its QEMU; zoneadmd answers at the end.
    Suspend(Box<Suspend>),
    /// Writes the memory of the kernel zone to this new file.
    Savecore(PathBuf),
    /// Sends the kernel zone to another host while it runs. zoneadmd answers with [`Reply::Done`]
    /// and file descriptors: a connection for each disk, and one for the memory. Then zoneadmd
    /// sends [`Left`] messages and receives [`Word`] messages.
    Leave(Box<Leave>),
    /// Resumes a kernel zone that is paused because of a migration to another host.
    GoOn,
    /// Connects the client to the zone's console.
    Console,
    /// Passes the mount namespace for trusted logins. After [`Reply::Done`], zoneadmd sends one
    /// packet with the descriptor.
    Trusted,
    /// Changes the resource controls to these values; zoneadmd answers with [`Reply::Changed`].
    Controls(Box<Controls>),
    /// Changes a part of the running kernel zone's machine.
    Part(Part),
    /// Takes a snapshot with this name of the disks of the running kernel zone; zoneadmd answers with
    /// [`Reply::Taken`].
    Snapshot(String),
    /// Begins to merge the files below the disks of the running kernel zone, or asks for the state of
    /// the merge. zoneadmd answers with [`Reply::Merging`] until the merge is complete.
    MergeDisks,
    /// Gives up a merge of the files below the disks. The disks keep their files, and the next merge
    /// goes on where this one ended.
    StopMerge,
    /// Freezes every process of the zone until the connection is closed. If the client dies, its
    /// connection is closed, too.
    Freeze,
}

/// A change of a part of a running kernel zone's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Adds a disk in its port. A disk that is there already stays unchanged.
    AddDisk {
        /// The disk.
        disk: Box<vm::Disk>,
        /// The files of the disk, in the order of its parts.
        files: Vec<MachineFile>,
    },
    /// Removes the disk with this number from its port, after the guest has released the disk.
    RemoveDisk(u32),
    /// Adds a network card in its port, on a link of the zone.
    AddCard {
        /// The network card.
        card: vm::Nic,
        /// The name of the link in the zone.
        link: String,
    },
    /// Removes the network card from the port with this number, after the guest has released the
    /// card.
    RemoveCard(u32),
    /// Adds processors until the machine has this number.
    Processors(u32),
    /// Grows the memory to this number of bytes; takes memory back that was added while the guest
    /// ran.
    Memory(u64),
    /// Grows the file of a disk, and tells the guest the new size. A disk that has the size already
    /// stays unchanged.
    GrowDisk {
        /// The number of the disk.
        id: u32,
        /// The new size in bytes.
        size: u64,
    },
}

/// The options of a suspend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspend {
    /// The suspend image to write.
    pub image: PathBuf,
    /// The source of the key that encrypts the suspend image.
    pub key: KeySource,
    /// The zonepath; the image names disks relative to it.
    pub zonepath: PathBuf,
    /// The files of the disks to which the zone writes.
    pub disks: Vec<PathBuf>,
    /// Timeout in seconds; after the timeout the zone continues to run.
    pub seconds: u64,
}

/// The options of a migration to another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// The zonepath, in which zoneadmd marks the zone as soon as it may run on another host.
    pub zonepath: PathBuf,
    /// The disks of the kernel zone.
    pub disks: Vec<LeaveDisk>,
    /// Maximum time for which the guest may be paused while QEMU sends the rest of its memory, in
    /// milliseconds.
    pub downtime: u64,
}

/// A disk of a kernel zone that migrates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveDisk {
    /// The name of the disk in QEMU.
    pub name: String,
    /// True if the disk image depends on no other file.
    pub whole: bool,
}

/// The messages of zoneadmd about a kernel zone that migrates to another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// The progress of the disks, in bytes.
    Disks {
        /// Bytes of the disks that were sent.
        done: u64,
        /// Bytes of the disks to send in all, as known so far.
        total: u64,
    },
    /// The progress of the memory, in bytes.
    Memory {
        /// Bytes of memory that are left to send in this round.
        left: u64,
        /// Bytes of memory that were sent.
        sent: u64,
        /// Number of rounds over the memory.
        rounds: u64,
    },
    /// The guest is paused, and every block of its disks was sent.
    Stands,
    /// The whole memory of the guest was sent, too.
    Sent,
    /// The kernel zone has left this host.
    Done,
    /// The migration failed, for the reason in this text.
    Failed(String),
}

/// The messages to zoneadmd about a kernel zone that migrates to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The disks are complete on the target: zoneadmd sends the rest of the memory.
    Go,
    /// The guest runs on the target: zoneadmd takes the zone down on this host.
    Gone,
    /// The guest continues to run on this host.
    Stay,
}

/// The messages of the receiving process to zoneadmd about a kernel zone that migrates to this
/// host. zoneadmd answers each message with a [`Reply`]; before all messages it sends one more
/// [`Reply`] when QEMU waits for the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coming {
    /// All blocks of the disks have arrived.
    DisksAreWhole,
    /// The whole memory of the guest has arrived.
    IsWhole,
    /// Asks why QEMU refuses the incoming data.
    WhyNot,
    /// The zone belongs to this host: zoneadmd resumes the guest.
    Run,
}

/// The answer of zoneadmd to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// zoneadmd carried out the request.
    Done,
    /// zoneadmd changed the resource controls, with this result.
    Changed(Changed),
    /// zoneadmd merges files: the bytes that are done, and the bytes in all.
    Merging(u64, u64),
    /// zoneadmd took a snapshot of the disks of a running kernel zone.
    Taken(Taken),
    /// zoneadmd did not carry out the request, for the reason in this text.
    Error(String),
}

/// A snapshot of the disks of a running kernel zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The time for which the guest was paused, in microseconds.
    pub paused: u64,
    /// The reason why the guest's file systems were not frozen at the moment of the snapshot; `None`
    /// if they were.
    pub unfrozen: Option<String>,
}

/// A packet that a console client sends: one byte for its kind, then its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsolePacket<'a> {
    /// Kind `i`: typed bytes.
    Input(&'a [u8]),
    /// Kind `s`: rows and columns of the terminal, two little-endian 16-bit numbers.
    Size {
        /// Rows of the client's terminal.
        rows: u16,
        /// Columns of the client's terminal.
        columns: u16,
    },
}

impl<'a> ConsolePacket<'a> {
    /// Parses a packet; returns `None` if the packet is malformed.
    #[must_use]
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        match *packet {
            [b'i', ref typed @ ..] => Some(Self::Input(typed)),
            [b's', r0, r1, c0, c1] => Some(Self::Size {
                rows: u16::from_le_bytes([r0, r1]),
                columns: u16::from_le_bytes([c0, c1]),
            }),
            _ => None,
        }
    }

    /// Returns this message as a packet.
    #[must_use]
    pub fn write(self) -> Vec<u8> {
        match self {
            Self::Input(typed) => [b"i", typed].concat(),
            Self::Size { rows, columns } => {
                let [r0, r1] = rows.to_le_bytes();
                let [c0, c1] = columns.to_le_bytes();
                vec![b's', r0, r1, c0, c1]
            }
        }
    }
}
