//! `zones-service slide`: makes and removes the automatic snapshots of zones by their schedules.
//!
//! A zone has a schedule if its configuration has the resource `snapshots`. Each run looks at the
//! present snapshots and the time, and keeps no state of its own between two runs. Therefore a host
//! that was off makes one snapshot at its next run, whatever number of runs it missed.
//!
//! | file | holds |
//! |---|---|
//! | `moment` | pure: the names of automatic snapshots, and the slots of the calendar |
//! | `retention` | pure: which period is due, and which snapshots a schedule keeps |
//! | `plan` | pure: the snapshots to take and to remove in a zone and on a disk |
//! | `facts` | reads the zones, their schedules, snapshots and disks |
//! | `run` | carries the plan out with the verbs `snapshot` and `destroy-snapshot` |

mod facts;
pub mod moment;
pub mod plan;
mod retention;
mod run;

pub use facts::{Disk, Place, Survey, survey};
pub use moment::Auto;
pub use plan::{Known, Removal, Scheduled, Why};
pub use run::{End, Move, Shown, planned, run};
