//! The rows of the table.

use super::{Brands, Kind, PropertySpec, ResourceSpec, Xml};
use crate::brands::Family;

/// A property that is optional, clearable, free to change and in every brand:
/// rows say only where they differ.
const fn property(name: &'static str, kind: Kind, help: &'static str) -> PropertySpec {
    PropertySpec {
        name,
        kind,
        default: "",
        required: false,
        clearable: true,
        live: false,
        fixed: false,
        tokens: false,
        brands: Brands::All,
        xml: Xml::Attribute(name),
        help,
    }
}

const fn required(name: &'static str, kind: Kind, help: &'static str) -> PropertySpec {
    PropertySpec {
        required: true,
        clearable: false,
        ..property(name, kind, help)
    }
}

/// The properties of the zone itself.
pub static GLOBAL: &[PropertySpec] = &[
    PropertySpec {
        xml: Xml::Attribute("name"),
        ..required(
            "zonename",
            Kind::ZoneName,
            "The name of the zone. Setting it renames the zone.",
        )
    },
    PropertySpec {
        fixed: true,
        tokens: true,
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
            "What runs in the zone: native, the host's distribution; lx, any other.",
        )
    },
    PropertySpec {
        default: "false",
        live: true,
        ..property(
            "autoboot",
            Kind::Bool,
            "Whether the zone boots when the host does: true or false.",
        )
    },
    PropertySpec {
        ..property(
            "bootargs",
            Kind::Text,
            "Boot arguments used when boot and reboot are given none.",
        )
    },
    property(
        "pool",
        Kind::Text,
        "The resource pool the zone is bound to when it boots.",
    ),
    property(
        "limitpriv",
        Kind::Text,
        "The privileges any process in the zone can have: default, names to add, !names to take away.",
    ),
    property(
        "scheduling-class",
        Kind::Text,
        "The scheduling class of the zone's processes.",
    ),
    PropertySpec {
        default: "shared",
        ..property(
            "ip-type",
            Kind::Enum(&["shared", "exclusive"]),
            "Whether the zone shares the host's network or has a network stack of its own.",
        )
    },
    property(
        "hostid",
        Kind::HostId,
        "The host id that the zone sees, in hexadecimal.",
    ),
    property(
        "fs-allowed",
        Kind::Text,
        "File system types that may be mounted from within the zone, with commas between them.",
    ),
];

/// The resource types.
pub static RESOURCES: &[ResourceSpec] = &[
    ResourceSpec {
        name: "inherit-pkg-dir",
        singleton: false,
        keys: &["dir"],
        properties: &[PropertySpec {
            xml: Xml::Attribute("directory"),
            ..required(
                "dir",
                Kind::Path,
                "The directory of the host that the zone shares, read-only.",
            )
        }],
        fixed: true,
        brands: Brands::Only(&[Family::Native]),
        xml: "inherited-pkg-dir",
        help: "A directory of software that the zone shares with the host, read-only.",
    },
    ResourceSpec {
        name: "fs",
        singleton: false,
        keys: &["dir"],
        properties: &[
            PropertySpec {
                xml: Xml::Attribute("directory"),
                tokens: true,
                ..required("dir", Kind::Path, "The mount point in the zone.")
            },
            required(
                "special",
                Kind::Text,
                "What to mount: a host directory for lofs, a device for others.",
            ),
            property(
                "raw",
                Kind::Path,
                "The raw device to check before the mount.",
            ),
            required(
                "type",
                Kind::FsType,
                "The file system type, such as lofs, tmpfs or ext4.",
            ),
            PropertySpec {
                xml: Xml::Children {
                    element: "fsoption",
                    attribute: "name",
                },
                ..property("options", Kind::List, "Mount options, as a list.")
            },
        ],
        fixed: false,
        brands: Brands::All,
        xml: "filesystem",
        help: "A file system that is mounted in the zone when it becomes ready.",
    },
    ResourceSpec {
        name: "attr",
        singleton: false,
        keys: &["name"],
        properties: &[
            required("name", Kind::AttrName, "The name of the attribute."),
            required(
                "type",
                Kind::Enum(&["int", "uint", "boolean", "string"]),
                "The type of its value: int, uint, boolean or string.",
            ),
            required("value", Kind::Text, "Its value."),
        ],
        fixed: false,
        brands: Brands::All,
        xml: "attr",
        help: "A named value, for comments, brands and tools.",
    },
];
