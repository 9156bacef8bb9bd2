//! Keyrings of the calling process (keyctl(2)).

use std::io;

/// Replaces the session keyring by a new, empty one, because keys of the caller's session (Kerberos
/// tickets, file system keys) must not reach a zone.
///
/// # Errors
/// Fails with the error of keyctl(2). On a kernel without keyrings the call succeeds.
pub fn leave_session() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for a new, anonymous keyring; no memory is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    match io::Error::last_os_error() {
        _ if result >= 0 => Ok(()),
        error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_new_session_can_be_joined() {
        super::leave_session().unwrap();
    }
}
