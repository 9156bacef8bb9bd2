//! An entry point and a dozen kernel calls for a program that is nothing but an init, without the
//! standard library and without a C library.
//!
//! A zone that does nothing else should cost a few pages, and a C library's
//! start-up alone touches more than that. Why not rustix: in one workspace
//! build cargo gives every program the same rustix, with `std`, and a program
//! with its own panic handler cannot be linked with that.
//!
//! Every function here is safe to call; pointers and numbers stay inside.
#![no_std]

#[cfg(test)]
extern crate std;

mod call;
mod entry;
// Where there is a panic strategy of `unwind` there is a standard library too.
#[cfg(panic = "abort")]
mod memory;
mod process;
mod signal;

pub use call::Errno;
pub use entry::Arguments;
#[doc(hidden)]
pub use entry::begin;
pub use process::{
    Place, Power, Reaped, Strings, change_dir, clock_ms, exit, forget_terminal, is_executable,
    keep_from_children, pid, read_file, reap, set_power, set_umask, spawn, spawn_as, write,
};
pub use signal::{EVERYBODY, Signal, SignalSet, anybody, block, send, wait};
