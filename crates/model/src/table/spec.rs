//! The types of the table: the description of a resource and of a property.

use std::fmt;

use crate::brands::Family;
use crate::table::alias::Alias;
use crate::table::kind::Kind;
use crate::table::token::Token;

/// The brands that have a property or resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brands {
    /// Those of zones, all of them.
    All,
    /// All of them, and the global zone has it too.
    AndGlobal,
    /// Those of these families.
    Only(&'static [Family]),
}

impl Brands {
    /// True when a resource of `family` has this property: only a list of brands is
    /// narrower than the resource's own.
    #[must_use]
    pub fn has_in_resource(self, family: Family) -> bool {
        self == Self::All || self.has(family)
    }

    /// True when a brand of `family` has it.
    #[must_use]
    pub fn has(self, family: Family) -> bool {
        match self {
            Self::All => family != Family::Global,
            Self::AndGlobal => true,
            Self::Only(families) => families.contains(&family),
        }
    }
}

/// The form of a property in `/etc/zones/<zone>.xml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xml {
    /// An attribute of the element of its zone or resource.
    Attribute(&'static str),
    /// A child element for each list element. Simple values stand in the named
    /// attribute, complex ones in an attribute for each of their fields.
    Children {
        /// The element's name.
        element: &'static str,
        /// The attribute of simple values; unused for complex ones.
        attribute: &'static str,
    },
    /// Two attributes for the ends of a range, equal for a single number.
    Range {
        /// The attribute of the lower end.
        min: &'static str,
        /// The attribute of the upper end.
        max: &'static str,
    },
    /// The attribute of an element of its own beside that of the resource.
    Sibling {
        /// The element's name.
        element: &'static str,
        /// The attribute of the value.
        attribute: &'static str,
    },
    /// The limit of a resource control: the property is another name for it.
    Rctl(Alias),
}

/// The effect of a setting on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has its documented effect.
    Honoured,
    /// It will: no release has it yet.
    NotYet,
    /// It cannot: Linux has nothing of the kind. It is stored and exported.
    None,
}

/// When `info` prints a property, and `export` sets a global one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Always; `export` leaves only empty ones out.
    Always,
    /// In `info` always, as Solaris 11 prints it; in `export` where it is not the default, so that
    /// releases without it read the commands.
    Info,
    /// Written only if it is not the default: properties that not every release knows.
    WhenSet,
}

/// A property, of the zone or of a resource.
#[derive(Clone, Copy, Debug)]
pub struct PropertySpec {
    /// The name in the zonecfg language.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The value when none is set; empty where there is none.
    pub default: &'static str,
    /// True when a resource or zone without it is incomplete.
    pub required: bool,
    /// True when `clear` is allowed.
    pub clearable: bool,
    /// True when a running zone takes a new value without a reboot.
    pub live: bool,
    /// True when it cannot change once the zone is installed.
    pub fixed: bool,
    /// The tokens that are expanded in it, beside `%%`; in a property without any a
    /// percent sign is just that.
    pub tokens: &'static [Token],
    /// The brands that have it.
    pub brands: Brands,
    /// Its form in the XML file.
    pub xml: Xml,
    /// Its effect on this system.
    pub effect: Effect,
    /// When it is printed.
    pub show: Show,
    /// True for a global property that concerns nobody but the zone: a user with the
    /// auth `config` may change it. Whatever names something of the host, or guards the
    /// host from the zone, is not. For a property of a resource the resource says it.
    pub delegable: bool,
    /// True for values that only root may read: `info` says no more than that it is set, and a
    /// configuration that has it is stored for root alone.
    pub secret: bool,
    /// A line of help.
    pub help: &'static str,
}

impl PropertySpec {
    /// The resource control it is another name for.
    #[must_use]
    pub const fn alias(&self) -> Option<&Alias> {
        match &self.xml {
            Xml::Rctl(alias) => Some(alias),
            _ => None,
        }
    }

    /// True for properties that hold a list of values.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Complex(_))
    }
}

/// A resource type.
#[derive(Clone, Copy)]
pub struct ResourceSpec {
    /// The name in the zonecfg language.
    pub name: &'static str,
    /// True when a zone has at most one.
    pub singleton: bool,
    /// The properties whose values together tell two instances apart.
    pub keys: &'static [&'static str],
    /// Its properties, in printing order.
    pub properties: &'static [PropertySpec],
    /// True when it cannot be added, changed or removed once the zone is installed.
    pub fixed: bool,
    /// True when instances can be added to, changed in and removed from a running zone.
    pub live: bool,
    /// The brands that have it.
    pub brands: Brands,
    /// Its effect on this system.
    pub effect: Effect,
    /// True when a user with the auth `config` may add, change and remove it, see
    /// [`PropertySpec::delegable`].
    pub delegable: bool,
    /// Its element in the XML file; empty when nothing but aliases is in it.
    pub xml: &'static str,
    /// A line of help.
    pub help: &'static str,
}

impl ResourceSpec {
    /// Finds a property of this resource by name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&'static PropertySpec> {
        self.properties.iter().find(|spec| spec.name == name)
    }

    /// True when some of its properties are other names of resource controls.
    #[must_use]
    pub fn has_aliases(&self) -> bool {
        self.properties.iter().any(|spec| spec.alias().is_some())
    }
}

impl fmt::Debug for ResourceSpec {
    /// Its name: the rest is in the table, and long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for ResourceSpec {
    fn eq(&self, other: &Self) -> bool {
        // Rows are unique by name (tested below).
        self.name == other.name
    }
}
