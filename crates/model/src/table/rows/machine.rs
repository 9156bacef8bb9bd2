//! The table rows of the resources and properties that only kernel zones have.

use super::{ALL_TOKENS, KZ, property, required, single};
use crate::table::spec::{PropertySpec, ResourceSpec, Xml};
use crate::table::{Kind, Token};

pub(super) const VIRTUAL_CPU: ResourceSpec = ResourceSpec {
    brands: KZ,
    ..single(
        "virtual-cpu",
        &[required(
            "ncpus",
            Kind::CpuRange,
            "The number of the machine's processors.",
        )],
        "The processors of the machine.",
    )
};

pub(super) const SUSPEND: ResourceSpec = ResourceSpec {
    brands: KZ,
    ..single(
        "suspend",
        &[
            PropertySpec {
                tokens: &[Token::ZoneName],
                ..property("path", Kind::Path, "The file of the suspended machine.")
            },
            PropertySpec {
                tokens: ALL_TOKENS,
                ..property(
                    "storage",
                    Kind::Text,
                    "The storage URI of that file, instead of path.",
                )
            },
        ],
        "The place of the suspended zone's image: path or storage.",
    )
};

pub(super) const KEYSOURCE: ResourceSpec = ResourceSpec {
    brands: KZ,
    ..single(
        "keysource",
        &[
            PropertySpec {
                secret: true,
                ..property(
                    "raw",
                    Kind::Text,
                    "The key itself: 32 bytes in base64, or 64 hexadecimal digits.",
                )
            },
            PropertySpec {
                tokens: &[Token::ZoneName],
                ..property(
                    "file",
                    Kind::Path,
                    "A file of the host that holds the key: 32 bytes, or text in a form of raw.",
                )
            },
        ],
        "The key that protects the image of the suspended zone: raw or file.",
    )
};

pub(super) const VERIFIED_BOOT: ResourceSpec = ResourceSpec {
    brands: KZ,
    ..single(
        "verified-boot",
        &[
            PropertySpec {
                default: "warning",
                ..property(
                    "policy",
                    Kind::Enum(&["none", "warning", "enforce"]),
                    "The check of the signatures of loader and kernel: none; warning, which only warns that nothing is checked; enforce, which starts only signed programs.",
                )
            },
            PropertySpec {
                xml: Xml::Children {
                    element: "cert",
                    attribute: "uri",
                },
                ..property(
                    "cert",
                    Kind::List,
                    "Further trusted certificates beside those of the firmware: files, as file:///PATH.",
                )
            },
        ],
        "Checks of the signatures of loader and kernel.",
    )
};
