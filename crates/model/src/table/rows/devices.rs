//! The table rows of a zone's devices.

use super::{ALL_TOKENS, KZ, many, property};
use crate::table::Kind;
use crate::table::spec::{Effect, PropertySpec, ResourceSpec, Show};

pub(super) const DEVICE: ResourceSpec = ResourceSpec {
    live: true,
    ..many(
        "device",
        &["match", "storage", "id"],
        &[
            PropertySpec {
                tokens: ALL_TOKENS,
                ..property(
                    "match",
                    Kind::Text,
                    "The devices of the host to show in the zone: a path, *, ? and [...] match.",
                )
            },
            PropertySpec {
                tokens: ALL_TOKENS,
                brands: KZ,
                ..property(
                    "storage",
                    Kind::Text,
                    "The disk of the zone, a storage URI.",
                )
            },
            PropertySpec {
                default: "false",
                effect: Effect::None,
                show: Show::WhenSet,
                ..property(
                    "allow-partition",
                    Kind::Bool,
                    "Lets the zone partition the disk: true or false.",
                )
            },
            PropertySpec {
                default: "false",
                effect: Effect::None,
                show: Show::WhenSet,
                ..property(
                    "allow-raw-io",
                    Kind::Bool,
                    "Lets the zone send commands to the disk: true or false.",
                )
            },
            PropertySpec {
                brands: KZ,
                ..property(
                    "bootpri",
                    Kind::Int { min: 0, max: 4095 },
                    "The place of the disk in the boot order.",
                )
            },
            PropertySpec {
                brands: KZ,
                live: true,
                show: Show::WhenSet,
                ..property(
                    "size",
                    Kind::Size,
                    "The size of the disk: a disk grows to it, also while the zone runs, and never shrinks.",
                )
            },
            PropertySpec {
                brands: KZ,
                ..property(
                    "id",
                    Kind::Int { min: 0, max: 4095 },
                    "The number of the disk, the value of %{id}; by default the lowest free one.",
                )
            },
        ],
        "Devices of the host that the zone can use; in kz a disk.",
    )
};

pub(super) const NPIV: ResourceSpec = ResourceSpec {
    effect: Effect::None,
    ..many(
        "npiv",
        &["virtual-port-wwn"],
        &[
            property(
                "virtual-port-wwn",
                Kind::Text,
                "The name of the Fibre Channel port.",
            ),
            property("over-hba", Kind::Text, "The adapter of the port."),
            property(
                "id",
                Kind::Int { min: 0, max: 4095 },
                "The number of the port.",
            ),
        ],
        "A virtual Fibre Channel port.",
    )
};
