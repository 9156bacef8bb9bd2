//! Makes tap devices: network cards of guests (drivers/net/tun.c).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const IFF_TAP: libc::c_short = 0x2;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;

/// Makes a tap device with this name in the calling thread's network namespace. The device is down,
/// and exists as long as any process has the descriptor open.
///
/// # Errors
/// Fails with the error of the device, or if the name is too long.
pub fn make(name: &str) -> io::Result<OwnedFd> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // SAFETY: an ifreq has only numbers and arrays of numbers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte is for the zero at the end of the name.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    // SAFETY: the call reads and writes one `ifreq`, which exists during the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) } {
        0 => Ok(file.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        if !std::path::Path::new("/dev/net/tun").exists() {
            println!("skipped: names_are_checked: there is no /dev/net/tun");
            return;
        }
        for bad in ["", "a-name-of-sixteen"] {
            assert!(make(bad).is_err(), "{bad}");
        }
    }
}
