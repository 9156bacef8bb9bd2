//! Describes a mounted tree.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::check::Tree;

/// Returns a description of each object in a tree, by its path.
pub fn of(root: &Path) -> Tree {
    let mut tree = Tree::new();
    tree.insert(b"/".to_vec(), describe(root));
    visit(root, root, &mut tree);
    tree
}

fn visit(root: &Path, folder: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let inner = path.strip_prefix(root).unwrap().as_os_str().as_bytes();
        tree.insert([b"/", inner].concat(), describe(&path));
        if path.is_dir() && !path.is_symlink() {
            visit(root, &path, tree);
        }
    }
}

fn describe(path: &Path) -> String {
    let look = fs::symlink_metadata(path).unwrap();
    let kind = look.file_type();
    let content = if kind.is_file() {
        fs::read(path).unwrap()
    } else if kind.is_symlink() {
        let target = fs::read_link(path).unwrap();
        target.as_os_str().as_bytes().to_vec()
    } else if kind.is_char_device() || kind.is_block_device() {
        look.rdev().to_string().into_bytes()
    } else {
        Vec::new()
    };
    let mut value = [0; 16];
    let length = rustix::fs::lgetxattr(path, "user.test", &mut value[..]).unwrap_or(0);
    format!(
        "{:o} {}:{} {} {:?}",
        look.mode(),
        look.uid(),
        look.gid(),
        content.escape_ascii(),
        &value[..length]
    )
}

/// Gives a folder the attributes of another one.
pub fn copy_look(from: &Path, to: &Path) {
    let look = fs::symlink_metadata(from).unwrap();
    std::os::unix::fs::chown(to, Some(look.uid()), Some(look.gid())).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(look.mode() & 0o7777)).unwrap();
    let mut value = [0; 16];
    if let Ok(length) = rustix::fs::lgetxattr(from, "user.test", &mut value[..]) {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(to, "user.test", &value[..length], flags).unwrap();
    }
}
