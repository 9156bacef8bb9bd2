//! The table rows of a zone's limits on CPUs, memory and other counted resources.

use super::{KZ, alias, kept, many, property, required, single};
use crate::brands::Family;
use crate::table::spec::{Brands, PropertySpec, ResourceSpec, Show, Xml};
use crate::table::{Kind, Unit};

pub(super) const DEDICATED_CPU: ResourceSpec = ResourceSpec {
    live: true,
    brands: Brands::AndGlobal,
    xml: "pset",
    ..single(
        "dedicated-cpu",
        &[
            PropertySpec {
                xml: Xml::Range {
                    min: "ncpu_min",
                    max: "ncpu_max",
                },
                ..property(
                    "ncpus",
                    Kind::CpuRange,
                    "The number of CPUs, or a range such as 1-4.",
                )
            },
            PropertySpec {
                show: Show::WhenSet,
                xml: Xml::Sibling {
                    element: "tmp_pool",
                    attribute: "importance",
                },
                ..property(
                    "importance",
                    Kind::Int {
                        min: 0,
                        max: u32::MAX as u64,
                    },
                    "The importance when CPUs are scarce; the higher number wins.",
                )
            },
            PropertySpec {
                show: Show::WhenSet,
                xml: Xml::Children {
                    element: "cpu",
                    attribute: "id",
                },
                ..property(
                    "cpus",
                    Kind::List,
                    "The CPUs, as a list of numbers and ranges.",
                )
            },
            PropertySpec {
                show: Show::WhenSet,
                xml: Xml::Children {
                    element: "core",
                    attribute: "id",
                },
                ..property(
                    "cores",
                    Kind::List,
                    "The cores, as a list of numbers and ranges.",
                )
            },
            PropertySpec {
                show: Show::WhenSet,
                xml: Xml::Children {
                    element: "socket",
                    attribute: "id",
                },
                ..property(
                    "sockets",
                    Kind::List,
                    "The sockets, as a list of numbers and ranges.",
                )
            },
        ],
        "CPUs that only this zone uses. Excludes pool, capped-cpu and cpu-shares.",
    )
};

pub(super) const CAPPED_CPU: ResourceSpec = ResourceSpec {
    live: true,
    brands: Brands::Only(&[Family::Native, Family::Lx, Family::Global]),
    delegable: true,
    xml: "",
    ..single(
        "capped-cpu",
        &[PropertySpec {
            required: true,
            clearable: false,
            ..alias(
                "ncpus",
                Kind::Cpus,
                "zone.cpu-cap",
                "deny",
                Unit::Cpus,
                "The maximum CPU time, in CPUs: 1.5 is that of one and a half.",
            )
        }],
        "A limit on the CPU time of the zone.",
    )
};

pub(super) const CAPPED_MEMORY: ResourceSpec = ResourceSpec {
    live: true,
    brands: Brands::AndGlobal,
    delegable: true,
    xml: "mcap",
    ..single(
        "capped-memory",
        &[
            PropertySpec {
                live: true,
                xml: Xml::Attribute("physcap"),
                ..property(
                    "physical",
                    Kind::Size,
                    "The maximum memory, in bytes or with K, M, G or T; in kz the memory of the machine.",
                )
            },
            alias(
                "swap",
                Kind::Size,
                "zone.max-swap",
                "deny",
                Unit::Bytes,
                "The maximum of physical memory and swap together.",
            ),
            alias(
                "locked",
                Kind::Size,
                "zone.max-locked-memory",
                "deny",
                Unit::Bytes,
                "The maximum of memory that cannot be swapped out.",
            ),
            PropertySpec {
                brands: KZ,
                ..property(
                    "pagesize-policy",
                    Kind::Enum(&["largest-available", "largest-only", "smallest-only"]),
                    "The page sizes of the machine's memory: largest-available, largest-only (means the same here), or smallest-only.",
                )
            },
            PropertySpec {
                brands: KZ,
                ..kept("pagesize", "The page size of the machine's memory.")
            },
        ],
        "Limits on the memory of the zone; set at least one.",
    )
};

pub(super) const RCTL: ResourceSpec = ResourceSpec {
    live: true,
    delegable: true,
    brands: Brands::AndGlobal,
    ..many(
        "rctl",
        &["name"],
        &[
            required("name", Kind::RctlName, "The resource control, zone.<name>."),
            PropertySpec {
                live: true,
                xml: Xml::Children {
                    element: "rctl-value",
                    attribute: "",
                },
                ..required(
                    "value",
                    Kind::Complex(&["priv", "limit", "action"]),
                    "The values: (priv=privileged,limit=<number>,action=none|deny).",
                )
            },
        ],
        "A resource control of the zone.",
    )
};
