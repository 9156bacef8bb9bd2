//! Loading and attaching of cgroup BPF programs (bpf(2)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_PROG_TYPE_CGROUP_SYSCTL: u32 = 23;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_CGROUP_SYSCTL: u32 = 18;
/// Programs of a parent and its children all have their say.
const BPF_F_ALLOW_MULTI: u32 = 2;

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
    let load = LoadAttr {
        prog_type: kind,
        insn_cnt: u32::try_from(program.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        insns: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        ..LoadAttr::default()
    };
    // SAFETY: `load` is a prefix of union bpf_attr of the size given; the kernel
    // takes the rest as zero, reads `insn_cnt` instructions and the license string.
    let fd = unsafe { bpf(BPF_PROG_LOAD, &load)? };
    // SAFETY: a successful BPF_PROG_LOAD returns a new descriptor that is ours.
    let loaded = unsafe { OwnedFd::from_raw_fd(fd) };
    let attach = AttachAttr {
        target_fd: cgroup.as_raw_fd() as u32,
        attach_bpf_fd: loaded.as_raw_fd() as u32,
        attach_type: hook,
        attach_flags: BPF_F_ALLOW_MULTI,
    };
    // SAFETY: as above; both descriptors are open during the call.
    unsafe { bpf(BPF_PROG_ATTACH, &attach)? };
    Ok(())
}

/// # Safety
/// `attr` must be laid out as the command reads union bpf_attr, and every pointer
/// in it must be valid for the call.
unsafe fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<libc::c_int> {
    // SAFETY: the caller's promise; the size given is that of `attr`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attr),
            size_of::<T>(),
        )
    };
    libc::c_int::try_from(result)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(io::Error::last_os_error)
}
