//! The resources and properties that only a zone with a kernel of its own has.

use super::{ALL_TOKENS, KZ, property, required, single};
use crate::table::{Kind, PropertySpec, ResourceSpec, Token, Xml};

pub(super) const VIRTUAL_CPU: ResourceSpec = ResourceSpec {
    brands: KZ,
    ..single(
        "virtual-cpu",
        &[required(
            "ncpus",
            Kind::CpuRange,
            "How many processors the machine has.",
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
                ..property("storage", Kind::Text, "The same as a storage URI.")
            },
        ],
        "Where a suspended zone is kept: path or storage.",
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
                    "A file of the host that holds the key, as 32 bytes or as raw has it.",
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
                    "What happens with an unsigned loader or kernel: nothing (none), a warning that nothing is checked (warning), or it is not started (enforce).",
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
                    "Certificates that are trusted beside those of the firmware: files, as file:///PATH.",
                )
            },
        ],
        "Whether what boots must be signed.",
    )
};
