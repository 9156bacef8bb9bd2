//! The problems in the text of a stored file.

use model::state::BadState;
use model::{State, config, name::BadName, uuid::BadUuid, verify};
use quick_xml::events::attributes::AttrError;

/// The kind of an unknown name in an XML file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The name is an element below the zone element, or the outermost element.
    Element,
    /// The name is an attribute of the given element.
    AttributeOf(&'static str),
    /// The name is an element inside the given element.
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

/// The problem in a file that is damaged, or that another program wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file is larger than the maximum size of such a file.
    #[error("larger than {max} bytes")]
    TooLarge {
        /// The maximum size of the file, in bytes.
        max: u64,
    },
    /// The file is not UTF-8 text.
    #[error("not UTF-8")]
    NotUtf8,
    /// The line with the format does not have a number.
    #[error("the format is not a number")]
    FormatNumber,
    /// The file is not JSON, or has other fields than expected.
    #[error(transparent)]
    Json(#[from] serde_json::Error),

    /// The file is not XML.
    #[error(transparent)]
    Xml(#[from] quick_xml::Error),
    /// An attribute is not well-formed XML.
    #[error(transparent)]
    Attribute(#[from] AttrError),
    /// The file has a document type with an internal subset, which could define entities.
    #[error("a document type with an internal subset")]
    InternalSubset,
    /// The file has text between its elements, where only elements are allowed.
    #[error("text between the elements")]
    Text,
    /// The file has no zone element.
    #[error("no zone element")]
    NoZone,
    /// The file has an element or attribute that no table has.
    #[error("unknown {part}: '{name}'")]
    Unknown {
        /// The kind of the unknown name.
        part: Part,
        /// The unknown name, escaped for a terminal.
        name: String,
    },
    /// The file of a zone contains the name of another zone.
    #[error("it is the configuration of '{0}'")]
    OfAnotherZone(String),
    /// The file has a format that only newer programs know.
    #[error("it has format {0}, and these programs know format 1: use newer programs")]
    Format(String),
    /// The zone element has no name.
    #[error("the zone has no name")]
    NoName,
    /// The file has the end tag of an element without its start tag.
    #[error("more ends than elements")]
    ExtraEnd,
    /// The file ends inside this element.
    #[error("the {0} element has no end")]
    NoEnd(&'static str),
    /// The file ends inside an element that is skipped.
    #[error("an element has no end")]
    SkippedNoEnd,
    /// An element has content although it must be empty.
    #[error("unexpected content in a {0} element")]
    Content(&'static str),
    /// A range has only one of its two ends.
    #[error("{0} has one end of a range")]
    HalfRange(&'static str),
    /// An element must have one given attribute and no others.
    #[error("{element} must have just the attribute {attribute}")]
    OneAttribute {
        /// The name of the element.
        element: &'static str,
        /// The name of the only attribute.
        attribute: &'static str,
    },
    /// An element needs a resource element, and the resource element is missing.
    #[error("{element} without a {resource} element")]
    Alone {
        /// The name of the element.
        element: &'static str,
        /// The name of the missing resource element.
        resource: &'static str,
    },
    /// A property or a resource is not valid in the configuration.
    #[error(transparent)]
    Value(#[from] config::Error),
    /// A resource lacks a property, or its properties contradict each other.
    #[error("{0}")]
    Resource(verify::Problem),

    /// A template or a multilevel port is not valid.
    #[error(transparent)]
    Network(#[from] crate::label_network::parts::BadPart),

    /// The zone name in a manifest is not legal.
    #[error("'{0}' is no zone's name")]
    ZoneName(String),
    /// The version of a manifest is not a number.
    #[error("the version is no number")]
    VersionNumber,
    /// A manifest lists a package without a name.
    #[error("a package without a name")]
    PackageName,
    /// An attribute of a manifest is too long, or has control characters.
    #[error("attribute {0}: not a legal value")]
    Word(&'static str),

    /// A line of the index ends after the zone name.
    #[error("no state")]
    NoState,
    /// A line of the index ends after the state.
    #[error("no zonepath")]
    NoZonepath,
    /// A quotation mark in the index has no second one.
    #[error("a quoted zonepath without an end")]
    OpenQuote,
    /// A line of the index has a word that is no state of a zone.
    #[error(transparent)]
    State(#[from] BadState),
    /// The state in the index is one that only the kernel knows, such as running.
    #[error("{0} is not a state that is stored")]
    StoredState(State),
    /// The slot in the index is not a number.
    #[error("the slot is not a number")]
    SlotNumber,
    /// The slot in the index is too large to have a range of ids.
    #[error("the slot is not below {0}")]
    Slot(u32),
    /// The name in the index is not a legal zone name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The UUID in the index is not a UUID.
    #[error(transparent)]
    Uuid(#[from] BadUuid),
    /// Two lines of the index have the same zone name.
    #[error("a second zone {0}")]
    SecondZone(model::ZoneName),
    /// Two zones have the same slot, and therefore the same range of ids.
    #[error("the zone has the slot of the one in line {0}")]
    SecondSlot(usize),
}
