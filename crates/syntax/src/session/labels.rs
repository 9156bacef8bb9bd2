//! The sensitivity label of the zone.

use model::config::LABEL;

use super::{Backing, Console, Done, Session, chain};

/// Maximum number of zones that a message names.
const MAX_NAMED: usize = 20;

impl<B: Backing, C: Console> Session<B, C> {
    /// Returns the stored form of a label that the user typed.
    pub(super) fn label(&mut self, text: &str) -> Done<String> {
        if text.is_empty() {
            return Ok(String::new());
        }
        match self.backing.label(text) {
            Ok(label) => Ok(label),
            Err(error) => {
                let text = format!("{LABEL}: {}", chain(&error));
                self.refuse(&text)
            }
        }
    }

    /// Refuses the first label of a host, because zones without a label do not boot beside it.
    pub(super) fn check_first_label(&mut self, label: &str) -> Done {
        let config = self.config()?;
        let (zone, has_label) = (config.name().clone(), config.label().is_some());
        if has_label || label.is_empty() {
            return Ok(());
        }
        let zones = match self.backing.unlabeled(&zone) {
            Ok(zones) => zones,
            Err(error) => return self.refuse(&chain(&error)),
        };
        if zones.is_empty() {
            return Ok(());
        }
        let mut names: Vec<&str> = zones.iter().map(|one| one.as_str()).collect();
        let more = names.len().saturating_sub(MAX_NAMED);
        names.truncate(MAX_NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.refuse(&format!(
            "{LABEL}: this is the first label of the host. Zones without a label would no longer \
             boot: {}{more}. To set it nevertheless, type set -F {LABEL}=...",
            names.join(", ")
        ))
    }

    /// Replaces the stored form of the label in the output of `info` with its text.
    pub(super) fn with_label_text(&mut self, text: String) -> String {
        let label = self.config.as_ref().and_then(|config| config.label());
        let named = label.and_then(|label| Some((label, self.backing.label_text(label)?)));
        match named {
            Some((label, name)) => text.replacen(
                &format!("{LABEL}: {label}\n"),
                &format!("{LABEL}: {name}\n"),
                1,
            ),
            None => text,
        }
    }
}
