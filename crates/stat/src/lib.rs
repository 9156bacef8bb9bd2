//! Measures the resources that zones use: samples, differences, reports, history.
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
//! CPU time comes from the counters of the zones' control groups. CPU time is exact to the
//! microsecond, and includes processes that lived shorter than an interval. Memory is the amount
//! that the kernel charges to a zone. If several zones use a page, of a shared layer or of the
//! host's /usr, the kernel charges it once, to the zone that used the page first.
//!
//! `[total]` is always the sum of `[system]` and all zones, with the global zone, and never more
//! than the host has.

pub mod history;
pub mod interval;
pub mod pset;
pub mod read;
pub mod report;
pub mod resource;
pub mod sample;

pub use interval::{Interval, Row};
pub use read::Sampler;
pub use read::wants::Wants;
pub use report::Report;
pub use resource::{Figures, Resource};
pub use sample::{Sample, ZoneSample};
