//! Sensitivity labels as Solaris Trusted Extensions has them: the labels, their order, and the file
//! `/etc/zones/label_encodings` that gives them names.
//!
//! A label is a classification (a number) and a set of compartments (bits). Label A dominates label
//! B if A's classification is at least B's, and A has every compartment of B. Two labels can be
//! incomparable. The encodings file has the names of classifications and of words; a word stands
//! for compartments. Its format is that of "Compartmented Mode Workstation Labeling: Encodings
//! Format", which Oracle documents for label_encodings(5).
//!
//! This crate is pure: it reads text and no file.
//!
//! | file | holds |
//! |---|---|
//! | `label` | labels, their order and their hexadecimal form |
//! | `encodings` | the names, and the rules of valid labels |
//! | `text` | labels from text and as text |
//! | `analysis` | a description of an encodings file, and remarks on it |
//! | `read` | the reader of the encodings file |

mod analysis;
mod encodings;
mod error;
mod label;
mod read;
mod set;
mod text;

pub use analysis::Remark;
pub use encodings::Encodings;
pub use error::{BadEncodings, BadLabel, Problem, Reason};
pub use label::{Label, Relation};
pub use read::MAX_FILE_BYTES;
pub use text::MAX_LABEL_BYTES;
