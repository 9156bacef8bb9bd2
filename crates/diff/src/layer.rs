//! One layer: its entries, and the marks that the kernel's overlay left in it.

use std::ops::ControlFlow;

use rustix::io::Errno;

use crate::change::{Kind, What};

/// Maximum length of a name in a folder, in bytes (NAME_MAX).
const MAX_NAME_BYTES: usize = 255;

/// The effect of a folder on the layers below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// The folder continues under its own name.
    #[default]
    None,
    /// The folder does not continue.
    Opaque,
    /// The folder continues under this name, in the same folder.
    Name(Vec<u8>),
    /// The folder continues under this path, which begins with a slash.
    Path(Vec<u8>),
}

/// Parses the attribute `trusted.overlay.redirect`. Returns `None` for a value that the kernel never
/// writes: an empty name, `.` or `..`, or a relative path with a slash.
#[must_use]
pub fn redirect(value: &[u8]) -> Option<Mark> {
    let is_name = |name: &[u8]| {
        let legal = !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
        legal && name.len() <= MAX_NAME_BYTES
    };
    match value.strip_prefix(b"/") {
        Some(path) => path
            .split(|&byte| byte == b'/')
            .all(is_name)
            .then(|| Mark::Path(value.to_vec())),
        None => (is_name(value) && !value.contains(&b'/')).then(|| Mark::Name(value.to_vec())),
    }
}

/// An entry of a folder in one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The type; `None` for a whiteout, which hides this name of the layers below.
    pub kind: Option<Kind>,
    /// The numbers of the file system and of the inode.
    pub id: (u64, u64),
    pub mode: u32,
    pub owner: (u32, u32),
    pub device: u64,
    pub size: u64,
    /// The time of the last change of the inode, in seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// Reads the names of folders.
pub(crate) trait Lister {
    /// An open folder.
    type Folder: Clone;

    /// Passes each name of a folder to `each`, with false if it is certainly no folder.
    fn names(
        &self,
        at: &Self::Folder,
        each: &mut dyn FnMut(&[u8], bool) -> ControlFlow<()>,
    ) -> Result<(), Errno>;
}

/// Reads layers.
pub(crate) trait Reader: Lister {
    /// Opens the root of a layer. With `marks`, the layer is part of an overlay.
    fn root(&self, layer: usize, marks: bool) -> Self::Folder;

    /// Returns an entry, or `None` if no entry has this name.
    fn entry(&self, at: &Self::Folder, name: &[u8]) -> Result<Option<Entry>, Errno>;

    /// Opens a folder. Returns `None` if it was replaced or removed since it was listed.
    fn open(
        &self,
        at: &Self::Folder,
        name: &[u8],
        listed: &Entry,
    ) -> Result<Option<Self::Folder>, Errno>;

    /// Returns the mark of a folder.
    fn mark(&self, at: &Self::Folder) -> Mark;

    /// Compares two entries of the same type that are no folders.
    fn compare(
        &self,
        before: (&Self::Folder, &[u8], &Entry),
        after: (&Self::Folder, &[u8], &Entry),
    ) -> Result<What, Errno>;

    /// Compares the attributes of two folders.
    fn compare_folders(&self, before: &Self::Folder, after: &Self::Folder) -> Result<What, Errno>;
}

/// Compares the attributes in two entries.
pub(crate) fn listed(before: &Entry, after: &Entry) -> What {
    What {
        owner: before.owner != after.owner,
        mode: before.mode & 0o7777 != after.mode & 0o7777,
        ..What::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_redirect_of_any_bytes_leads_to_names_below_the_root(value in prop::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), Just(0), any::<u8>()],
            0..12,
        )) {
            let is_name = |name: &[u8]| {
                !name.is_empty() && name != b"." && name != b".." && !name.contains(&0)
            };
            match redirect(&value) {
                Some(Mark::Name(name)) => prop_assert!(is_name(&name) && !name.contains(&b'/')),
                Some(Mark::Path(path)) => {
                    prop_assert!(path[0] == b'/' && path[1..].split(|&byte| byte == b'/').all(is_name));
                }
                other => prop_assert_eq!(other, None),
            }
        }
    }

    #[test]
    fn only_redirects_of_the_kernel_are_followed() {
        assert_eq!(redirect(b"apt"), Some(Mark::Name(b"apt".to_vec())));
        assert_eq!(redirect(b"a b\n"), Some(Mark::Name(b"a b\n".to_vec())));
        assert_eq!(redirect(b"/etc/a"), Some(Mark::Path(b"/etc/a".to_vec())));
        for wrong in [
            &b""[..],
            b"/",
            b"//",
            b"/a//b",
            b"/a/",
            b"a/b",
            b"..",
            b".",
            b"/../etc",
            b"/a/./b",
            b"a\0b",
            &[b'x'; 256],
        ] {
            assert_eq!(redirect(wrong), None, "{wrong:?}");
        }
    }
}
