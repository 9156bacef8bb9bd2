//! The kinds of content of a stream, and the extended attributes that each keeps.

use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// The kind of content of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A root from an untrusted source.
    Root,
    /// A layer or top of a zone on another host: with whiteouts, and with the attributes of overlay
    /// that hide or move folders below.
    Layer,
}

impl Content {
    /// Returns true if this kind of content keeps an extended attribute.
    #[must_use]
    pub fn keeps(self, name: &str, value: &[u8]) -> bool {
        match self {
            Self::Root => is_allowed_attribute(name),
            Self::Layer => match name {
                "trusted.overlay.opaque" => matches!(value, b"y" | b"x"),
                "trusted.overlay.redirect" => is_redirect(value),
                "system.posix_acl_access" | "system.posix_acl_default" => true,
                name => is_allowed_attribute(name),
            },
        }
    }
}

/// Returns true for a legal former path of a folder: a path from the root of the layers, or a name.
fn is_redirect(value: &[u8]) -> bool {
    let path = value.strip_suffix(b"\0").unwrap_or(value);
    let (path, whole) = match path.strip_prefix(b"/") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let mut parts = path.split(|&byte| byte == b'/');
    let legal = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
    let count = path.split(|&byte| byte == b'/').count();
    value.len() <= 4096 && parts.all(legal) && (whole || count == 1)
}

/// Returns true for attributes that have the same meaning in a zone. Attributes of overlay would
/// change the merged view. `security.*` attributes, except capabilities, belong to the host. ACLs
/// and all others are not kept.
pub(super) fn is_allowed_attribute(name: &str) -> bool {
    name == "security.capability"
        || name
            .strip_prefix("user.")
            .is_some_and(|rest| rest != "overlay" && !rest.starts_with("overlay."))
}

/// Sets an attribute. A file system without attributes is not an error.
pub(super) fn set_attribute(file: impl AsFd, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}
