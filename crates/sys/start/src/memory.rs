//! The six C functions to which the compiler may generate calls (memcpy and similar), because no C
//! library provides them here. They are small and not fast, because this program uses them for a
//! few bytes only.

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(include_str!("memory_x86_64.s"));

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(include_str!("memory_aarch64.s"));
