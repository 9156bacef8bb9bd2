//! The entry point of a program. It reads the arguments from the stack that the kernel made.

use core::ffi::{CStr, c_char};

/// The arguments of the command line, which the kernel puts on the initial stack.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    next: *const *const c_char,
}

impl Iterator for Arguments {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        // SAFETY: `next` points into the list of arguments. The list ends with a null pointer, and
        // `next` never moves behind this null pointer.
        let arg = unsafe { *self.next };
        if arg.is_null() {
            return None;
        }
        // SAFETY: this entry is not the null pointer at the end, so the list has a next entry. The
        // strings of the list end with a zero byte and exist until the process ends.
        unsafe {
            self.next = self.next.add(1);
            Some(CStr::from_ptr(arg))
        }
    }
}

/// Runs `main` with the arguments on the initial stack, and ends the process with the result of
/// `main` as its exit status.
///
/// # Safety
/// `stack` must be the stack pointer with which the kernel started the process.
#[doc(hidden)]
pub unsafe fn begin(stack: *const usize, main: fn(Arguments) -> u8) -> ! {
    // SAFETY: the kernel puts the number of arguments at `stack`, and the list of arguments after
    // this number.
    let next = unsafe { stack.add(1) }.cast();
    crate::exit(main(Arguments { next }))
}

/// Makes `$main`, a `fn(Arguments) -> u8`, the main function of the program. The result of `$main`
/// is the exit status.
///
/// The entry point has the name `zone_start` (pass `-e zone_start` to the linker), because on some
/// targets the linked objects already define `_start`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        extern "C" fn zone_begin(stack: *const usize) -> ! {
            // SAFETY: only the entry point below calls `zone_begin`, and passes the initial stack
            // pointer.
            unsafe { $crate::begin(stack, $main) }
        }

        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            ".pushsection .text.zone_start, \"ax\"",
            ".globl zone_start",
            "zone_start:",
            "xor ebp, ebp",
            "mov rdi, rsp",
            "and rsp, -16",
            "call {begin}",
            "ud2",
            ".popsection",
            begin = sym zone_begin,
        );

        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            ".pushsection .text.zone_start, \"ax\"",
            ".globl zone_start",
            "zone_start:",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, sp",
            "bl {begin}",
            "udf #0",
            ".popsection",
            begin = sym zone_begin,
        );
    };
}
