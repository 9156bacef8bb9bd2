//! The labels of zones as text, for listings.

use label::Encodings;
use model::ZoneName;

use super::{encodings, in_use, of_zone};
use crate::{Error, Root};

/// The text in place of a label that could not be read.
pub const UNREADABLE: &str = "?";

/// The labels of zones as text, as commands in the global zone list them. The names of labels are
/// read once for all zones.
#[derive(Debug)]
pub struct Shown<'a> {
    /// `None` on a host without labels.
    root: Option<&'a Root>,
    /// `None` if the host has no valid names of labels.
    names: Option<Encodings>,
}

impl<'a> Shown<'a> {
    /// Returns the labels of the zones of a host. On a host without labels, no file is read, here
    /// and later.
    #[must_use]
    pub fn of_host(root: &'a Root) -> Self {
        let root = Some(root).filter(|root| in_use(root));
        let names = root.and_then(|root| encodings(root).ok());
        Self { root, names }
    }

    /// Returns the stored label of a zone as text, or in hexadecimal if the host has no name for
    /// it; `None` if the zone has no label.
    ///
    /// # Errors
    /// Fails if the configuration cannot be read.
    pub fn of_zone(&self, zone: &ZoneName) -> Result<Option<String>, Error> {
        let Some(root) = self.root else {
            return Ok(None);
        };
        let text = |label| match &self.names {
            Some(names) => names.text(label),
            None => label.to_string(),
        };
        Ok(of_zone(root, zone)?.map(text))
    }
}
