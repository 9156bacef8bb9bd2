//! System calls of x86_64: their numbers, and the instruction `syscall`.

use core::arch::asm;

/// System call numbers.
pub(crate) mod nr {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const KILL: usize = 62;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const UMASK: usize = 95;
    pub(crate) const SETUID: usize = 105;
    pub(crate) const SETGID: usize = 106;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const SETPGID: usize = 109;
    pub(crate) const SETGROUPS: usize = 116;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 128;
    pub(crate) const REBOOT: usize = 169;
    pub(crate) const GETDENTS64: usize = 217;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const FACCESSAT: usize = 269;
}

/// Executes a system call. Returns the kernel's result: -4095 to -1 is a negated error number.
///
/// # Safety
/// The arguments must be those of the system call `number`. Each pointer among them must be valid
/// for the bytes that the kernel reads or writes at its address.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 5]) -> isize {
    let result;
    // SAFETY: the caller guarantees valid arguments; the registers that the instruction changes are
    // declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
