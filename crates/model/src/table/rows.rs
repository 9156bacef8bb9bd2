//! The rows of the table of properties and resources.

mod devices;
mod files;
mod globals;
mod limits;
mod machine;
mod network;
mod others;
mod resources;
mod snapshots;

pub use globals::GLOBAL;
pub use resources::{IGNORED_ELEMENTS, RESOURCES};

use super::{Alias, Kind, Token, Unit};
use crate::brands::Family;
use crate::table::spec::{Brands, Effect, PropertySpec, ResourceSpec, Show, Xml};

const KZ: Brands = Brands::Only(&[Family::Kz]);
const NOT_KZ: Brands = Brands::Only(&[Family::Native, Family::Lx]);
const ALL_TOKENS: &[Token] = &[Token::ZoneName, Token::Id, Token::RootPool];

/// Returns a property with the defaults of a row: optional, clearable, changeable at any time, and
/// in every brand. A row of the table states only its differences from these defaults.
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

/// Returns a property that has no effect on Linux. A configuration from another system keeps the
/// property.
const fn kept(name: &'static str, help: &'static str) -> PropertySpec {
    PropertySpec {
        effect: Effect::None,
        show: Show::WhenSet,
        ..property(name, Kind::Text, help)
    }
}

/// Makes a property visible in `info` always, as Solaris 11 prints it.
const fn in_info(spec: PropertySpec) -> PropertySpec {
    PropertySpec {
        show: Show::Info,
        ..spec
    }
}

/// Returns an alias: a property that is another name for a resource control.
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

/// Returns a resource type of which a zone may have any number of instances, in every brand. `keys`
/// distinguish the instances.
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

/// Returns a resource type of which a zone has at most one instance.
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
