//! The problems that make a configuration unusable.

use crate::config::Resource;

/// A problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required global property has no value.
    #[error("{0} cannot be empty.")]
    Empty(&'static str),
    /// A required property of a resource has no value.
    #[error("{0}: {1} not specified")]
    NotSpecified(&'static str, &'static str),
    /// The brand does not have the property or resource.
    #[error("{what}: not allowed for brand '{brand}'.")]
    Brand {
        /// The name of the property or resource.
        what: &'static str,
        /// The brand of the zone, as configured.
        brand: String,
    },
    /// The value of an attr resource does not match its type.
    #[error("invalid attr value for type={0}")]
    AttrValue(String),
    /// The name is reserved for the system.
    #[error("{property}: names that begin with SUNW are reserved.")]
    Reserved {
        /// The name of the property.
        property: &'static str,
    },
    /// The value is legal for its property, but not in this resource.
    #[error("{resource} {property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The resource type.
        resource: &'static str,
        /// The name of the property.
        property: &'static str,
        /// The value of the property.
        value: String,
        /// The description of the problem.
        why: String,
    },
    /// No zone, or no zone of this brand, can have the profile of immutable zones.
    #[error("file-mac-profile={value}: {why}.")]
    Profile {
        /// The profile.
        value: String,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// The zone has two settings that exclude each other.
    #[error("{0} cannot be used together with {1}.")]
    Incompatible(&'static str, &'static str),
    /// Exactly one, or at least one, of several properties of a resource must be set, and this rule
    /// is broken.
    #[error("{resource}: {rule}")]
    Choice {
        /// The resource type.
        resource: &'static str,
        /// The broken rule, as a sentence.
        rule: &'static str,
    },
}

impl Problem {
    /// Returns the phrase of Solaris' libzonecfg for problems of this kind.
    #[must_use]
    pub const fn phrase(&self) -> &'static str {
        match self {
            Self::Empty(_) | Self::NotSpecified(..) => "Required property missing",
            Self::Choice { .. } => "Insufficient specification",
            Self::Brand { .. } | Self::Incompatible(..) => "Incompatible settings",
            Self::AttrValue(_)
            | Self::Reserved { .. }
            | Self::Invalid { .. }
            | Self::Profile { .. } => "Invalid argument",
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
