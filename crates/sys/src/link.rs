//! Network links of the calling thread's network namespace.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Brings the loopback link up, with its 127.0.0.1 and ::1.
///
/// # Errors
/// What the kernel says of SIOCSIFFLAGS.
pub fn loopback_up() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: an ifreq of zeros is a valid one without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq with a terminated name and the flags.
    let result = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
