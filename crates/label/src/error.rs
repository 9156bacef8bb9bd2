//! The errors of labels and of the encodings file.

/// Maximum number of characters of a bad text that a message shows.
const MAX_SHOWN: usize = 80;

/// Shortens a text and escapes its control characters, so that a message can show it.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown.escape_debug().to_string()
}

/// A text that is no label, or a label that is not valid here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label '{label}': {reason}")]
pub struct BadLabel {
    label: String,
    /// The reason for which the label is refused.
    pub reason: Reason,
}

impl BadLabel {
    pub(crate) fn new(label: &str, reason: Reason) -> Self {
        Self {
            label: shown(label),
            reason,
        }
    }
}

/// The reason for which a label is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The text is not a label in hexadecimal.
    #[error("it is not a label in hexadecimal, such as 0x0004-08-68")]
    Hex,
    /// The text is empty, is too long, or has characters that cannot be printed.
    #[error("a label is a line of 1 to {} bytes", crate::text::MAX_LABEL_BYTES)]
    Text,
    /// The text does not begin with a classification.
    #[error("it begins with no classification; known are {known}")]
    Classification {
        /// The names of the classifications, in the order of their values.
        known: String,
    },
    /// The label's classification has no name.
    #[error("classification {0} is not in the encodings")]
    Value(u16),
    /// A word is not in the encodings.
    #[error("unknown word '{word}'{}", did_you_mean(.near))]
    Word {
        /// The rest of the label from the unknown word on.
        word: String,
        /// A known word that is written almost like this one.
        near: Option<String>,
    },
    /// The label has compartments for which the encodings have no word.
    #[error("no word stands for its compartments {0}")]
    Compartments(String),
    /// A word is not of the label's classification.
    #[error("word '{word}' is outside its classifications: it needs {minimum} to {maximum}")]
    Class {
        /// The name of the word.
        word: String,
        /// The lowest classification of the word.
        minimum: String,
        /// The highest classification of the word.
        maximum: String,
    },
    /// A word needs another word in the same label.
    #[error("word '{0}' requires word '{1}' (REQUIRED COMBINATIONS)")]
    Required(String, String),
    /// Two words cannot be in one label.
    #[error("words '{0}' and '{1}' cannot be together (COMBINATION CONSTRAINTS)")]
    Constraint(String, String),
    /// The label is valid, but the administrator does not allow users to have it.
    #[error("it is outside the accreditation range")]
    NotAccredited,
}

fn did_you_mean(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// An encodings file with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label_encodings line {line}: {problem}")]
pub struct BadEncodings {
    /// The number of the line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: Box<Problem>,
}

pub(crate) fn at(line: usize, problem: Problem) -> BadEncodings {
    BadEncodings {
        line,
        problem: Box::new(problem),
    }
}

/// The problem of an encodings file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file is too large.
    #[error("the file has more than {} KiB", crate::MAX_FILE_BYTES >> 10)]
    TooLarge,
    /// A line has characters other than text.
    #[error("a character that cannot be printed")]
    NotText,
    /// A section does not stand in its place.
    #[error("expected section {expected}, found {found}")]
    Section {
        /// The section that stands here in a valid file.
        expected: &'static str,
        /// The text that stands here.
        found: String,
    },
    /// The section does not have such a keyword.
    #[error("unknown keyword '{found}' in section {section}{}", did_you_mean(.near))]
    Keyword {
        /// The section.
        section: &'static str,
        /// The text that stands here.
        found: String,
        /// A keyword of this section that is written almost like this one.
        near: Option<String>,
    },
    /// A keyword has no legal value.
    #[error("{keyword} '{value}' is not {expected}")]
    Value {
        /// The keyword.
        keyword: &'static str,
        /// The value.
        value: String,
        /// The values that are legal.
        expected: &'static str,
    },
    /// An entry lacks a keyword.
    #[error("'{name}' has no {keyword}")]
    Missing {
        /// The name of the entry.
        name: String,
        /// The keyword that is missing.
        keyword: &'static str,
    },
    /// A name or value stands twice.
    #[error("'{0}' stands here a second time")]
    Twice(String),
    /// A name is used that no line before has.
    #[error("there is no {kind} '{name}'")]
    Unknown {
        /// The kind of the name.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The section has too many entries.
    #[error("section {section} has more than {limit} entries")]
    TooMany {
        /// The section.
        section: &'static str,
        /// The maximum number of entries.
        limit: usize,
    },
    /// An entry has too many names.
    #[error("'{name}' has more than {limit} names")]
    Names {
        /// The first name of the entry.
        name: String,
        /// The maximum number of names.
        limit: usize,
    },
    /// The section has no entry, and needs one.
    #[error("section {0} has no entry")]
    Empty(&'static str),
    /// A label of the file is not valid.
    #[error(transparent)]
    Label(#[from] BadLabel),
}
