//! Kernel calls behind safe functions: the only crate with `unsafe` code.

pub mod idmap;
pub mod mount;
