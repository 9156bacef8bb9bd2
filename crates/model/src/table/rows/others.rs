//! The table rows of the users who may administer a zone, and of its attributes.

use super::{many, property, required, single};
use crate::table::Kind;
use crate::table::spec::{Effect, ResourceSpec};

const AUTHS: &[&str] = &[
    "login",
    "manage",
    "clonefrom",
    "copyfrom",
    "config",
    "liveconfig",
    "migrate",
    "migrate.cold",
];

pub(super) const SMF_DEPENDENCY: ResourceSpec = ResourceSpec {
    effect: Effect::None,
    ..many(
        "smf-dependency",
        &["name"],
        &[
            required("name", Kind::Text, "The name of the dependency."),
            required("fmri", Kind::Text, "The service that must be up."),
            property(
                "grouping",
                Kind::Text,
                "The way several services are combined.",
            ),
        ],
        "A service of the host that the zone waits for.",
    )
};

pub(super) const SECURITY_FLAGS: ResourceSpec = ResourceSpec {
    effect: Effect::None,
    ..single(
        "security-flags",
        &[
            property("lower", Kind::Text, "Flags that every process has."),
            property("default", Kind::Text, "Flags that processes start with."),
            property("upper", Kind::Text, "Flags that processes can have."),
        ],
        "Security flags of the zone's processes.",
    )
};

pub(super) const ATTR: ResourceSpec = ResourceSpec {
    delegable: true,
    ..many(
        "attr",
        &["name"],
        &[
            required("name", Kind::AttrName, "The name of the attribute."),
            required(
                "type",
                Kind::Enum(&["int", "uint", "boolean", "string"]),
                "The type of its value: int, uint, boolean or string.",
            ),
            required("value", Kind::Text, "Its value."),
        ],
        "A named value, for comments, brands and tools.",
    )
};

pub(super) const ADMIN: ResourceSpec = many(
    "admin",
    &["user"],
    &[
        required("user", Kind::User, "A user of the host."),
        required(
            "auths",
            Kind::Words(AUTHS),
            "The user's authorizations: login, manage, clonefrom, copyfrom, config, liveconfig, migrate.",
        ),
    ],
    "A user of the host who may administer the zone.",
);
