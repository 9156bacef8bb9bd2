//! The addresses of zones whose link has no lower link (lower-link=auto).
//!
//! Every zone has its own slot from install to uninstall, and each slot has sixteen addresses. So a
//! zone keeps its addresses over boots, no two zones get the same address, and no list of used
//! addresses is needed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::plan::network::Subnet;

/// First address and prefix length of the IPv4 pool: 10.208.0.0/13, a block of private addresses
/// that home routers and container tools do not use by default.
pub const POOL4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 208, 0, 0), 13);

/// First address and prefix length of the IPv6 pool, a block of unique local addresses.
pub const POOL6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd7a, 0x6f6e, 0x6573, 0, 0, 0, 0, 0), 64);

/// Maximum number of links of one zone with addresses of the pool.
pub const LINKS: u32 = 16;

/// The host's own addresses in the pools.
#[must_use]
pub fn of_host() -> [Subnet; 2] {
    at(1)
}

/// Returns the pool addresses of a zone's link; `None` if the zone has more links than the maximum.
#[must_use]
pub fn of_link(slot: u32, number: u32) -> Option<[Subnet; 2]> {
    // The first sixteen addresses of the pool are the host's.
    (number < LINKS).then(|| at((slot + 1) * LINKS + number))
}

/// The number of slots that the index assigns to zones: one for each range of user ids.
const SLOTS: u32 = 20_480;

/// The number of slots for which the pool has addresses, without the host's slot.
const ALL_SLOTS: u32 = (1 << (32 - POOL4.1)) / LINKS - 1;

/// Returns the slots whose addresses a zone may use, in the order in which they are tried: first
/// the zone's own slot, then the slots that no index assigns, beginning at one that depends on
/// `zone`. Two zones can have the same own slot if they belong to different ZONES_ROOTs.
pub fn slots(own: u32, zone: &str) -> impl Iterator<Item = u32> {
    const SPARE: u32 = ALL_SLOTS - SLOTS;
    let first = zone.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let spare = (0..SPARE).map(move |number| SLOTS + (first % SPARE + number) % SPARE);
    std::iter::once(own).chain(spare)
}

/// Returns the slot of an address; `None` for the host's addresses and for addresses outside the
/// pool.
#[must_use]
pub fn slot_of(ip: IpAddr) -> Option<u32> {
    let number = match ip {
        IpAddr::V4(ip) => u32::from(ip) - u32::from(POOL4.0).min(u32::from(ip)),
        IpAddr::V6(ip) => u32::try_from(u128::from(ip) & u128::from(u64::MAX)).ok()?,
    };
    let slot = (number / LINKS).checked_sub(1)?;
    holds(ip).then_some(slot)
}

/// Returns the domains in which the DNS has the names of the pool's addresses.
pub fn reverse_domains() -> impl Iterator<Item = String> {
    let [first, second, ..] = POOL4.0.octets();
    let last = second + ((1_u8 << (16 - POOL4.1)) - 1);
    let v4 = (second..=last).map(move |second| format!("{second}.{first}.in-addr.arpa"));
    let digits = u128::from(POOL6.0) >> (128 - POOL6.1);
    let v6: String = (0..POOL6.1 / 4)
        .map(|digit| format!("{:x}.", (digits >> (4 * digit)) & 0xf))
        .collect();
    v4.chain(std::iter::once(v6 + "ip6.arpa"))
}

/// Returns true if an address is in one of the pools.
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
        // The further slots are assigned by no index, and each of them appears once.
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
