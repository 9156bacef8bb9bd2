//! The entry point of a program: it makes arguments from the kernel's stack.

use core::ffi::{CStr, c_char};

/// The command line, as the kernel put it on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    next: *const *const c_char,
}

impl Iterator for Arguments {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        // SAFETY: `next` is within the list, which ends in a null pointer and
        // is never stepped over.
        let arg = unsafe { *self.next };
        if arg.is_null() {
            return None;
        }
        // SAFETY: a place follows, as this one held no null; strings of the
        // list end in a zero byte and stay as long as the process.
        unsafe {
            self.next = self.next.add(1);
            Some(CStr::from_ptr(arg))
        }
    }
}

/// Called by the entry point with the stack as the kernel made it.
///
/// # Safety
/// `stack` is the stack pointer that the process began with.
#[doc(hidden)]
pub unsafe fn begin(stack: *const usize, main: fn(Arguments) -> u8) -> ! {
    // SAFETY: the kernel puts the count of arguments there, then the list.
    let next = unsafe { stack.add(1) }.cast();
    crate::exit(main(Arguments { next }))
}

/// Makes `$main`, a `fn(Arguments) -> u8`, the whole program: its result is
/// the exit status.
///
/// The entry point is called `zone_start` (tell the linker: `-e zone_start`)
/// and not `_start`, as some targets bring one of that name along.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        extern "C" fn zone_begin(stack: *const usize) -> ! {
            // SAFETY: only the entry point below calls this, with the stack pointer.
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
