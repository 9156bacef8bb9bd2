//! The table row of the schedule of automatic snapshots.

use super::{property, single};
use crate::table::Kind;
use crate::table::spec::{PropertySpec, ResourceSpec, Show};

/// Maximum number of snapshots of one period that a schedule can keep. A year has 8,784 hours at
/// most, so this bounds a schedule to some weeks of hours and some years of days.
const MAX_KEPT: u64 = 1_000;

/// Returns the number of snapshots that are kept of a period. The defaults are those of Solaris'
/// services auto-snapshot.
const fn kept(name: &'static str, default: &'static str, help: &'static str) -> PropertySpec {
    PropertySpec {
        default,
        live: true,
        ..property(
            name,
            Kind::Int {
                min: 0,
                max: MAX_KEPT,
            },
            help,
        )
    }
}

pub(super) const SNAPSHOTS: ResourceSpec = ResourceSpec {
    live: true,
    delegable: true,
    ..single(
        "snapshots",
        &[
            kept(
                "frequent",
                "4",
                "The number of snapshots of quarters of an hour that are kept.",
            ),
            kept(
                "hourly",
                "24",
                "The number of snapshots of hours that are kept.",
            ),
            kept(
                "daily",
                "31",
                "The number of snapshots of days that are kept.",
            ),
            kept(
                "weekly",
                "7",
                "The number of snapshots of weeks that are kept.",
            ),
            kept(
                "monthly",
                "12",
                "The number of snapshots of months that are kept.",
            ),
            PropertySpec {
                live: true,
                show: Show::WhenSet,
                ..property(
                    "max-size",
                    Kind::Size,
                    "The maximum space of all automatic snapshots, in bytes or with K, M, G or T.",
                )
            },
        ],
        "The schedule of automatic snapshots, and the number that is kept of each period.",
    )
};
