//! Parses catalogues of images: the simple streams that servers of Incus and LXD publish, the
//! configuration of a remote, and the names of images.
//!
//! All documents come from strangers, also if they are signed: the key of a mirror may be stolen.
//! The size of a document is limited before the document is read, and every name, path, size and
//! digest is checked here, once. This crate uses no network (`zonefetch` does), runs no program and
//! reads no file.
//!
//! | file | holds |
//! |---|---|
//! | [`remote`] | the configuration of a remote, one file for each |
//! | [`url`] | addresses, and paths below an address |
//! | [`signed`] | clear-signed documents, and the status lines of gpgv |
//! | [`date`] | times in documents |
//! | [`stream`] | `index:1.0` and `products:1.0` documents |
//! | [`product`] | the newest version of a product |
//! | [`names`] | the product that a name means |
//! | [`architecture`] | names of processor architectures |

pub mod architecture;
pub mod date;
pub mod names;
pub mod product;
pub mod remote;
pub mod signed;
pub mod stream;
pub mod url;

pub use names::{Found, Missing, Shelf};
pub use product::{File, Form, Product, Root};
pub use remote::{BadRemote, Protocol, Remote, Trust};
pub use stream::{Index, Products};
pub use url::Base;

/// Maximum size of an index, in bytes. Public servers have less than 1 MiB.
pub const MAX_INDEX: u64 = 4 << 20;

/// Maximum size of a document of products, in bytes. Public servers have less than 12 MiB.
pub const MAX_PRODUCTS: u64 = 32 << 20;

/// Maximum size of a detached signature, in bytes.
pub const MAX_SIGNATURE: u64 = 64 << 10;

/// Maximum number of documents of products that one index names.
pub const MAX_DOCUMENTS: usize = 16;

/// Maximum number of products in one document. The largest public servers have about 1,000.
pub const MAX_PRODUCT_COUNT: usize = 20_000;

/// Maximum length of the name of a product, an alias or a version, in bytes.
pub const MAX_NAME: usize = 200;

/// Maximum size of the root of an image, in bytes.
pub const MAX_ROOT: u64 = 1 << 38;

/// Maximum size of the metadata of an image, in bytes.
pub const MAX_METADATA: u64 = 4 << 20;

/// The reason why a document of a catalogue cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{document}: {problem}")]
pub struct Error {
    /// The path of the document.
    pub document: String,
    /// The description of the problem.
    pub problem: String,
}

impl Error {
    pub(crate) fn new(document: &str, problem: impl Into<String>) -> Self {
        Self {
            document: oci::shown(document),
            problem: problem.into(),
        }
    }
}

/// Returns true if a text may be the name of a product, an alias or a version: printable ASCII
/// without blanks, commas, quotes and backslashes.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b",'\"\\`".contains(&byte))
}
