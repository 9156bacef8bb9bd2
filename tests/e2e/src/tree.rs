//! Compares and changes file trees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;

/// The properties of each file of a tree, by path.
pub type Face = BTreeMap<PathBuf, String>;

/// Returns all properties of the files of a tree: type, mode, owner, times, content, extended
/// attributes, and which names are hard links of one file.
///
/// # Panics
/// Fails if the tree cannot be read, for example while another process changes it.
#[must_use]
pub fn face(root: &Path) -> Face {
    let mut all = BTreeMap::new();
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut names = vec![PathBuf::new()];
    while let Some(name) = names.pop() {
        let path = root.join(&name);
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let mut text = format!(
            "{:o} {}:{} {}.{:09} {}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.rdev()
        );
        if kind.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            let mut inner: Vec<PathBuf> = entries
                .map(|entry| name.join(entry.unwrap().file_name()))
                .collect();
            // Sorted, so that "the first name of a file" is the same each time.
            inner.sort_by(|a, b| b.cmp(a));
            names.extend(inner);
        } else {
            // The link count is left out: an overlay also counts names that an upper layer removed.
            let one = first.entry(meta.ino()).or_insert_with(|| name.clone());
            text.push_str(&format!(" like {}", one.display()));
        }
        if kind.is_symlink() {
            text.push_str(&format!(" -> {}", fs::read_link(&path).unwrap().display()));
        } else if kind.is_file() {
            text.push_str(&format!(
                " {} {:?}",
                meta.len(),
                sum(&fs::read(&path).unwrap())
            ));
        }
        if kind.is_file() || kind.is_dir() {
            let mut list = vec![0; 4096];
            let length = rustix::fs::listxattr(&path, &mut list).unwrap();
            for attribute in list[..length].split(|byte| *byte == 0) {
                let attribute = String::from_utf8_lossy(attribute).into_owned();
                if attribute.is_empty() {
                    continue;
                }
                let mut value = vec![0; 4096];
                let length = rustix::fs::getxattr(&path, &attribute, &mut value).unwrap();
                text.push_str(&format!(" {attribute}={:?}", &value[..length]));
            }
        }
        all.insert(name, text);
    }
    all
}

/// Compares the properties of two trees.
///
/// # Panics
/// Fails if they differ.
#[track_caller]
pub fn assert_same(before: &Face, after: &Face) {
    for (name, text) in before {
        assert_eq!(after.get(name), Some(text), "{}", name.display());
    }
    let new: Vec<_> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .collect();
    assert!(new.is_empty(), "{new:?}");
}

/// FNV-1a: sufficient to detect a difference.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Changes the files in a zone's `var/tree`, one step per layer: each step changes files of lower
/// layers.
///
/// # Panics
/// Fails if a file cannot be changed.
pub fn change(root: &Path, step: usize) {
    let at = |name: &str| root.join("var/tree").join(name);
    let set = |name: &str, attribute: &str, value: &[u8]| {
        rustix::fs::setxattr(at(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    match step {
        0 => {
            fs::create_dir_all(at("a/b/c")).unwrap();
            fs::create_dir_all(at("gone/inner")).unwrap();
            for name in ["a/f", "a/b/g", "a/b/c/h", "gone/inner/file", "cap"] {
                fs::write(at(name), name).unwrap();
            }
            symlink("a/f", at("link")).unwrap();
            fs::hard_link(at("a/f"), at("same1")).unwrap();
            fs::hard_link(at("a/f"), at("same2")).unwrap();
            lchown(at("link"), Some(1000), Some(1001)).unwrap();
            lchown(at("a/b"), Some(5), Some(6)).unwrap();
            fs::set_permissions(at("a/b"), fs::Permissions::from_mode(0o2770)).unwrap();
            // cap_net_raw=ep, revision 2.
            let capability = [
                1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ];
            set("cap", "security.capability", &capability);
        }
        1 => {
            fs::remove_dir_all(at("gone")).unwrap();
            fs::rename(at("a/b"), at("moved")).unwrap();
            set("moved", "user.colour", b"red");
        }
        2 => {
            fs::create_dir(at("gone")).unwrap();
            fs::write(at("gone/new"), "new").unwrap();
            fs::rename(at("moved/c"), at("a/b")).unwrap();
        }
        3 => {
            fs::set_permissions(at("a/f"), fs::Permissions::from_mode(0o4755)).unwrap();
            fs::remove_file(at("link")).unwrap();
            fs::create_dir(at("link")).unwrap();
            fs::hard_link(at("gone/new"), at("link/new")).unwrap();
        }
        4 => {
            fs::rename(at("a"), at("link/a")).unwrap();
            fs::write(at("a"), "a file now").unwrap();
            let file = fs::File::options().write(true).open(at("moved/g")).unwrap();
            file.set_len(1 << 20).unwrap();
        }
        5 => {
            fs::remove_file(at("a")).unwrap();
            fs::create_dir(at("a")).unwrap();
            set("a", "user.colour", b"blue");
            fs::remove_file(at("gone/new")).unwrap();
        }
        _ => {
            let name = format!("step{step}");
            fs::write(at(&name), &name).unwrap();
            fs::hard_link(at(&name), at(&format!("{name}-same"))).unwrap();
            fs::File::open(at("a"))
                .unwrap()
                .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(step as u64))
                .unwrap();
        }
    }
}
