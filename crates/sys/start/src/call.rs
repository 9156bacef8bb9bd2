//! The system call instruction, the numbers used, and errors.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;

pub(crate) use arch::{nr, syscall};

/// The number the kernel gave as its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    /// No such file or folder.
    pub const NO_ENTRY: Self = Self(2);
    /// No such process.
    pub const SRCH: Self = Self(3);
    /// A signal came in between.
    pub const INTR: Self = Self(4);
    /// Not a format the kernel can run.
    pub const NOEXEC: Self = Self(8);
    /// No child left.
    pub const CHILD: Self = Self(10);
    /// More arguments than there is room for.
    pub const TOO_BIG: Self = Self(7);
}

/// The kernel returns -4095..=-1 for a failure, anything else is the result.
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
