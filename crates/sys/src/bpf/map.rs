//! Maps: memory that a BPF program shares with the host.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{
    BPF_MAP_CREATE, BPF_MAP_GET_FD_BY_ID, BPF_MAP_LOOKUP_ELEM, BPF_PROG_GET_FD_BY_ID, NAME, bpf,
    info, name, open,
};

const BPF_MAP_TYPE_ARRAY: u32 = 2;

/// Offsets in `struct bpf_map_info`, in words of 32 bits.
pub(super) mod map_info {
    pub const KIND: usize = 0;
    pub const ID: usize = 1;
    pub const KEY_SIZE: usize = 2;
    pub const VALUE_SIZE: usize = 3;
    pub const ENTRIES: usize = 4;
    pub const NAME: usize = 6;
    pub const LENGTH: usize = 10;
}

/// Offsets in `struct bpf_prog_info`, in words of 32 bits.
mod program_info {
    pub const MAPS: usize = 13;
    pub const MAP_IDS: usize = 14;
    pub const LENGTH: usize = 16;
}

/// The part of `union bpf_attr` that BPF_MAP_CREATE reads.
#[repr(C)]
pub(super) struct CreateAttr {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub map_name: [u8; NAME + 1],
}

/// The part of `union bpf_attr` that BPF_MAP_LOOKUP_ELEM and similar commands read.
#[repr(C)]
pub(super) struct ElementAttr {
    pub map_fd: u32,
    pub padding: u32,
    pub key: u64,
    pub value: u64,
    pub flags: u64,
}

/// An array of numbers, which programs address directly ([`super::Assembler::address`]). The map
/// exists as long as a descriptor or a program uses it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    id: u32,
    numbers: usize,
}

impl Map {
    /// Creates a map of `numbers` 64-bit zeros.
    ///
    /// # Errors
    /// Fails with the error of bpf(2): `EPERM` without CAP_BPF.
    pub fn new(label: &str, numbers: usize) -> io::Result<Self> {
        let mut create = CreateAttr {
            map_type: BPF_MAP_TYPE_ARRAY,
            key_size: 4,
            value_size: u32::try_from(numbers.saturating_mul(size_of::<u64>()))
                .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
            // The map has a single entry, because programs can take the address of an entry only in
            // a map with one entry.
            max_entries: 1,
            map_flags: 0,
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
        let ours = words[map_info::KIND] == BPF_MAP_TYPE_ARRAY
            && words[map_info::KEY_SIZE] == 4
            && words[map_info::ENTRIES] == 1
            && words[map_info::VALUE_SIZE] % 8 == 0
            && called == name(label);
        if !ours {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        Ok(Self {
            fd,
            id: words[map_info::ID],
            numbers: words[map_info::VALUE_SIZE] as usize / size_of::<u64>(),
        })
    }

    /// Returns the map's id in the kernel, by which other programs find it.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the present numbers.
    ///
    /// # Errors
    /// Fails with the error of bpf(2).
    pub fn read(&self) -> io::Result<Vec<u64>> {
        let key = 0_u32;
        let mut numbers = vec![0_u64; self.numbers];
        let mut lookup = ElementAttr {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: &raw const key as u64,
            value: numbers.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: `lookup` is a prefix of union bpf_attr. `key` has 4 bytes, and `numbers` has as
        // many bytes as a value of this map.
        unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &raw mut lookup)? };
        Ok(numbers)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the id of the first map that a loaded program uses; `None` if it uses none.
///
/// # Errors
/// Fails with `ENOENT` if no program has this id.
pub fn map_of(program: u32) -> io::Result<Option<u32>> {
    let program = open(BPF_PROG_GET_FD_BY_ID, program)?;
    let mut ids = [0_u32; 1];
    let mut words = [0_u32; program_info::LENGTH];
    words[program_info::MAPS] = 1;
    let address = (ids.as_mut_ptr() as u64).to_ne_bytes();
    for (word, bytes) in words[program_info::MAP_IDS..]
        .iter_mut()
        .zip(address.chunks_exact(4))
    {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    // SAFETY: `map_ids` points to room for the one number that `nr_map_ids` says; the
    // lengths of the other lists are zero, so that the kernel writes nothing there.
    unsafe { info(program.as_fd(), &mut words)? };
    Ok((words[program_info::MAPS] > 0).then_some(ids[0]))
}
