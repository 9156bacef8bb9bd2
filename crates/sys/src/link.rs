//! Works on network links of the calling thread's network namespace.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// The socket option SO_NETNS_COOKIE of asm-generic/socket.h, since Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Returns the unique number of the calling thread's network namespace. No other namespace gets
/// this number until the host boots again, unlike the inode number of its file.
///
/// # Errors
/// Fails with the error of socket(2) or getsockopt(2).
pub fn network_cookie() -> io::Result<u64> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, which has `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a socket that sends from links of the calling thread's network namespace, see
/// [`send_frame`]. Its close waits, often for milliseconds, until no processor can still use the
/// socket (synchronize_net() of the kernel's packet_release()): close it when nobody waits.
///
/// # Errors
/// Fails with the error of socket(2).
pub fn frame_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // With protocol 0, the socket receives no frames.
        None,
    )?)
}

/// Sends an Ethernet frame, headers and all, from a link.
///
/// # Errors
/// Fails with the error of sendto(2).
pub fn send_frame(socket: BorrowedFd<'_>, link: u32, frame: &[u8]) -> io::Result<()> {
    // SAFETY: a sockaddr_ll has only numbers and arrays of numbers, for which zeros are valid.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as libc::c_ushort;
    to.sll_ifindex =
        libc::c_int::try_from(link).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the kernel reads `frame` and one `sockaddr_ll`. Both exist during the call, and the
    // lengths that are passed are theirs.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            (&raw const to).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    match usize::try_from(sent) {
        Ok(_) => Ok(()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Sets the loopback link up, with its addresses 127.0.0.1 and ::1.
///
/// # Errors
/// Fails with the error of ioctl(2) `SIOCSIFFLAGS`.
pub fn loopback_up() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: an ifreq of zeros is a valid ifreq without a name.
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
