//! The result of a change of controls.

use model::controls::Control;
use serde::{Deserialize, Serialize};

/// The result of setting one control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The name of the control.
    pub control: Control,
    /// The requested value.
    pub requested: u64,
    /// The effective value that the kernel reports; `None` means no limit.
    pub effective: Option<u64>,
}

impl Applied {
    /// Returns true if the effective value is the requested one. The kernel rounds sizes down to
    /// pages.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let page = if self.control.is_size() { 1 << 16 } else { 1 };
        self.effective
            .and_then(|effective| self.requested.checked_sub(effective))
            .is_some_and(|less| less < page)
    }
}

/// A difference between Linux and Solaris.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The control with this difference.
    pub control: Control,
    /// The text for the user.
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
    /// Every control that is set now, with its effective value. If max-lwps is set too,
    /// max-processes is not in this list.
    pub applied: Vec<Applied>,
    /// Settings that have no effect, or another effect, on Linux.
    pub warnings: Vec<Warning>,
}

impl Changed {
    /// Returns all remarks for the user who set these controls: differences between Linux and
    /// Solaris, and values that differ from the requested ones.
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
