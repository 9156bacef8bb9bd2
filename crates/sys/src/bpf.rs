//! BPF programs (bpf(2)): their instructions, how they are loaded, and the use of each kind.

mod assembler;
mod cgroup;
#[cfg(feature = "fake")]
pub mod listing;
mod map;
mod prefixes;
mod traffic;

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use assembler::{Assembler, Condition, Label, Register, Width, instruction};
pub use cgroup::{
    attach_bind_filters, attach_device_filter, attach_sysctl_filter, replace_device_filter,
};
pub use map::{Map, map_of};
pub use prefixes::Prefixes;
pub use traffic::{Ran, load_classifier, run_classifier, run_with_mark};

// Commands of bpf(2).
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_PROG_QUERY: libc::c_int = 16;

/// Maximum length of the name of a program or a map, in bytes.
const NAME: usize = 15;

/// Maximum number of times that a program is given to the verifier, which gives up with `EAGAIN`
/// when a signal is pending.
const LOAD_ATTEMPTS: usize = 5;

/// The part of `union bpf_attr` that BPF_PROG_LOAD reads.
#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME + 1],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// The part of `union bpf_attr` that BPF_PROG_GET_FD_BY_ID and similar commands read.
#[repr(C)]
struct IdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// The part of `union bpf_attr` that BPF_OBJ_GET_INFO_BY_FD reads and writes.
#[repr(C)]
struct InfoAttr {
    fd: u32,
    length: u32,
    info: u64,
}

/// Loads a program of a type. `hook` is the expected attach type, which some program types require.
/// Fails with `EAGAIN` if a signal arrived during each attempt.
fn load(kind: u32, hook: u32, program: &[u64]) -> io::Result<OwnedFd> {
    let mut load = LoadAttr {
        prog_type: kind,
        insn_cnt: u32::try_from(program.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        insns: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        prog_name: name("zone"),
        expected_attach_type: hook,
        ..LoadAttr::default()
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        // SAFETY: `load` is a prefix of union bpf_attr of the size given; the kernel
        // takes the rest as zero, reads `insn_cnt` instructions and the license string.
        match unsafe { bpf(BPF_PROG_LOAD, &raw mut load) } {
            // SAFETY: a successful BPF_PROG_LOAD returns a new descriptor that no other value owns.
            Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            // The process took the signal when the call returned, so the next attempt can succeed.
            Err(error)
                if error.raw_os_error() == Some(libc::EAGAIN) && attempts < LOAD_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns a name in the kernel's format: cut to the size of its field, with zeros after it.
fn name(text: &str) -> [u8; NAME + 1] {
    let mut name = [0; NAME + 1];
    for (to, from) in name.iter_mut().zip(text.bytes().take(NAME)) {
        *to = from;
    }
    name
}

/// Returns a descriptor of the program or map with an id; `command` says which of the two.
fn open(command: libc::c_int, id: u32) -> io::Result<OwnedFd> {
    let mut one = IdAttr {
        id,
        next_id: 0,
        open_flags: 0,
    };
    // SAFETY: `one` is a prefix of union bpf_attr of the size given.
    let fd = unsafe { bpf(command, &raw mut one)? };
    // SAFETY: the call has just returned a new descriptor that no other value owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the kernel's description of a program or map, as 32-bit words of `struct bpf_prog_info`
/// or `struct bpf_map_info`. `info` tells the kernel the lengths of the buffers to which pointers
/// in the structure lead.
///
/// # Safety
/// Each pointer in `info` must lead to as many writable bytes as `info` says.
unsafe fn info(object: BorrowedFd<'_>, info: &mut [u32]) -> io::Result<()> {
    let mut attr = InfoAttr {
        fd: object.as_raw_fd() as u32,
        length: u32::try_from(size_of_val(info))
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: `attr` is a prefix of union bpf_attr, and the kernel writes at most `length` bytes to
    // `info`. The caller guarantees that the pointers in `info` are valid.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &raw mut attr)? };
    Ok(())
}

/// # Safety
/// `attr` must be readable and writable, in the layout of union bpf_attr for the command, and every
/// pointer in it must be valid for the call.
unsafe fn bpf<T>(command: libc::c_int, attr: *mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller guarantees a valid `attr`, and the size that is passed is the size of
    // `attr`.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) };
    libc::c_int::try_from(result)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(io::Error::last_os_error)
}
