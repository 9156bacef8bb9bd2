//! The addresses of zones whose link is made on nothing in particular (lower-link=auto).
//!
//! Every zone has a slot of its own from install to uninstall, and each slot sixteen
//! addresses: a zone keeps its addresses over boots, no two zones can have the same
//! one, and nothing has to be remembered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::plan::network::Subnet;

/// First address and prefix length of the IPv4 pool: 10.208.0.0/13, a block of the
/// private addresses that household routers and container tools do not begin with.
pub const POOL4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 208, 0, 0), 13);

/// First address and prefix length of the IPv6 pool, of the unique local addresses.
pub const POOL6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd7a, 0x6f6e, 0x6573, 0, 0, 0, 0, 0), 64);

/// Maximum number of links of one zone with addresses of the pool.
pub const LINKS: u32 = 16;

/// The host's own addresses in the pools.
#[must_use]
pub fn of_host() -> [Subnet; 2] {
    at(1)
}

/// The addresses of a zone's link; `None` for one link too many.
#[must_use]
pub fn of_link(slot: u32, number: u32) -> Option<[Subnet; 2]> {
    // The first sixteen are the host's.
    (number < LINKS).then(|| at((slot + 1) * LINKS + number))
}

/// The number of slots that the index gives zones: one for each range of user ids.
const SLOTS: u32 = 20_480;

/// The number of slots that the pool has addresses for, but for those of the host.
const ALL_SLOTS: u32 = (1 << (32 - POOL4.1)) / LINKS - 1;

/// Returns the slots whose addresses a zone may have, in the order in which they are tried:
/// its own, then those that no index gives out, begun at one that depends on `zone`. Two
/// zones have one slot where they are of different ZONES_ROOTs.
pub fn slots(own: u32, zone: &str) -> impl Iterator<Item = u32> {
    const SPARE: u32 = ALL_SLOTS - SLOTS;
    let first = zone.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let spare = (0..SPARE).map(move |number| SLOTS + (first % SPARE + number) % SPARE);
    std::iter::once(own).chain(spare)
}

/// Returns the slot that an address is of; `None` for those of the host and of others.
#[must_use]
pub fn slot_of(ip: IpAddr) -> Option<u32> {
    let number = match ip {
        IpAddr::V4(ip) => u32::from(ip) - u32::from(POOL4.0).min(u32::from(ip)),
        IpAddr::V6(ip) => u32::try_from(u128::from(ip) & u128::from(u64::MAX)).ok()?,
    };
    let slot = (number / LINKS).checked_sub(1)?;
    holds(ip).then_some(slot)
}

/// Returns whether an address is of one of the pools.
#[must_use]
pub fn holds(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => u32::from(ip) >> (32 - POOL4.1) == u32::from(POOL4.0) >> (32 - POOL4.1),
        IpAddr::V6(ip) => ip.segments()[..4] == POOL6.0.segments()[..4],
    }
}

fn at(number: u32) -> [Subnet; 2] {
    let v4 = Ipv4Addr::from(u32::from(POOL4.0) + number);
    let v6 = Ipv6Addr::from(u128::from(POOL6.0) + u128::from(number));
    [
        Subnet {
            ip: v4.into(),
            prefix: POOL4.1,
        },
        Subnet {
            ip: v6.into(),
            prefix: POOL6.1,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_addresses_of_its_own_in_the_pool() {
        // The last slot of the range of user ids.
        let last = (0x7000_0000_u32 - 0x2000_0000) / 65_536 - 1;
        let mut seen = std::collections::HashSet::new();
        for slot in [0, 1, 2, last - 1, last] {
            for number in 0..LINKS {
                for address in of_link(slot, number).unwrap() {
                    assert!(holds(address.ip), "{address}");
                    assert!(seen.insert(address.ip), "{address}");
                }
            }
        }
        for slot in [0, 1, last, ALL_SLOTS - 1] {
            for address in of_link(slot, LINKS - 1).unwrap() {
                assert!(holds(address.ip), "{address}");
                assert_eq!(slot_of(address.ip), Some(slot));
            }
        }
        assert!(of_host().iter().all(|one| slot_of(one.ip).is_none()));
        assert_eq!(last, SLOTS - 1);
        // No other slot of an index, and none twice.
        let tried: Vec<u32> = slots(7, "/run/zones/network/web.json").collect();
        let all: std::collections::HashSet<&u32> = tried.iter().collect();
        assert_eq!((tried[0], tried.len()), (7, all.len()));
        assert!(
            tried[1..]
                .iter()
                .all(|slot| (SLOTS..ALL_SLOTS).contains(slot))
        );
        assert!(of_host().iter().all(|one| !seen.contains(&one.ip)));
        assert_eq!(of_link(0, LINKS), None);
        assert!(!holds("10.207.255.255".parse().unwrap()));
        assert!(!holds("10.216.0.0".parse().unwrap()));
    }
}
