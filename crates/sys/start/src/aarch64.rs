//! System calls of aarch64: their numbers, and the instruction `svc 0`.

use core::arch::asm;

/// System call numbers.
pub(crate) mod nr {
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const FACCESSAT: usize = 48;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const GETDENTS64: usize = 61;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 137;
    pub(crate) const REBOOT: usize = 142;
    pub(crate) const SETGID: usize = 144;
    pub(crate) const SETUID: usize = 146;
    pub(crate) const SETPGID: usize = 154;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const SETGROUPS: usize = 159;
    pub(crate) const UMASK: usize = 166;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const WAIT4: usize = 260;
}

/// Executes a system call. Returns the kernel's result: -4095 to -1 is a negated error number.
///
/// # Safety
/// The arguments must be those of the system call `number`. Each pointer among them must be valid
/// for the bytes that the kernel reads or writes at its address.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 5]) -> isize {
    let result;
    // SAFETY: the caller guarantees valid arguments; the kernel preserves all registers except the
    // first.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            options(nostack),
        );
    }
    result
}
