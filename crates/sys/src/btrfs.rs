//! Manages subvolumes of btrfs (btrfs(5), `linux/btrfs.h`).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

const SUBVOL_CREATE: libc::c_ulong = 0x5000_940e;
const SNAP_DESTROY: libc::c_ulong = 0x5000_940f;
const SNAP_CREATE_V2: libc::c_ulong = 0x5000_9417;
const QGROUP_LIMIT: libc::c_ulong = 0x8030_942b;

/// The flag `BTRFS_QGROUP_LIMIT_MAX_RFER`.
const MAX_RFER: u64 = 1;

/// The layout of `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolArgs {
    fd: i64,
    name: [u8; 4088],
}

/// The layout of `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct VolArgsV2 {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// The layout of `struct btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct LimitArgs {
    qgroup: u64,
    flags: u64,
    max_rfer: u64,
    max_excl: u64,
    rsv_rfer: u64,
    rsv_excl: u64,
}

/// Creates an empty subvolume `name` in a folder, owned by root, with mode 0755.
///
/// # Errors
/// Fails with `ENOTTY` if the file system is not btrfs, with `EEXIST`, and with the errors of
/// mkdir(2).
pub fn create_subvolume(folder: impl AsFd, name: &OsStr) -> io::Result<()> {
    let args = VolArgs {
        fd: 0,
        name: fixed(name)?,
    };
    // SAFETY: SUBVOL_CREATE reads one `btrfs_ioctl_vol_args`, which `args` is: 4096
    // bytes with the name ended by a zero byte (`fixed` leaves one).
    unsafe { call(folder, SUBVOL_CREATE, &args) }
}

/// Creates a writable snapshot `name` of a subvolume in a folder. The snapshot has everything that
/// was written before the call.
///
/// # Errors
/// Fails with `EINVAL` if `source` is not a subvolume, and with `EXDEV` if it is on another file
/// system.
pub fn snapshot_subvolume(source: impl AsFd, folder: impl AsFd, name: &OsStr) -> io::Result<()> {
    let args = VolArgsV2 {
        fd: i64::from(source.as_fd().as_raw_fd()),
        transid: 0,
        flags: 0,
        unused: [0; 4],
        name: fixed(name)?,
    };
    // SAFETY: SNAP_CREATE_V2 reads one `btrfs_ioctl_vol_args_v2`, which `args` is: 4096 bytes with
    // a name that ends with a zero byte. No flag is set, so the kernel follows no pointer in
    // `unused`. `source` stays open during the call.
    unsafe { call(folder, SNAP_CREATE_V2, &args) }
}

/// Removes a subvolume with its content. The blocks become free later.
///
/// # Errors
/// Fails with `EINVAL` or `ENOTDIR` if `name` is not a subvolume, with `ENOTEMPTY` if it contains
/// subvolumes, and with `EBUSY` if it is mounted.
pub fn destroy_subvolume(folder: impl AsFd, name: &OsStr) -> io::Result<()> {
    let args = VolArgs {
        fd: 0,
        name: fixed(name)?,
    };
    // SAFETY: SNAP_DESTROY reads one `btrfs_ioctl_vol_args`, which `args` is.
    unsafe { call(folder, SNAP_DESTROY, &args) }
}

/// Limits the size of a subvolume's files in bytes. `None` removes the limit.
///
/// # Errors
/// Fails with `ENOTCONN` if the file system has no quotas enabled.
pub fn limit_subvolume(subvolume: impl AsFd, bytes: Option<u64>) -> io::Result<()> {
    let args = LimitArgs {
        // The number 0 means the quota group of the subvolume itself.
        qgroup: 0,
        flags: MAX_RFER,
        // A value of all ones removes the limit.
        max_rfer: bytes.unwrap_or(u64::MAX),
        max_excl: 0,
        rsv_rfer: 0,
        rsv_excl: 0,
    };
    // SAFETY: QGROUP_LIMIT reads one `btrfs_ioctl_qgroup_limit_args`, which `args` is.
    unsafe { call(subvolume, QGROUP_LIMIT, &args) }
}

/// Returns a name in a field of fixed size, which ends with at least one zero byte.
fn fixed<const N: usize>(name: &OsStr) -> io::Result<[u8; N]> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > 255 || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut field = [0; N];
    field[..bytes.len()].copy_from_slice(bytes);
    Ok(field)
}

/// Makes an ioctl call on a folder.
///
/// # Safety
/// `request` must read at most one `T` at its argument, and write nothing.
unsafe fn call<T>(folder: impl AsFd, request: libc::c_ulong, args: &T) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open for the call, `args` points to one `T`, and the
        // caller vouches that the request reads no more than that.
        let result = unsafe { libc::ioctl(folder.as_fd().as_raw_fd(), request as _, args) };
        match result {
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_as_many_bytes_as_there_are() {
        // The number of a request includes the size of its argument.
        let size = |request: libc::c_ulong| ((request >> 16) & 0x3fff) as usize;
        assert_eq!(size(SUBVOL_CREATE), size_of::<VolArgs>());
        assert_eq!(size(SNAP_DESTROY), size_of::<VolArgs>());
        assert_eq!(size(SNAP_CREATE_V2), size_of::<VolArgsV2>());
        assert_eq!(size(QGROUP_LIMIT), size_of::<LimitArgs>());
    }

    #[test]
    fn names_are_bounded() {
        assert!(fixed::<4040>(OsStr::new("")).is_err());
        assert!(fixed::<4040>(OsStr::new(&"a".repeat(256))).is_err());
        let field = fixed::<4040>(OsStr::new("vol")).unwrap();
        assert_eq!(&field[..5], b"vol\0\0");
    }
}
