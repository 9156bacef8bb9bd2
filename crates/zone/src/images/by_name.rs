//! Images by name: the remotes that the administrator has configured, their catalogues, and the
//! images in them.
//!
//! A name that is not the name of an image of this host is looked up in the catalogues of all
//! remotes with simple streams; `remote:name` in one remote. Nothing is configured by default, and
//! these programs name no server by themselves.
//!
//! | file | holds |
//! |---|---|
//! | [`remotes`] | `/etc/zones/catalogues`: one file for each remote |
//! | `cache` | `/var/lib/zones/catalogues`: the last catalogue of each remote |
//! | `refresh` | downloads a catalogue, and refuses one that is older than the last |
//! | `signature` | checks signatures with gpgv |
//! | `web` | calls zonefetch for one file |
//! | `resolve` | the image that a name means |
//! | `download` | downloads an image, checks it, and unpacks it |

mod cache;
mod download;
mod refresh;
pub mod remotes;
mod resolve;
mod signature;
mod web;

use std::fmt;
use std::path::PathBuf;

use catalogue::{Product, Remote};
use host::{Error, Host};

pub(super) use download::import;
pub use refresh::{Age, refresh};
pub use resolve::{NONE_CONFIGURED, Row, resolve, search};

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

/// Returns the folders in which this module writes files.
pub(crate) fn folders(host: &Host) -> [PathBuf; 2] {
    [remotes::folder(host), cache::folder(host)]
}

/// Returns the architecture of images of a remote: the wanted one, else that of the remote, else
/// that of the host.
fn architecture(remote: &Remote, wanted: Option<&str>) -> String {
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

fn refused(text: String) -> Error {
    Error::Refused(text)
}
