//! The result of a verb.

/// The result of a verb that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The verb succeeded.
    Done,
    /// The verb was done, and the remarks are for the user.
    Remarks(Vec<String>),
    /// The zone already was in the requested state.
    Already(&'static str),
    /// The verb was only shown, not done (`-n`). The text is the printed plan.
    Planned(String),
}

impl Outcome {
    /// Returns the outcome of a verb that was done, with remarks for the user.
    pub fn with_remarks(remarks: impl IntoIterator<Item = String>) -> Self {
        let remarks: Vec<String> = remarks.into_iter().collect();
        match remarks.is_empty() {
            true => Self::Done,
            false => Self::Remarks(remarks),
        }
    }
}

/// An error of any crate, which a step of a plan returns.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;
