//! Provides the system call instruction, the numbers of the system calls that are used, and errors.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;

pub(crate) use arch::{nr, syscall};

/// An error number of the kernel (errno).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    /// ENOENT: no such file or folder.
    pub const NO_ENTRY: Self = Self(2);
    /// ESRCH: no such process.
    pub const SRCH: Self = Self(3);
    /// EINTR: a signal interrupted the call.
    pub const INTR: Self = Self(4);
    /// ENOEXEC: the file has no format that the kernel can execute.
    pub const NOEXEC: Self = Self(8);
    /// ECHILD: the process has no children.
    pub const CHILD: Self = Self(10);
    /// E2BIG: too many arguments or environment variables.
    pub const TOO_BIG: Self = Self(7);
}

/// Converts the return value of a system call: -4095 to -1 is an error, and every other value is
/// the result of the call.
pub(crate) fn check(result: isize) -> Result<usize, Errno> {
    match u16::try_from(result.wrapping_neg()) {
        Ok(errno @ 1..=4095) => Err(Errno(errno)),
        _ => Ok(result as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_told_apart() {
        assert_eq!(check(0), Ok(0));
        assert_eq!(check(4096), Ok(4096));
        assert_eq!(check(-1), Err(Errno(1)));
        assert_eq!(check(-4095), Err(Errno(4095)));
        assert_eq!(check(-4096), Ok(usize::MAX - 4095));
        assert_eq!(check(isize::MIN), Ok(isize::MIN as usize));
    }
}
