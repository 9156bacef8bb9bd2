//! The six functions that the compiler may call on its own account, for which
//! others have a C library. Small, not fast: here they see a few bytes.

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(include_str!("memory_x86_64.s"));

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(include_str!("memory_aarch64.s"));
