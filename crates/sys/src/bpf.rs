//! Loading and attaching of cgroup BPF programs (bpf(2)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_PROG_TYPE_CGROUP_SYSCTL: u32 = 23;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_CGROUP_SYSCTL: u32 = 18;
/// Programs of a parent and its children all have their say.
const BPF_F_ALLOW_MULTI: u32 = 2;
/// The program takes the place of another one.
const BPF_F_REPLACE: u32 = 4;

/// The part of `union bpf_attr` that BPF_PROG_LOAD reads here.
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
}

/// The part of `union bpf_attr` that BPF_PROG_ATTACH reads here.
#[repr(C)]
struct AttachAttr {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
    replace_bpf_fd: u32,
}

/// The part of `union bpf_attr` that BPF_PROG_QUERY reads and writes here.
#[repr(C)]
struct QueryAttr {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
}

/// The part of `union bpf_attr` that BPF_PROG_GET_FD_BY_ID reads.
#[repr(C)]
struct IdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// Lets `program` decide about every use of a device node by the processes of a
/// cgroup (v2) and of those below it. The attachment lives as long as the cgroup.
///
/// # Errors
/// What bpf(2) says: `EPERM` without CAP_BPF, `EINVAL` where the kernel has no
/// CONFIG_CGROUP_BPF.
pub fn attach_device_filter(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    attach(
        cgroup,
        BPF_PROG_TYPE_CGROUP_DEVICE,
        BPF_CGROUP_DEVICE,
        program,
    )
}

/// [`attach_device_filter`], but `program` takes the place of the one that is attached:
/// at every moment one of the two decides.
///
/// # Errors
/// See [`attach_device_filter`]; `EEXIST` where more than one program is attached.
pub fn replace_device_filter(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    let loaded = load(BPF_PROG_TYPE_CGROUP_DEVICE, program)?;
    let old = attached(cgroup, BPF_CGROUP_DEVICE)?;
    attach_loaded(cgroup, BPF_CGROUP_DEVICE, &loaded, old.as_ref())
}

/// The program that is attached to this cgroup itself; `None` when there is none.
fn attached(cgroup: BorrowedFd<'_>, hook: u32) -> io::Result<Option<OwnedFd>> {
    let mut ids = [0_u32; 2];
    let mut query = QueryAttr {
        target_fd: cgroup.as_raw_fd() as u32,
        attach_type: hook,
        query_flags: 0,
        attach_flags: 0,
        prog_ids: ids.as_mut_ptr() as u64,
        prog_cnt: 2,
    };
    // SAFETY: `query` is a prefix of union bpf_attr of the size given, which the kernel
    // writes to; `prog_ids` has room for the `prog_cnt` numbers that it writes at most.
    let done = unsafe { bpf(BPF_PROG_QUERY, &raw mut query) };
    match (done, query.prog_cnt) {
        (Ok(_), 0) => Ok(None),
        (Ok(_), 1) => {
            let mut one = IdAttr {
                id: ids[0],
                next_id: 0,
                open_flags: 0,
            };
            // SAFETY: `one` is a prefix of union bpf_attr of the size given.
            let fd = unsafe { bpf(BPF_PROG_GET_FD_BY_ID, &raw mut one)? };
            // SAFETY: the call has just returned a new descriptor that is ours.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
        // ENOSPC: more than there is room for.
        (Ok(_), _) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        (Err(error), _) if error.raw_os_error() == Some(libc::ENOSPC) => {
            Err(io::Error::from_raw_os_error(libc::EEXIST))
        }
        (Err(error), _) => Err(error),
    }
}

/// Lets `program` decide about every read and write below /proc/sys by the processes
/// of a cgroup (v2) and of those below it. The attachment lives as long as the cgroup.
///
/// # Errors
/// See [`attach_device_filter`].
pub fn attach_sysctl_filter(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    attach(
        cgroup,
        BPF_PROG_TYPE_CGROUP_SYSCTL,
        BPF_CGROUP_SYSCTL,
        program,
    )
}

fn attach(cgroup: BorrowedFd<'_>, kind: u32, hook: u32, program: &[u64]) -> io::Result<()> {
    attach_loaded(cgroup, hook, &load(kind, program)?, None)
}

fn load(kind: u32, program: &[u64]) -> io::Result<OwnedFd> {
    let mut load = LoadAttr {
        prog_type: kind,
        insn_cnt: u32::try_from(program.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        insns: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        ..LoadAttr::default()
    };
    // SAFETY: `load` is a prefix of union bpf_attr of the size given; the kernel
    // takes the rest as zero, reads `insn_cnt` instructions and the license string.
    let fd = unsafe { bpf(BPF_PROG_LOAD, &raw mut load)? };
    // SAFETY: a successful BPF_PROG_LOAD returns a new descriptor that is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach_loaded(
    cgroup: BorrowedFd<'_>,
    hook: u32,
    loaded: &OwnedFd,
    old: Option<&OwnedFd>,
) -> io::Result<()> {
    let mut attach = AttachAttr {
        target_fd: cgroup.as_raw_fd() as u32,
        attach_bpf_fd: loaded.as_raw_fd() as u32,
        attach_type: hook,
        attach_flags: BPF_F_ALLOW_MULTI | old.map_or(0, |_| BPF_F_REPLACE),
        replace_bpf_fd: old.map_or(0, |old| old.as_raw_fd() as u32),
    };
    // SAFETY: a prefix of union bpf_attr; the descriptors are open during the call.
    unsafe { bpf(BPF_PROG_ATTACH, &raw mut attach)? };
    Ok(())
}

/// # Safety
/// `attr` must be valid for reading and writing, laid out as the command takes union
/// bpf_attr, and every pointer in it must be valid for the call.
unsafe fn bpf<T>(command: libc::c_int, attr: *mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller's promise; the size given is that of `attr`.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) };
    libc::c_int::try_from(result)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(io::Error::last_os_error)
}
