//! Projects of ext4 and xfs: sets of files whose space the kernel counts and limits together
//! (quotactl(2), `linux/fs.h`, `linux/quota.h`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const FSGETXATTR: libc::c_ulong = 0x801c_581f;
const FSSETXATTR: libc::c_ulong = 0x401c_5820;

/// The flag `FS_XFLAG_PROJINHERIT`: new files in the folder belong to the folder's project.
const INHERIT: u32 = 0x200;

/// The type of quota `PRJQUOTA`.
const PROJECT: u32 = 2;

/// The commands `Q_GETQUOTA`, `Q_SETQUOTA` and `Q_XGETQSTAT`.
const GET_QUOTA: u32 = 0x80_0007;
const SET_QUOTA: u32 = 0x80_0008;
const GET_STATE: u32 = 0x5805;

/// The flag `QIF_BLIMITS`: the limits of the space are valid.
const SPACE_LIMITS: u32 = 1;

/// The flag `FS_QUOTA_PDQ_ENFD`: the limits of projects are in force.
const ENFORCED: u16 = 1 << 5;

/// The unit of the limits, `QIF_DQBLKSIZE`, in bytes.
const LIMIT_UNIT: u64 = 1024;

/// The layout of `struct fsxattr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    pad: [u8; 8],
}

/// The layout of `struct if_dqblk`.
#[repr(C)]
#[derive(Default)]
struct Quota {
    hard_space: u64,
    soft_space: u64,
    space: u64,
    hard_files: u64,
    soft_files: u64,
    files: u64,
    space_time: u64,
    files_time: u64,
    valid: u32,
}

/// The first fields of `struct fs_quota_stat`, which has 80 bytes, and space for the others.
#[repr(C)]
#[derive(Default)]
struct State {
    version: i8,
    flags: u16,
    rest: [u64; 16],
}

/// The project of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// The number of the project; 0 means no project.
    pub project: u32,
    /// True for a folder whose new files and folders belong to the same project.
    pub inherited: bool,
}

impl Membership {
    /// The membership of a file that belongs to no project.
    pub const NONE: Self = Self {
        project: 0,
        inherited: false,
    };
}

/// The space that the files of a project use.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Number of bytes on disk.
    pub bytes: u64,
    /// Number of files, folders and links.
    pub files: u64,
    /// The limit of the bytes; `None` without a limit.
    pub limit: Option<u64>,
}

/// Returns the project of an open file or folder.
///
/// # Errors
/// Fails with `ENOTTY` or `EOPNOTSUPP` if the file system has no projects.
pub fn membership(file: impl AsFd) -> io::Result<Membership> {
    let all = attributes(file)?;
    Ok(Membership {
        project: all.project,
        inherited: all.flags & INHERIT != 0,
    })
}

/// Moves an open file or folder to another project. The files in a folder stay in their projects.
///
/// # Errors
/// Fails with `ENOTTY` or `EOPNOTSUPP` if the file system has no projects, and with `EINVAL` in a
/// user namespace other than the host's.
pub fn set_membership(file: impl AsFd, to: Membership) -> io::Result<()> {
    let file = file.as_fd();
    let mut all = attributes(file)?;
    all.project = to.project;
    all.flags = match to.inherited {
        true => all.flags | INHERIT,
        false => all.flags & !INHERIT,
    };
    // SAFETY: the descriptor is open for the call, and FSSETXATTR reads one `fsxattr`, which `all`
    // is.
    match unsafe { libc::ioctl(file.as_raw_fd(), FSSETXATTR as _, &raw const all) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the space that a project uses on the file system of an open file.
///
/// # Errors
/// Fails with `ESRCH` or `ENOSYS` if the file system does not count the space of projects.
pub fn usage(file: impl AsFd, project: u32) -> io::Result<Usage> {
    let mut quota = Quota::default();
    // SAFETY: Q_GETQUOTA writes one `if_dqblk`, which `quota` is.
    let read = unsafe { quotactl(file, GET_QUOTA, project, (&raw mut quota).cast()) };
    match read {
        Ok(()) => Ok(Usage {
            bytes: quota.space,
            files: quota.files,
            limit: Some(quota.hard_space.saturating_mul(LIMIT_UNIT)).filter(|&bytes| bytes > 0),
        }),
        // xfs has no record of a project that never had a file.
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(Usage::default()),
        Err(e) => Err(e),
    }
}

/// Limits the space of a project in bytes, rounded up to a KiB. `None` removes the limit.
///
/// # Errors
/// Fails with `ESRCH` or `ENOSYS` if the file system does not count the space of projects, and with
/// `ERANGE` if the limit is larger than the file system supports.
pub fn limit(file: impl AsFd, project: u32, bytes: Option<u64>) -> io::Result<()> {
    let mut quota = Quota {
        // The limit 0 means no limit.
        hard_space: bytes.map_or(0, |bytes| bytes.div_ceil(LIMIT_UNIT).max(1)),
        valid: SPACE_LIMITS,
        ..Quota::default()
    };
    // SAFETY: Q_SETQUOTA reads one `if_dqblk`, which `quota` is.
    unsafe { quotactl(file, SET_QUOTA, project, (&raw mut quota).cast()) }
}

/// Returns true if the file system of an open file enforces the limits of projects: it is mounted
/// with the option `prjquota`.
#[must_use]
pub fn is_enforced(file: impl AsFd) -> bool {
    let mut state = State::default();
    // SAFETY: Q_XGETQSTAT writes one `fs_quota_stat` of 80 bytes, and `state` has 136.
    let read = unsafe { quotactl(file, GET_STATE, 0, (&raw mut state).cast()) };
    // The call fails if the kernel or the file system has no quotas, or none are enabled.
    read.is_ok() && state.flags & ENFORCED != 0
}

fn attributes(file: impl AsFd) -> io::Result<Attributes> {
    let mut all = Attributes::default();
    // SAFETY: the descriptor is open for the call, and FSGETXATTR writes one `fsxattr`, which `all`
    // is.
    match unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FSGETXATTR as _, &raw mut all) } {
        0 => Ok(all),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Calls quotactl_fd(2) for projects.
///
/// # Safety
/// The command must access no more than the object at `data`, which must be valid for writes.
unsafe fn quotactl(
    file: impl AsFd,
    command: u32,
    project: u32,
    data: *mut libc::c_void,
) -> io::Result<()> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for the call, and the caller vouches for `data`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            file,
            command << 8 | PROJECT,
            project,
            data,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_that_the_kernel_expects() {
        // The number of a request includes the size of its argument.
        assert_eq!(
            size_of::<Attributes>(),
            (FSGETXATTR >> 16 & 0x3fff) as usize
        );
        assert_eq!(
            size_of::<Attributes>(),
            (FSSETXATTR >> 16 & 0x3fff) as usize
        );
        assert_eq!(size_of::<Quota>(), 72);
        assert_eq!(std::mem::offset_of!(State, flags), 2);
        assert!(size_of::<State>() >= 80);
    }

    #[test]
    fn a_file_system_without_projects_enforces_no_limit() {
        let proc = std::fs::File::open("/proc").unwrap();
        assert!(!is_enforced(&proc));
        assert!(membership(&proc).is_err());
        assert!(usage(&proc, 1).is_err());
        assert!(limit(&proc, 1, Some(1)).is_err());
    }
}
