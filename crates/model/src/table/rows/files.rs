//! The table rows of a zone's directories, file systems, pools and datasets.

use super::{ALL_TOKENS, NOT_KZ, many, property, required, single};
use crate::brands::Family;
use crate::table::spec::{Brands, Effect, PropertySpec, ResourceSpec, Show, Xml};
use crate::table::{Kind, Token};

const fn storage(help: &'static str) -> PropertySpec {
    PropertySpec {
        xml: Xml::Children {
            element: "storage",
            attribute: "uri",
        },
        tokens: ALL_TOKENS,
        ..required("storage", Kind::List, help)
    }
}

pub(super) const INHERIT_PKG_DIR: ResourceSpec = ResourceSpec {
    fixed: true,
    brands: Brands::Only(&[Family::Native]),
    xml: "inherited-pkg-dir",
    ..many(
        "inherit-pkg-dir",
        &["dir"],
        &[PropertySpec {
            xml: Xml::Attribute("directory"),
            ..required(
                "dir",
                Kind::Path,
                "The directory of the host that the zone shares, read-only.",
            )
        }],
        "A directory of software that the zone shares with the host, read-only.",
    )
};

pub(super) const FS: ResourceSpec = ResourceSpec {
    live: true,
    brands: NOT_KZ,
    xml: "filesystem",
    ..many(
        "fs",
        &["dir"],
        &[
            PropertySpec {
                xml: Xml::Attribute("directory"),
                tokens: &[Token::ZoneName],
                ..required("dir", Kind::Path, "The mount point in the zone.")
            },
            required(
                "special",
                Kind::Text,
                "The source of the mount: a host directory for lofs, a device for other types.",
            ),
            PropertySpec {
                effect: Effect::None,
                ..property(
                    "raw",
                    Kind::Path,
                    "The raw device to check before the mount.",
                )
            },
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
        "A file system that is mounted in the zone when it becomes ready.",
    )
};

pub(super) const ROOTZPOOL: ResourceSpec = ResourceSpec {
    effect: Effect::NotYet,
    ..single(
        "rootzpool",
        &[storage("The storage URIs of the pool.")],
        "A ZFS pool for the zone's root.",
    )
};

pub(super) const ZPOOL: ResourceSpec = ResourceSpec {
    effect: Effect::NotYet,
    ..many(
        "zpool",
        &["name"],
        &[
            storage("The storage URIs of the pool."),
            required("name", Kind::Dataset, "The name of the pool in the zone."),
        ],
        "A ZFS pool that is imported for the zone.",
    )
};

pub(super) const DATASET: ResourceSpec = ResourceSpec {
    brands: NOT_KZ,
    ..many(
        "dataset",
        &["name"],
        &[
            PropertySpec {
                tokens: &[Token::ZoneName],
                ..required("name", Kind::Dataset, "The ZFS dataset.")
            },
            PropertySpec {
                show: Show::WhenSet,
                effect: Effect::NotYet,
                ..property("alias", Kind::Dataset, "The name of its pool in the zone.")
            },
        ],
        "A ZFS dataset that the zone administers.",
    )
};
