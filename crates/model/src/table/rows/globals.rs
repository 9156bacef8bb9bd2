//! The properties of the zone itself, in the order of `info`.

use super::{alias, in_info, kept, property, required};
use crate::brands::Family;
use crate::table::{Brands, Effect, Kind, PropertySpec, Show, Token, Unit, Xml};

/// Properties of releases after illumos' that are printed only where they are set.
const fn later(spec: PropertySpec) -> PropertySpec {
    PropertySpec {
        show: Show::WhenSet,
        ..spec
    }
}

const fn count(name: &'static str, rctl: &'static str, help: &'static str) -> PropertySpec {
    let kind = Kind::Int {
        min: 1,
        max: u32::MAX as u64,
    };
    alias(name, kind, rctl, "deny", Unit::Count, help)
}

/// The properties of the zone itself.
pub static GLOBAL: &[PropertySpec] = &[
    PropertySpec {
        xml: Xml::Attribute("name"),
        brands: Brands::AndGlobal,
        ..required(
            "zonename",
            Kind::ZoneName,
            "The name of the zone. Setting it renames the zone.",
        )
    },
    PropertySpec {
        fixed: true,
        tokens: &[Token::ZoneName],
        ..required(
            "zonepath",
            Kind::ZonePath,
            "The directory that holds the zone. %{zonename} stands for the zone's name.",
        )
    },
    PropertySpec {
        default: crate::brands::DEFAULT,
        clearable: false,
        fixed: true,
        ..property(
            "brand",
            Kind::Brand,
            "What runs in the zone: native, the host's distribution; lx, any other; kz, a kernel of its own.",
        )
    },
    PropertySpec {
        default: "false",
        live: true,
        delegable: true,
        ..property(
            "autoboot",
            Kind::Bool,
            "Whether the zone boots when the host does: true or false.",
        )
    },
    in_info(PropertySpec {
        default: "shutdown",
        live: true,
        delegable: true,
        ..property(
            "autoshutdown",
            Kind::Enum(&["shutdown", "halt", "suspend"]),
            "What happens to the zone when the host shuts down: shutdown, halt, or (kz) suspend.",
        )
    }),
    PropertySpec {
        delegable: true,
        ..property(
            "bootargs",
            Kind::Text,
            "Boot arguments used when boot and reboot are given none.",
        )
    },
    in_info(PropertySpec {
        effect: Effect::NotYet,
        ..property(
            "file-mac-profile",
            Kind::Enum(&[
                "none",
                "strict",
                "fixed-configuration",
                "flexible-configuration",
                "dynamic-zones",
            ]),
            "Which files of the zone cannot be changed from within it.",
        )
    }),
    PropertySpec {
        brands: Brands::AndGlobal,
        live: true,
        ..property(
            "pool",
            Kind::Text,
            "The pool of CPUs that the zone runs on, a name in /etc/zones/pools. Not with dedicated-cpu.",
        )
    },
    property(
        "limitpriv",
        Kind::Text,
        "The privileges any process in the zone can have: default, names to add, !names to take away.",
    ),
    PropertySpec {
        brands: Brands::AndGlobal,
        ..property(
            "scheduling-class",
            Kind::Text,
            "The scheduling class of the zone's processes: FSS, or TS or IA, which are the same here.",
        )
    },
    PropertySpec {
        default: "shared",
        ..property(
            "ip-type",
            Kind::Enum(&["shared", "exclusive"]),
            "The administrator of the zone's network: the host (shared), which gives it the addresses of its net resources, or the zone itself (exclusive).",
        )
    },
    PropertySpec {
        delegable: true,
        ..property(
            "hostid",
            Kind::HostId,
            "The host id that the zone sees, in hexadecimal: its /etc/hostid from the next boot on.",
        )
    },
    in_info(kept("tenant", "The tenant of an elastic virtual switch.")),
    PropertySpec {
        effect: Effect::NotYet,
        ..property(
            "fs-allowed",
            Kind::Text,
            "File system types that may be mounted from within the zone, with commas between them.",
        )
    },
    count(
        "max-lwps",
        "zone.max-lwps",
        "Most threads in the zone. Sets max-processes to the same where that is not set.",
    ),
    count(
        "max-processes",
        "zone.max-processes",
        "Most processes in the zone. Sets max-lwps to ten times that where it is not set.",
    ),
    alias(
        "max-shm-memory",
        Kind::Size,
        "zone.max-shm-memory",
        "deny",
        Unit::Bytes,
        "Most System V shared memory in the zone, in bytes or with K, M, G or T.",
    ),
    count(
        "max-shm-ids",
        "zone.max-shm-ids",
        "Most System V shared memory segments in the zone.",
    ),
    count(
        "max-msg-ids",
        "zone.max-msg-ids",
        "Most System V message queues in the zone.",
    ),
    count(
        "max-sem-ids",
        "zone.max-sem-ids",
        "Most System V semaphore sets in the zone.",
    ),
    alias(
        "cpu-shares",
        Kind::Int {
            min: 1,
            max: 65_535,
        },
        "zone.cpu-shares",
        "none",
        Unit::Count,
        "The zone's share of the CPUs when they are busy, relative to the other zones. Not with dedicated-cpu.",
    ),
    alias(
        "zfs-io-priority",
        Kind::Int { min: 1, max: 1024 },
        "zone.zfs-io-priority",
        "none",
        Unit::Count,
        "The weight of the zone's disk transfers, relative to the other zones.",
    ),
    later(PropertySpec {
        default: "normal",
        live: true,
        delegable: true,
        ..property(
            "boot-priority",
            Kind::Enum(&["high", "normal", "low"]),
            "Which zones boot first when the host boots: high, normal or low.",
        )
    }),
    later(PropertySpec {
        brands: Brands::Only(&[Family::Kz]),
        effect: Effect::NotYet,
        ..property(
            "cpu-arch",
            Kind::Text,
            "The processor that the zone's kernel sees: generic, or a model that every host has.",
        )
    }),
    later(PropertySpec {
        default: "false",
        effect: Effect::None,
        ..property(
            "global-time",
            Kind::Bool,
            "Whether the zone may set the host's clock: true or false.",
        )
    }),
];
