//! The protocol of zoneadmd's socket: one JSON packet each way.
//!
//! After a granted [`Request::Console`] the connection carries [`ConsolePacket`]s
//! from the client and plain bytes of the console to it.

use std::path::PathBuf;

use limits::Changed;
use model::config::machine::KeySource;
use model::controls::Controls;
use model::plan::Init;
use serde::{Deserialize, Serialize};

/// Longest packet in bytes.
pub const MAX_PACKET: usize = 16 * 1024;

/// The requests to zoneadmd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Starts init in a zone that is ready.
    Boot(Init),
    /// Ends every process and takes the platform down; answered when that is done.
    Halt,
    /// Asks init to end the zone in order; answered when the platform is down.
    Shutdown,
    /// Interrupts the waiting of a zoneadmd that holds the zone's lock: the pause before a zone
    /// that rebooted itself boots again and, if `shutdown` is set, a shutdown. Answered when that
    /// is done; with an error when nothing is waited for.
    Cancel {
        /// True to give up a shutdown, too.
        shutdown: bool,
    },
    /// Keeps the memory of the zone's machine and ends it; answered when that is done.
    Suspend(Box<Suspend>),
    /// Writes the memory of the zone's machine to this new file.
    Savecore(PathBuf),
    /// Sends the zone's machine to another host while it runs. Answered with [`Reply::Done`]
    /// and descriptors: a connection for each disk, and one for its memory. Then [`Left`] and
    /// [`Word`] are said.
    Leave(Box<Leave>),
    /// Lets a machine run that stands still on its way to another host.
    GoOn,
    /// Joins the zone's console.
    Console,
    /// Changes the resource controls to these; answered with [`Reply::Changed`].
    Controls(Box<Controls>),
    /// Stops every process of the zone until the connection is closed, so also until the client
    /// dies.
    Freeze,
}

/// The options of a suspend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspend {
    /// The image that is made.
    pub image: PathBuf,
    /// The source of the key.
    pub key: KeySource,
    /// The zonepath, in which disks go by their names.
    pub zonepath: PathBuf,
    /// The files of disks that are written to.
    pub disks: Vec<PathBuf>,
    /// Timeout in seconds; after it the zone keeps running.
    pub seconds: u64,
}

/// The options of a migration to another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// The zonepath, where it is marked when it may run elsewhere.
    pub zonepath: PathBuf,
    /// Its disks.
    pub disks: Vec<LeaveDisk>,
    /// Maximum time that the machine may stand still while the rest of its memory is sent, in
    /// milliseconds.
    pub downtime: u64,
}

/// A disk of such a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveDisk {
    /// QEMU's name for it.
    pub name: String,
    /// True if the image depends on no other file.
    pub whole: bool,
}

/// The messages of zoneadmd about a machine that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Bytes of its disks that were sent, and of how many up to now.
    Disks {
        /// Sent.
        done: u64,
        /// To be sent.
        total: u64,
    },
    /// Bytes of its memory.
    Memory {
        /// That are left of this round.
        left: u64,
        /// That were sent.
        sent: u64,
        /// The number of rounds.
        rounds: u64,
    },
    /// It stands still, and every block of its disks was sent.
    Stands,
    /// All of its memory was sent, too.
    Sent,
    /// It is gone from here.
    Done,
    /// It did not leave, and why.
    Failed(String),
}

/// The messages to zoneadmd about a machine that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The disks are complete on the target: send the rest.
    Go,
    /// It runs there: take it down here.
    Gone,
    /// Let it run on here.
    Stay,
}

/// The messages of the receiving process to zoneadmd about a machine that arrives. Each is answered
/// with a [`Reply`]; one comes before all, when the machine waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coming {
    /// All blocks of its disks have come.
    DisksAreWhole,
    /// All of its memory has come.
    IsWhole,
    /// Asks why the machine refuses the incoming data.
    WhyNot,
    /// It is this host's: let it run.
    Run,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done.
    Done,
    /// Done, with this result.
    Changed(Changed),
    /// Not done, and why.
    Error(String),
}

/// A packet that a console client sends: a byte for its kind, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsolePacket<'a> {
    /// `i`: typed bytes.
    Input(&'a [u8]),
    /// `s`: rows and columns, two little-endian 16-bit numbers.
    Size {
        /// Rows of the client's terminal.
        rows: u16,
        /// Its columns.
        columns: u16,
    },
}

impl<'a> ConsolePacket<'a> {
    /// Reads a packet; `None` when it is none.
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

    /// The packet.
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
