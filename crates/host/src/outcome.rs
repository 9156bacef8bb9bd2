//! The result of a verb.

/// The result of a verb that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was done, and this is to be told about it.
    Remarks(Vec<String>),
    /// It was so already.
    Already(&'static str),
    /// Only shown, not done (`-n`): the plan as text.
    Planned(String),
}

impl Outcome {
    /// Makes the outcome of a verb that was done, with remarks for the user.
    pub fn with_remarks(remarks: impl IntoIterator<Item = String>) -> Self {
        let remarks: Vec<String> = remarks.into_iter().collect();
        match remarks.is_empty() {
            true => Self::Done,
            false => Self::Remarks(remarks),
        }
    }
}

/// An error of any crate, as the steps of a plan return it.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;
