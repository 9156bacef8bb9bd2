//! Counts the frames that a guard has dropped, by reason.

use std::fmt;
use std::io;

use sys::bpf::{self, Map};

/// The name of the map in the kernel.
const NAME: &str = "zone_guard";

/// The reason why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The source MAC address is not the zone's.
    Mac,
    /// The IPv4 source address is not the zone's.
    Source4,
    /// The IPv6 source address is not the zone's.
    Source6,
    /// The ARP message claims an address that is not the zone's.
    Arp,
    /// The message of neighbour discovery claims an address that is not the zone's, or comes from a
    /// router.
    Ndp,
    /// The packet is an answer of a DHCP server.
    Dhcp,
    /// The protocol is not admitted, the frame has a tag, or the frame cannot be read.
    Protocol,
    /// The frame exceeds the permitted rate.
    Rate,
    /// The sender and the receiver of the packet have different labels, or the packet has options
    /// that can carry a label. Its counter follows [`BUSY_UNTIL`].
    Label = 9,
}

impl Reason {
    /// All reasons, in the order of the map's counters.
    pub const ALL: [Self; 9] = [
        Self::Mac,
        Self::Source4,
        Self::Source6,
        Self::Arp,
        Self::Ndp,
        Self::Dhcp,
        Self::Protocol,
        Self::Rate,
        Self::Label,
    ];

    /// Returns the name of the reason in listings.
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
            Self::Label => "label",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Index in the map of the time until which the link is busy at the permitted rate. It lies between
/// the counters, because programs without labels keep it in this place.
pub(super) const BUSY_UNTIL: usize = 8;

/// Number of entries of the map.
const NUMBERS: usize = Reason::Label as usize + 1;

/// Makes a new map for one program.
pub(super) fn new() -> io::Result<Map> {
    Map::new(NAME, NUMBERS)
}

/// Returns the number of frames that the program with this map has dropped, for each reason.
///
/// # Errors
/// Fails with the error of bpf(2): `ENOENT` if the map does not exist, or is not the map of a
/// guard.
pub fn counts(map_id: u32) -> io::Result<Vec<(Reason, u64)>> {
    let numbers = Map::open(map_id, NAME)?.read()?;
    // The map of a program from before labels has no counter for labels.
    let of = |reason: Reason| numbers.get(reason as usize).copied().unwrap_or(0);
    Ok(Reason::ALL
        .into_iter()
        .map(|reason| (reason, of(reason)))
        .collect())
}

/// Returns the same as [`counts`] for the program with this id, as the kernel lists it at a device.
///
/// # Errors
/// Fails as [`counts`] does.
pub fn counts_of(program: u32) -> io::Result<Vec<(Reason, u64)>> {
    let map = bpf::map_of(program)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    counts(map)
}
