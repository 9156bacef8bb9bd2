//! The result of a change of controls.

use model::controls::Control;
use serde::{Deserialize, Serialize};

/// A control after it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The control.
    pub control: Control,
    /// The number it was to have.
    pub requested: u64,
    /// The number that the kernel says it has; none is no limit.
    pub effective: Option<u64>,
}

impl Applied {
    /// Returns true if the effective value is the wanted one; the kernel rounds sizes
    /// down to pages.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let page = if self.control.is_size() { 1 << 16 } else { 1 };
        self.effective
            .and_then(|effective| self.requested.checked_sub(effective))
            .is_some_and(|less| less < page)
    }
}

/// Something that Linux does otherwise than Solaris.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Of which control.
    pub control: Control,
    /// The text.
    pub text: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.control, self.text)
    }
}

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Every control that is set now, with the value that is effective. Of
    /// max-processes beside max-lwps there is none.
    pub applied: Vec<Applied>,
    /// Settings with no or another effect on Linux.
    pub warnings: Vec<Warning>,
}

impl Changed {
    /// All remarks for the user who set these controls: differences of Linux, and values
    /// that differ from the wanted ones.
    pub fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let told = |control| self.warnings.iter().any(|one| one.control == control);
        let inexact = self
            .applied
            .iter()
            .filter(move |one| !one.is_exact() && !told(one.control))
            .map(|one| match one.effective {
                Some(number) => format!(
                    "{}: {} was asked for, {} is in force",
                    one.control,
                    one.control.show(one.requested),
                    one.control.show(number)
                ),
                None => format!(
                    "{}: {} was asked for, there is no limit in force",
                    one.control,
                    one.control.show(one.requested)
                ),
            });
        self.warnings.iter().map(ToString::to_string).chain(inexact)
    }

    /// Adds the changes of another result.
    pub fn extend(&mut self, other: Self) {
        self.applied.extend(other.applied);
        self.warnings.extend(other.warnings);
    }
}
