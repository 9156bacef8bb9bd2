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
//! | `chosen` | an image of a catalogue |
//! | `cache` | `/var/lib/zones/catalogues`: the last catalogue of each remote |
//! | `refresh` | downloads a catalogue, and refuses one that is older than the last |
//! | `signature` | checks signatures with gpgv |
//! | `web` | calls zonefetch for one file |
//! | `resolve` | the image that a name means |
//! | `download` | downloads an image, checks it, and unpacks it |

mod cache;
mod chosen;
mod download;
mod refresh;
pub mod remotes;
mod resolve;
mod signature;
mod web;

use std::path::PathBuf;

use host::Host;

pub use chosen::Chosen;
pub(super) use download::import;
pub use refresh::{Age, refresh};
pub use resolve::{NONE_CONFIGURED, Row, resolve, search};

/// Returns the folders in which this module writes files.
pub(crate) fn folders(host: &Host) -> [PathBuf; 2] {
    [remotes::folder(host), cache::folder(host)]
}
