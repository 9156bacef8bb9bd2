//! A map from address prefixes to sets of small numbers, which BPF programs search by the longest
//! prefix of an address.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::map::{CreateAttr, ElementAttr, map_info};
use super::{BPF_MAP_CREATE, BPF_MAP_GET_FD_BY_ID, BPF_MAP_LOOKUP_ELEM, bpf, info, name, open};

const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_MAP_TYPE_LPM_TRIE: u32 = 11;
/// BPF_F_NO_PREALLOC, which this type of map requires.
const NO_PREALLOCATION: u32 = 1;
/// Maximum number of prefixes in a map.
const MAX_PREFIXES: u32 = 65_536;
/// Length of a set in bytes: one bit for each number from 0 to 127.
const SET_BYTES: u32 = 16;

/// A key of the map: `struct bpf_lpm_trie_key` with an IPv6 address. IPv4 addresses are mapped
/// (`::ffff:0:0/96`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    length: u32,
    address: [u8; 16],
}

/// Length of a key in bytes.
const KEY_BYTES: u32 = 20;

impl Key {
    fn of(address: IpAddr, length: u8) -> Self {
        let (bits, length) = match address {
            IpAddr::V4(ip) => (
                ip.to_ipv6_mapped().to_bits(),
                96 + u32::from(length.min(32)),
            ),
            IpAddr::V6(ip) => (ip.to_bits(), u32::from(length.min(128))),
        };
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        Self {
            length,
            address: Ipv6Addr::from_bits(bits & mask).octets(),
        }
    }
}

/// The map. It exists as long as a descriptor or a program uses it.
#[derive(Debug)]
pub struct Prefixes {
    fd: OwnedFd,
    id: u32,
}

impl Prefixes {
    /// Creates an empty map.
    ///
    /// # Errors
    /// Fails with the error of bpf(2): `EPERM` without CAP_BPF.
    pub fn new(label: &str) -> io::Result<Self> {
        let mut create = CreateAttr {
            map_type: BPF_MAP_TYPE_LPM_TRIE,
            key_size: KEY_BYTES,
            value_size: SET_BYTES,
            max_entries: MAX_PREFIXES,
            map_flags: NO_PREALLOCATION,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: name(label),
        };
        // SAFETY: `create` is a prefix of union bpf_attr without pointers.
        let fd = unsafe { bpf(BPF_MAP_CREATE, &raw mut create)? };
        // SAFETY: a successful BPF_MAP_CREATE returns a new descriptor that no other value owns.
        Self::of(unsafe { OwnedFd::from_raw_fd(fd) }, label)
    }

    /// Opens the map with this id if it has this name. The kernel reuses ids.
    ///
    /// # Errors
    /// Fails with `ENOENT` if no such map exists.
    pub fn open(id: u32, label: &str) -> io::Result<Self> {
        Self::of(open(BPF_MAP_GET_FD_BY_ID, id)?, label)
    }

