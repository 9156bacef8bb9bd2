//! An image of a catalogue, and the architecture for which it is chosen.

use std::fmt;

use catalogue::{Product, Remote};
use host::Error;

/// An image of a catalogue, with everything that is needed to download it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The remote of the image.
    pub remote: Remote,
    /// The name that the user gave, without the remote.
    pub word: String,
    /// The product, with its newest version.
    pub product: Product,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.remote.name, self.word)
    }
}

/// Returns the architecture of images of a remote: the wanted one, else that of the remote, else
/// that of the host.
pub(super) fn architecture(remote: &Remote, wanted: Option<&str>) -> String {
    let own = || {
        let name = rustix::system::uname();
        let machine = name.machine().to_string_lossy();
        catalogue::architecture::canonical(&machine).to_owned()
    };
    match wanted.or(remote.architecture.as_deref()) {
        Some(name) => catalogue::architecture::canonical(name).to_owned(),
        None => own(),
    }
}

/// Returns an error with a text.
pub(super) fn refused(text: String) -> Error {
    Error::Refused(text)
}
