//! Measures the use of zones: sampling, differences, reports, history.
//!
//! | module | holds |
//! |---|---|
//! | [`resource`] | the resources, and figures of them |
//! | [`sample`] | the values of the kernel's counters at one moment |
//! | [`read`] | reading them; all that is not pure computation |
//! | [`interval`] | the use of each zone between two samples |
//! | [`pset`] | the sets of CPUs, their zones, and the worth of their shares |
//! | [`report`] | many intervals as one: total, average, high |
//! | [`history`] | the last figures of each zone |
//!
//! CPU time comes from the accounts of the zones' control groups: exact to the microsecond,
//! processes that lived shorter than an interval included. Memory is the amount that the kernel
//! charges a zone with. A page that several zones use, of a shared layer or of the host's /usr, is
//! charged once, to the zone that used it first.
//!
//! Sums hold by construction: `[total]` is `[system]` and all zones, the global one
//! among them, and never more than the host has.

pub mod history;
pub mod interval;
pub mod pset;
pub mod read;
pub mod report;
pub mod resource;
pub mod sample;

pub use interval::{Interval, Row};
pub use read::{Sampler, Wants};
pub use report::Report;
pub use resource::{Figures, Resource};
pub use sample::{Sample, ZoneSample};
