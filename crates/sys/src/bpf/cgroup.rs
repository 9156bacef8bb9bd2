//! Attaches programs that decide about operations of the processes of a cgroup (v2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{BPF_PROG_ATTACH, BPF_PROG_GET_FD_BY_ID, BPF_PROG_QUERY, bpf, load, open};

const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;
const BPF_PROG_TYPE_CGROUP_SYSCTL: u32 = 23;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_CGROUP_INET4_BIND: u32 = 8;
const BPF_CGROUP_INET6_BIND: u32 = 9;
const BPF_CGROUP_SYSCTL: u32 = 18;
/// With this flag, the programs of a cgroup and of its parents all run.
const BPF_F_ALLOW_MULTI: u32 = 2;
/// With this flag, the program replaces another one.
const BPF_F_REPLACE: u32 = 4;

/// The part of `union bpf_attr` that BPF_PROG_ATTACH reads.
#[repr(C)]
struct AttachAttr {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
    replace_bpf_fd: u32,
}

/// The part of `union bpf_attr` that BPF_PROG_QUERY reads and writes.
#[repr(C)]
struct QueryAttr {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
}

/// Makes `program` decide about every access to a device node by the processes of a cgroup (v2) and
/// of the cgroups below it. The attachment ends with the cgroup.
///
/// # Errors
/// Fails with the error of bpf(2): `EPERM` without CAP_BPF, `EINVAL` if the kernel has no
/// CONFIG_CGROUP_BPF.
pub fn attach_device_filter(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    attach(
        cgroup,
        BPF_PROG_TYPE_CGROUP_DEVICE,
        BPF_CGROUP_DEVICE,
        program,
    )
}

/// Does the same as [`attach_device_filter`], but `program` replaces the attached program. At every
/// moment exactly one of the two decides.
///
/// # Errors
/// Fails like [`attach_device_filter`], and with `EEXIST` if more than one program is attached.
pub fn replace_device_filter(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    let loaded = load(BPF_PROG_TYPE_CGROUP_DEVICE, BPF_CGROUP_DEVICE, program)?;
    let old = attached(cgroup, BPF_CGROUP_DEVICE)?;
    attach_loaded(cgroup, BPF_CGROUP_DEVICE, &loaded, old.as_ref())
}

/// Returns the program that is attached to this cgroup itself; `None` if there is none.
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
        (Ok(_), 1) => open(BPF_PROG_GET_FD_BY_ID, ids[0]).map(Some),
        // The error ENOSPC means that more programs are attached than the buffer can hold.
        (Ok(_), _) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        (Err(error), _) if error.raw_os_error() == Some(libc::ENOSPC) => {
            Err(io::Error::from_raw_os_error(libc::EEXIST))
        }
        (Err(error), _) => Err(error),
    }
}

/// Makes `program` decide about every read and write below /proc/sys by the processes of a cgroup
/// (v2) and of the cgroups below it. The attachment ends with the cgroup.
///
/// # Errors
/// Fails like [`attach_device_filter`].
pub fn attach_sysctl_filter(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    attach(
        cgroup,
        BPF_PROG_TYPE_CGROUP_SYSCTL,
        BPF_CGROUP_SYSCTL,
        program,
    )
}

/// Makes `program` decide about every bind(2) of an IPv4 or IPv6 socket by the processes of a
/// cgroup (v2) and of the cgroups below it: 0 refuses, 1 allows the ports that the process may
/// bind, 3 also allows ports below 1024. The attachment ends with the cgroup.
///
/// # Errors
/// Fails like [`attach_device_filter`].
pub fn attach_bind_filters(cgroup: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    for hook in [BPF_CGROUP_INET4_BIND, BPF_CGROUP_INET6_BIND] {
        attach(cgroup, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, hook, program)?;
    }
    Ok(())
}

fn attach(cgroup: BorrowedFd<'_>, kind: u32, hook: u32, program: &[u64]) -> io::Result<()> {
    attach_loaded(cgroup, hook, &load(kind, hook, program)?, None)
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
