//! Why a configuration cannot be used.

use crate::config::Resource;

/// A thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required global property has no value.
    #[error("{0} cannot be empty.")]
    Empty(&'static str),
    /// A required property of a resource has no value.
    #[error("{0}: {1} not specified")]
    NotSpecified(&'static str, &'static str),
    /// The brand has no such property or resource.
    #[error("{what}: not allowed for brand '{brand}'.")]
    Brand {
        /// The property or resource.
        what: &'static str,
        /// The configured brand.
        brand: String,
    },
    /// The value of an attr does not have its type.
    #[error("invalid attr value for type={0}")]
    AttrValue(String),
    /// A name that is kept for the system.
    #[error("{property}: names that begin with SUNW are reserved.")]
    Reserved {
        /// The property.
        property: &'static str,
    },
    /// A value that is legal for its property but not in this resource.
    #[error("{resource} {property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The resource type.
        resource: &'static str,
        /// The property.
        property: &'static str,
        /// Its value.
        value: String,
        /// The description of the problem.
        why: String,
    },
    /// Two settings of which a zone can have only one.
    #[error("{0} cannot be used together with {1}.")]
    Incompatible(&'static str, &'static str),
    /// A resource in which one of several properties must be set, and none is, or
    /// several are.
    #[error("{resource}: {rule}")]
    Choice {
        /// The resource type.
        resource: &'static str,
        /// The rule that the value breaks.
        rule: &'static str,
    },
}

impl Problem {
    /// The library's phrase for problems of this kind.
    #[must_use]
    pub const fn phrase(&self) -> &'static str {
        match self {
            Self::Empty(_) | Self::NotSpecified(..) => "Required property missing",
            Self::Choice { .. } => "Insufficient specification",
            Self::Brand { .. } | Self::Incompatible(..) => "Incompatible settings",
            Self::AttrValue(_) | Self::Reserved { .. } | Self::Invalid { .. } => "Invalid argument",
        }
    }
}

pub(crate) fn invalid(
    resource: &Resource,
    property: &'static str,
    why: impl Into<String>,
) -> Problem {
    Problem::Invalid {
        resource: resource.spec().name,
        property,
        value: resource.get(property).to_owned(),
        why: why.into(),
    }
}
