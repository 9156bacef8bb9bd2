//! Counts the frames that were dropped, by reason.

use std::fmt;
use std::io;

use sys::bpf::{self, Map};

/// The map's name in the kernel.
const NAME: &str = "zone_guard";

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Another source MAC address.
    Mac,
    /// Another IPv4 source address.
    Source4,
    /// Another IPv6 source address.
    Source6,
    /// ARP that speaks for another address.
    Arp,
    /// Neighbour discovery that speaks for another address, or as a router.
    Ndp,
    /// An answer of a DHCP server.
    Dhcp,
    /// A protocol that is not admitted, a tag, or a frame that cannot be read.
    Protocol,
    /// More than the rate.
    Rate,
}

impl Reason {
    /// All of them, in the order of the map.
    pub const ALL: [Self; 8] = [
        Self::Mac,
        Self::Source4,
        Self::Source6,
        Self::Arp,
        Self::Ndp,
        Self::Dhcp,
        Self::Protocol,
        Self::Rate,
    ];

    /// Its name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Source4 => "source4",
            Self::Source6 => "source6",
            Self::Arp => "arp",
            Self::Ndp => "ndp",
            Self::Dhcp => "dhcp",
            Self::Protocol => "protocol",
            Self::Rate => "rate",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Place in the map of the time until when the rate is used up.
pub(super) const BUSY_UNTIL: usize = Reason::ALL.len();

/// A new map for one program.
pub(super) fn new() -> io::Result<Map> {
    Map::new(NAME, BUSY_UNTIL + 1)
}

/// Returns the number of frames that the program with this map has dropped, for every reason.
///
/// # Errors
/// Fails with the error of bpf(2): `ENOENT` where there is no such map, or it is not that of a
/// guard.
pub fn counts(map_id: u32) -> io::Result<Vec<(Reason, u64)>> {
    let numbers = Map::open(map_id, NAME)?.read()?;
    Ok(Reason::ALL.into_iter().zip(numbers).collect())
}

/// [`counts`] of the program with this id, as the kernel lists it at a device.
///
/// # Errors
/// See [`counts`].
pub fn counts_of(program: u32) -> io::Result<Vec<(Reason, u64)>> {
    let map = bpf::map_of(program)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    counts(map)
}
