//! The problems in the text of a stored file.

use model::state::BadState;
use model::{State, config, name::BadName, uuid::BadUuid, verify};
use quick_xml::events::attributes::AttrError;

/// The part of an XML file that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An element below the zone, or the zone itself.
    Element,
    /// An attribute of this element.
    AttributeOf(&'static str),
    /// An element in this one.
    ElementIn(&'static str),
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Element => f.write_str("element"),
            Self::AttributeOf(element) => write!(f, "attribute of {element}"),
            Self::ElementIn(element) => write!(f, "element in {element}"),
        }
    }
}

/// The problem in a file that is damaged, or is not ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Larger than any such file is.
    #[error("larger than {max} bytes")]
    TooLarge {
        /// The size of the largest file that is read, in bytes.
        max: u64,
    },
    /// Its bytes are no text.
    #[error("not UTF-8")]
    NotUtf8,
    /// Its line with the format has another word.
    #[error("the format is not a number")]
    FormatNumber,
    /// It is no JSON, or not of this kind.
    #[error(transparent)]
    Json(#[from] serde_json::Error),

    /// It is no XML.
    #[error(transparent)]
    Xml(#[from] quick_xml::Error),
    /// An attribute is no XML.
    #[error(transparent)]
    Attribute(#[from] AttrError),
    /// A document type that could define entities.
    #[error("a document type with an internal subset")]
    InternalSubset,
    /// A text where only elements are.
    #[error("text between the elements")]
    Text,
    /// The first element is missing.
    #[error("no zone element")]
    NoZone,
    /// An element or attribute that is in no table.
    #[error("unknown {part}: '{name}'")]
    Unknown {
        /// The kind of its place.
        part: Part,
        /// Its name, fit for a terminal.
        name: String,
    },
    /// The file of one zone has the name of another one's.
    #[error("it is the configuration of '{0}'")]
    OfAnotherZone(String),
    /// A format of later programs.
    #[error("it has format {0}, and these programs know format 1: use newer programs")]
    Format(String),
    /// The zone element has no name.
    #[error("the zone has no name")]
    NoName,
    /// The end of an element that never began.
    #[error("more ends than elements")]
    ExtraEnd,
    /// An element that ends with the file.
    #[error("the {0} element has no end")]
    NoEnd(&'static str),
    /// A skipped element that ends with the file.
    #[error("an element has no end")]
    SkippedNoEnd,
    /// An element that must be empty is not.
    #[error("unexpected content in a {0} element")]
    Content(&'static str),
    /// A range of which one end is written.
    #[error("{0} has one end of a range")]
    HalfRange(&'static str),
    /// An element with other attributes than its only one.
    #[error("{element} must have just the attribute {attribute}")]
    OneAttribute {
        /// The element.
        element: &'static str,
        /// Its attribute.
        attribute: &'static str,
    },
    /// An element that belongs to another one, which is missing.
    #[error("{element} without a {resource} element")]
    Alone {
        /// The element.
        element: &'static str,
        /// The missing one.
        resource: &'static str,
    },
    /// A property has a value that it cannot have.
    #[error(transparent)]
    Value(#[from] config::Error),
    /// A resource lacks a property, or its properties do not go together.
    #[error("{0}")]
    Resource(verify::Problem),

    /// A manifest is of a zone that cannot be called so.
    #[error("'{0}' is no zone's name")]
    ZoneName(String),
    /// The version of a manifest is another word.
    #[error("the version is no number")]
    VersionNumber,
    /// A manifest lists a package without a name.
    #[error("a package without a name")]
    PackageName,
    /// An attribute of a manifest is too long, or is not fit for a terminal.
    #[error("attribute {0}: not a legal value")]
    Word(&'static str),

    /// A line of the index ends after the name.
    #[error("no state")]
    NoState,
    /// A line of the index ends after the state.
    #[error("no zonepath")]
    NoZonepath,
    /// A quotation mark without a second one.
    #[error("a quoted zonepath without an end")]
    OpenQuote,
    /// A word that is no state.
    #[error(transparent)]
    State(#[from] BadState),
    /// A state that only a running zone has.
    #[error("{0} is not a state that is stored")]
    StoredState(State),
    /// The slot is another word.
    #[error("the slot is not a number")]
    SlotNumber,
    /// The slot has no range of ids.
    #[error("the slot is not below {0}")]
    Slot(u32),
    /// No name of a zone.
    #[error(transparent)]
    Name(#[from] BadName),
    /// No uuid.
    #[error(transparent)]
    Uuid(#[from] BadUuid),
    /// Two lines of one zone.
    #[error("a second zone {0}")]
    SecondZone(model::ZoneName),
    /// Two zones with one range of ids.
    #[error("the zone has the slot of the one in line {0}")]
    SecondSlot(usize),
}
