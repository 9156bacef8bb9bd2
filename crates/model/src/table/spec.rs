//! The types of the table: the descriptions of resources and properties.

use std::fmt;

use crate::brands::Family;
use crate::table::alias::Alias;
use crate::table::kind::Kind;
use crate::table::token::Token;

/// The brands that have a property or resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brands {
    /// All brands of zones.
    All,
    /// All brands of zones, and the global zone.
    AndGlobal,
    /// The brands of the listed families.
    Only(&'static [Family]),
}

impl Brands {
    /// Returns true if a resource of a zone of `family` has this property. For a property of a
    /// resource, `All` means every brand that has the resource.
    #[must_use]
    pub fn has_in_resource(self, family: Family) -> bool {
        self == Self::All || self.has(family)
    }

    /// Returns true if a brand of `family` has the property or resource.
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
    /// An attribute in the XML element of the zone or resource.
    Attribute(&'static str),
    /// A child element for each list element. A simple list element is in the named attribute. A
    /// complex list element has one attribute for each of its fields.
    Children {
        /// The name of the child element.
        element: &'static str,
        /// The attribute of a simple value; unused for complex values.
        attribute: &'static str,
    },
    /// Two attributes with the ends of a range, which are equal for a single number.
    Range {
        /// The XML attribute with the lower end of the range.
        min: &'static str,
        /// The XML attribute with the upper end of the range.
        max: &'static str,
    },
    /// An attribute of a separate element beside the element of the resource.
    Sibling {
        /// The name of the separate element.
        element: &'static str,
        /// The XML attribute with the value of the property.
        attribute: &'static str,
    },
    /// The limit of a resource control: the property is an alias of the control.
    Rctl(Alias),
}

/// The effect of a setting on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The setting has its documented effect.
    Honoured,
    /// The setting has no effect yet, because no release implements it.
    NotYet,
    /// The setting cannot have an effect, because Linux has no such feature. The setting is
    /// nevertheless stored and exported.
    None,
}

/// The cases in which `info` prints a property, and `export` sets a global property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// `info` always prints the property, and `export` leaves it out only if it is empty.
    Always,
    /// `info` always prints the property, as Solaris 11 does. `export` sets the property only if it
    /// is not the default, so that releases without the property can read the commands.
    Info,
    /// The property is printed only if it is not the default, because not every release knows the
    /// property.
    WhenSet,
}

/// A property of the zone or of a resource.
#[derive(Clone, Copy, Debug)]
pub struct PropertySpec {
    /// The name of the property in the zonecfg language.
    pub name: &'static str,
    /// The kind of the property's values.
    pub kind: Kind,
    /// The value of the property if none is set; empty if the property has no default.
    pub default: &'static str,
    /// True if a resource or zone without the property is incomplete.
    pub required: bool,
    /// True if `clear` is allowed for the property.
    pub clearable: bool,
    /// True if a running zone accepts a new value without a reboot.
    pub live: bool,
    /// True if the property cannot change after the zone is installed.
    pub fixed: bool,
    /// The tokens that are expanded in the value, beside `%%`. If the list of tokens is empty, a
    /// percent sign in the value is a plain character.
    pub tokens: &'static [Token],
    /// The brands that have the property.
    pub brands: Brands,
    /// The form of the property in the XML file.
    pub xml: Xml,
    /// The effect of the property on this system.
    pub effect: Effect,
    /// The cases in which the property is printed.
    pub show: Show,
    /// True for a global property that affects only the zone, so that a user with the auth `config`
    /// may change it. False if the property names an object of the host, or protects the host from
    /// the zone. For a property of a resource, [`ResourceSpec::delegable`] decides.
    pub delegable: bool,
    /// True for a value that only root may read. `info` shows only that the value is set, and a
    /// configuration with such a value is stored readable for root alone.
    pub secret: bool,
    /// The line of help on the property.
    pub help: &'static str,
}

impl PropertySpec {
    /// Returns the resource control for which the property is another name.
    #[must_use]
    pub const fn alias(&self) -> Option<&Alias> {
        match &self.xml {
            Xml::Rctl(alias) => Some(alias),
            _ => None,
        }
    }

    /// Returns true if the property holds a list of values.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Complex(_))
    }
}

/// A resource type.
#[derive(Clone, Copy)]
pub struct ResourceSpec {
    /// The name of the resource type in the zonecfg language.
    pub name: &'static str,
    /// True if a zone has at most one resource of this type.
    pub singleton: bool,
    /// The properties whose values together distinguish two instances.
    pub keys: &'static [&'static str],
    /// The properties of the resource, in printing order.
    pub properties: &'static [PropertySpec],
    /// True if resources of this type cannot be added, changed or removed after the zone is
    /// installed.
    pub fixed: bool,
    /// True if resources of this type can be added to, changed in and removed from a running zone.
    pub live: bool,
    /// The brands that have the resource type.
    pub brands: Brands,
    /// The effect of the resource type on this system.
    pub effect: Effect,
    /// True if a user with the auth `config` may add, change and remove resources of this type; see
    /// [`PropertySpec::delegable`].
    pub delegable: bool,
    /// The name of the element in the XML file; empty if the resource has only aliases.
    pub xml: &'static str,
    /// The line of help on the resource type.
    pub help: &'static str,
}

impl ResourceSpec {
    /// Finds a property of this resource by name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&'static PropertySpec> {
        self.properties.iter().find(|spec| spec.name == name)
    }

    /// Returns true if some properties of the resource are aliases of resource controls.
    #[must_use]
    pub fn has_aliases(&self) -> bool {
        self.properties.iter().any(|spec| spec.alias().is_some())
    }
}

impl fmt::Debug for ResourceSpec {
    /// Prints only the name, because the rest of the row is long and is in the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for ResourceSpec {
    fn eq(&self, other: &Self) -> bool {
        // The name of a row is unique, as a test below checks.
        self.name == other.name
    }
}
