//! Provides an entry point and a dozen kernel calls for an init program, without the standard
//! library and without a C library.
//!
//! A zone in which only this init runs should use a few pages of memory. The start-up code of a C
//! library alone touches more pages. This crate does not use rustix: in one build of the workspace,
//! cargo gives every program the same rustix, with its feature `std`. A program with its own panic
//! handler cannot be linked with this rustix.
//!
//! Every public function of this crate is safe to call. Raw pointers and system call numbers do not
//! leave the crate.
#![no_std]

#[cfg(test)]
extern crate std;

mod call;
mod entry;
// A build with the panic strategy `unwind` has a standard library, and therefore already has the
// functions of `memory`.
#[cfg(panic = "abort")]
mod memory;
mod process;
mod signal;

pub use call::Errno;
pub use entry::Arguments;
#[doc(hidden)]
pub use entry::begin;
pub use process::{
    Place, Power, Reaped, Strings, change_dir, clock_ms, exit, forget_terminal, has_name,
    is_executable, keep_from_children, pid, read_file, reap, set_power, set_umask, spawn, spawn_as,
    write,
};
pub use signal::{EVERYBODY, Signal, SignalSet, anybody, block, send, wait};
