//! The table rows of the global properties, in the order of `info`.

use super::{alias, in_info, kept, property, required};
use crate::brands::Family;
use crate::table::spec::{Brands, Effect, PropertySpec, Show, Xml};
use crate::table::{Kind, Token, Unit};

/// Makes a property that illumos does not have visible only if the property is set.
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

/// The global properties of a zone.
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
            "The system of the zone: native, the host's distribution; lx, any other; kz, with a kernel of its own.",
        )
    },
    PropertySpec {
        default: "false",
        live: true,
        delegable: true,
        ..property(
            "autoboot",
            Kind::Bool,
            "Boots the zone when the host boots: true or false.",
        )
    },
    in_info(PropertySpec {
        default: "shutdown",
        live: true,
        delegable: true,
        ..property(
            "autoshutdown",
            Kind::Enum(&["shutdown", "halt", "suspend"]),
            "The action on the zone when the host shuts down: shutdown, halt, or (kz) suspend.",
        )
    }),
    PropertySpec {
        delegable: true,
        ..property(
            "bootargs",
            Kind::Text,
            "Boot arguments, used if boot or reboot has none.",
        )
    },
    in_info(property(
        "file-mac-profile",
        Kind::Enum(&[
            "none",
            "strict",
            "fixed-configuration",
            "flexible-configuration",
            "dynamic-zones",
        ]),
        "The files of the zone that cannot be changed from within it: none, or a profile. dynamic-zones is refused, because zones have no zones here.",
    )),
    later(PropertySpec {
        fixed: true,
        ..property(
            "label",
            Kind::Label,
            "The sensitivity label of the zone: text as in /etc/zones/label_encodings, or hexadecimal. The first label of a host needs set -F.",
        )
    }),
    PropertySpec {
        brands: Brands::AndGlobal,
        live: true,
        ..property(
            "pool",
            Kind::Text,
            "The pool of CPUs that the zone runs on, a name in /etc/zones/pools. Excludes dedicated-cpu.",
        )
    },
    property(
        "limitpriv",
        Kind::Text,
        "The privileges that processes in the zone can have: default, names to add, !names to remove.",
    ),
    PropertySpec {
        brands: Brands::AndGlobal,
        ..property(
            "scheduling-class",
            Kind::Text,
            "The scheduling class of the zone's processes: FSS, TS or IA. TS and IA are the same here.",
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
        "The maximum number of threads in the zone. Sets max-processes to the same number if that is not set.",
    ),
    count(
        "max-processes",
        "zone.max-processes",
        "The maximum number of processes in the zone. Sets max-lwps to ten times as many if that is not set.",
    ),
    alias(
        "max-shm-memory",
        Kind::Size,
        "zone.max-shm-memory",
        "deny",
        Unit::Bytes,
        "The maximum System V shared memory in the zone, in bytes or with K, M, G or T.",
    ),
    count(
        "max-shm-ids",
        "zone.max-shm-ids",
        "The maximum number of System V shared memory segments in the zone.",
    ),
    count(
        "max-msg-ids",
        "zone.max-msg-ids",
        "The maximum number of System V message queues in the zone.",
    ),
    count(
        "max-sem-ids",
        "zone.max-sem-ids",
        "The maximum number of System V semaphore sets in the zone.",
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
        "The zone's share of the CPUs when they are busy, relative to the other zones. Excludes dedicated-cpu.",
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
            "The order when the host boots: high before normal before low.",
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
        brands: Brands::Only(&[Family::Global]),
        ..property(
            "default-network",
            Kind::Enum(&["anet", "none"]),
            "The link that create gives to a new zone: anet (an anet of the pool), or none. If it is not set: anet; none with -R or ZONES_ROOT.",
        )
    }),
    later(PropertySpec {
        brands: Brands::Only(&[Family::Global]),
        ..property(
            "default-quota",
            Kind::OneOf(&["none"], &Kind::Size),
            "The limit of the files of a new zone, such as 20G: install, clone, attach and import set it as 'zoneadm quota' does. If it is not set: none.",
        )
    }),
    later(PropertySpec {
        default: "false",
        effect: Effect::None,
        ..property(
            "global-time",
            Kind::Bool,
            "Lets the zone set the host's clock: true or false.",
        )
    }),
];
