//! `zones-service slide`: makes and removes the automatic snapshots of zones by their schedules.
//!
//! A zone has a schedule if its configuration has the resource `snapshots`. Each run looks at the
//! present snapshots and the time, and keeps no state of its own between two runs. Therefore a host
//! that was off makes one snapshot at its next run, whatever number of runs it missed.
//!
//! A snapshot of a running kernel zone on a file system that cannot share blocks has links to the
//! files of the disks, and puts one more file on each disk. Three rules follow:
//!
//! - If the disks stand on [`kernelzone::depth::SCHEDULED_FILES`] files, QEMU merges these before the
//!   snapshot. Without room for the copy that a merge makes, the zone is skipped.
//! - A file of a snapshot takes space for as long as the disks, or another snapshot, have it too.
//!   `max-size` counts a file only if automatic snapshots alone have it. A snapshot is removed for
//!   want of space only if one of its files goes with it. The newest snapshot always stays, and has
//!   all files below the disks. So before a merge the removal of the others would free nothing.
//! - For the same reason no merge is made for want of space: it would copy the data of all files
//!   between, and the newest snapshot would keep each of these files.
//!
//! | file | holds |
//! |---|---|
//! | `moment` | pure: the names of automatic snapshots, and the slots of the calendar |
//! | `retention` | pure: which period is due, and which snapshots a schedule keeps |
//! | `plan` | pure: the snapshots to take and to remove in a zone and on a disk |
//! | `facts` | reads the zones, their schedules, snapshots and disks |
//! | `run` | carries the plan out with the verbs `snapshot`, `merge` and `destroy-snapshot` |

mod facts;
pub mod moment;
pub mod plan;
mod retention;
mod run;

pub use facts::{Disk, Place, Survey, survey};
pub use moment::Auto;
pub use plan::{Known, Removal, Scheduled, Why};
pub use run::{End, Move, Shown, planned, run};
