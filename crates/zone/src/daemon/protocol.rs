//! What is said on the socket of a zoneadmd: one JSON packet each way.
//!
//! After a granted [`Request::Console`] the connection carries [`ConsolePacket`]s
//! from the client and plain bytes of the console to it.

use limits::Changed;
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
    /// Joins the zone's console.
    Console,
    /// Changes the resource controls to these; answered with [`Reply::Changed`].
    Controls(Controls),
    /// Stops every process of the zone until the connection is closed, so also when
    /// whoever asked dies.
    Freeze,
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

/// First byte of a packet that a console client sends: what the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsolePacket {
    /// Typed bytes.
    Input,
    /// Rows and columns, two little-endian 16-bit numbers.
    Size,
}

impl ConsolePacket {
    /// The byte.
    #[must_use]
    pub const fn tag(self) -> u8 {
        match self {
            Self::Input => b'i',
            Self::Size => b's',
        }
    }
}
