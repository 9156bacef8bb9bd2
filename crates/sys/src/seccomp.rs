//! Loading of system call filters (seccomp(2)).

use std::io;

/// Puts the calling thread, and all it will execute, under a filter. Each word is
/// one classic BPF instruction as `struct sock_filter` has it in memory.
///
/// # Errors
/// `EINVAL` for a program the kernel refuses, `EACCES` without CAP_SYS_ADMIN in
/// the thread's user namespace (the filter must not need no_new_privs: setuid
/// programs work inside zones).
pub fn install(program: &[u64]) -> io::Result<()> {
    let length = libc::c_ushort::try_from(program.len())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `program` names `length` instructions of 8 bytes each that outlive
    // the call; the kernel copies and checks them and writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
