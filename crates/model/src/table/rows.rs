//! The rows of the table.

mod devices;
mod files;
mod globals;
mod limits;
mod machine;
mod network;
mod others;
mod resources;

pub use globals::GLOBAL;
pub use resources::{IGNORED_ELEMENTS, RESOURCES};

use super::{Alias, Kind, Token, Unit};
use crate::brands::Family;
use crate::table::spec::{Brands, Effect, PropertySpec, ResourceSpec, Show, Xml};

const KZ: Brands = Brands::Only(&[Family::Kz]);
const NOT_KZ: Brands = Brands::Only(&[Family::Native, Family::Lx]);
const ALL_TOKENS: &[Token] = &[Token::ZoneName, Token::Id, Token::RootPool];

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
        tokens: &[],
        brands: Brands::All,
        xml: Xml::Attribute(name),
        effect: Effect::Honoured,
        show: Show::Always,
        delegable: false,
        secret: false,
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

/// A property for which Linux has nothing: kept for those who bring it along.
const fn kept(name: &'static str, help: &'static str) -> PropertySpec {
    PropertySpec {
        effect: Effect::None,
        show: Show::WhenSet,
        ..property(name, Kind::Text, help)
    }
}

/// A property of Solaris 11 that its `info` prints in any case.
const fn in_info(spec: PropertySpec) -> PropertySpec {
    PropertySpec {
        show: Show::Info,
        ..spec
    }
}

/// Another name for a resource control.
const fn alias(
    name: &'static str,
    kind: Kind,
    rctl: &'static str,
    action: &'static str,
    unit: Unit,
    help: &'static str,
) -> PropertySpec {
    PropertySpec {
        live: true,
        brands: Brands::AndGlobal,
        xml: Xml::Rctl(Alias { rctl, action, unit }),
        delegable: true,
        show: Show::WhenSet,
        ..property(name, kind, help)
    }
}

/// A type that a zone has any number of, in every brand, apart by `keys`.
const fn many(
    name: &'static str,
    keys: &'static [&'static str],
    properties: &'static [PropertySpec],
    help: &'static str,
) -> ResourceSpec {
    ResourceSpec {
        name,
        singleton: false,
        keys,
        properties,
        fixed: false,
        live: false,
        brands: Brands::All,
        effect: Effect::Honoured,
        delegable: false,
        xml: name,
        help,
    }
}

/// A type that a zone has at most once.
const fn single(
    name: &'static str,
    properties: &'static [PropertySpec],
    help: &'static str,
) -> ResourceSpec {
    ResourceSpec {
        singleton: true,
        ..many(name, &[], properties, help)
    }
}
