//! What is said on the socket of a zoneadmd: one JSON packet each way.
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

/// What zoneadmd is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Starts init in a zone that is ready.
    Boot(Init),
    /// Ends every process and takes the platform down; answered when that is done.
    Halt,
    /// Asks init to end the zone in order; answered when the platform is down.
    Shutdown,
    /// Keeps the memory of the zone's machine and ends it; answered when that is done.
    Suspend(Box<Suspend>),
    /// Writes the memory of the zone's machine to this new file.
    Savecore(PathBuf),
    /// Joins the zone's console.
    Console,
    /// Changes the resource controls to these; answered with [`Reply::Changed`].
    Controls(Box<Controls>),
    /// Stops every process of the zone until the connection is closed, so also when
    /// whoever asked dies.
    Freeze,
}

/// How a machine is suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspend {
    /// The image that is made.
    pub image: PathBuf,
    /// Where its key comes from.
    pub key: KeySource,
    /// The zonepath, in which disks go by their names.
    pub zonepath: PathBuf,
    /// The files of disks that are written to.
    pub disks: Vec<PathBuf>,
    /// How long it may take; the zone runs on when it takes longer.
    pub seconds: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done.
    Done,
    /// Done, and this is what came of it.
    Changed(Changed),
    /// Not done, and why.
    Error(String),
}

/// A packet that a console client sends: a byte for what it is, and the rest.
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