    fn of(fd: OwnedFd, label: &str) -> io::Result<Self> {
        let mut words = [0; map_info::LENGTH];
        // SAFETY: struct bpf_map_info has no pointers here.
        unsafe { info(fd.as_fd(), &mut words)? };
        let called: Vec<u8> = words[map_info::NAME..]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let ours = words[map_info::KIND] == BPF_MAP_TYPE_LPM_TRIE
            && words[map_info::KEY_SIZE] == KEY_BYTES
            && words[map_info::VALUE_SIZE] == SET_BYTES
            && called == name(label);
        match ours {
            true => Ok(Self {
                fd,
                id: words[map_info::ID],
            }),
            false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Returns the map's id in the kernel, by which other programs find it.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Makes the map contain these prefixes and sets, and no others. Bit N of a set is the number
    /// N. A prefix that stays is never missing meanwhile.
    ///
    /// # Errors
    /// Fails with the error of bpf(2): `ENOSPC` for more than 65,536 prefixes.
    pub fn replace(&self, wanted: &BTreeMap<(IpAddr, u8), u128>) -> io::Result<()> {
        let wanted: BTreeMap<Key, u128> = wanted
            .iter()
            .map(|((address, length), set)| (Key::of(*address, *length), *set))
            .collect();
        for key in self.keys()? {
            if !wanted.contains_key(&key) {
                self.element(BPF_MAP_DELETE_ELEM, &key, 0)?;
            }
        }
        for (key, set) in &wanted {
            // The first byte has the numbers 0 to 7, on every architecture.
            let bytes = set.to_le_bytes();
            self.element(BPF_MAP_UPDATE_ELEM, key, bytes.as_ptr() as u64)?;
        }
        Ok(())
    }

    /// Returns the set of the longest prefix of an address; `None` if the map has no prefix of it.
    ///
    /// # Errors
    /// Fails with the error of bpf(2).
    pub fn find(&self, address: IpAddr) -> io::Result<Option<u128>> {
        let mut bytes = [0_u8; SET_BYTES as usize];
        let key = Key::of(address, u8::MAX);
        match self.element(BPF_MAP_LOOKUP_ELEM, &key, bytes.as_mut_ptr() as u64) {
            Ok(()) => Ok(Some(u128::from_le_bytes(bytes))),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn keys(&self) -> io::Result<Vec<Key>> {
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let mut next = Key::default();
            let from = keys.last().map_or(0, |key| std::ptr::from_ref(key) as u64);
            let mut attr = ElementAttr {
                map_fd: self.fd.as_raw_fd() as u32,
                padding: 0,
                key: from,
                value: &raw mut next as u64,
                flags: 0,
            };
            // SAFETY: `attr` is a prefix of union bpf_attr. `key` is null or leads to a key of 20
            // bytes that exists during the call, and the kernel writes one such key to `next`.
            match unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &raw mut attr) } {
                // The map never has more prefixes, so more keys would be an endless loop.
                Ok(_) if keys.len() > MAX_PREFIXES as usize => {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                Ok(_) => keys.push(next),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
                Err(error) => return Err(error),
            }
        }
    }

    fn element(&self, command: libc::c_int, key: &Key, value: u64) -> io::Result<()> {
        let mut attr = ElementAttr {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(key) as u64,
            value,
            flags: 0,
        };
        // SAFETY: `attr` is a prefix of union bpf_attr. `key` has 20 bytes, and the callers of this
        // private function pass the address of 16 bytes as `value`, which are writable for a
        // look-up, or 0 for a deletion, which does not use it.
        unsafe { bpf(command, &raw mut attr) }.map(drop)
    }
}

impl AsFd for Prefixes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_only_the_bits_of_the_prefix() {
        let key = |text: &str, length| Key::of(text.parse().unwrap(), length);
        assert_eq!(key("192.0.2.77", 24), key("192.0.2.0", 24));
        assert_eq!(key("192.0.2.77", 24).length, 120);
        assert_eq!(key("0.0.0.0", 0).length, 96);
        assert_eq!(key("2001:db8::1", 0).address, [0; 16]);
        assert_eq!(key("2001:db8::1", 200).length, 128);
        assert_ne!(key("::", 0), key("0.0.0.0", 0));
    }

    #[test]
    fn the_longest_prefix_decides() {
        let map = match Prefixes::new("zone_test") {
            Ok(map) => map,
            Err(error) => return println!("skipped: bpf(2): {error}"),
        };
        let at = |text: &str, length| (text.parse::<IpAddr>().unwrap(), length);
        let mut wanted = BTreeMap::from([
            (at("192.0.2.0", 24), 1 << 3),
            (at("192.0.2.7", 32), 1 << 127),
            (at("2001:db8::", 32), 1),
        ]);
        map.replace(&wanted).unwrap();
        let find = |text: &str| map.find(text.parse().unwrap()).unwrap();
        assert_eq!(find("192.0.2.8"), Some(1 << 3));
        assert_eq!(find("192.0.2.7"), Some(1 << 127));
        assert_eq!(find("192.0.3.7"), None);
        assert_eq!(find("2001:db8:1::"), Some(1));
        wanted.remove(&at("192.0.2.7", 32));
        map.replace(&wanted).unwrap();
        assert_eq!(find("192.0.2.7"), Some(1 << 3));
        assert!(Prefixes::open(map.id(), "zone_test").is_ok());
        assert!(Prefixes::open(map.id(), "another").is_err());
    }
}
