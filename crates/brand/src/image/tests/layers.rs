//! Tests that layers of container images become layers of overlay.

use super::*;

/// Unpacks stacked layers, each with the marks of overlay.
struct Layers {
    dir: tempfile::TempDir,
    trees: Vec<PathBuf>,
}

impl Layers {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        Some(Self {
            dir,
            trees: Vec::new(),
        })
    }

    fn add(&mut self, members: &[Vec<u8>]) -> Result<Installed, String> {
        let number = self.trees.len();
        let tree = self.dir.path().join(format!("tree{number}"));
        fs::create_dir(&tree).unwrap();
        let file = self.dir.path().join("archive");
        let bytes = archive(members);
        fs::write(&file, &bytes).unwrap();
        let lowers: Vec<PathBuf> = self.trees.iter().rev().cloned().collect();
        let open = fs::File::open(&file).unwrap();
        let done = unpack_layer(&tree, &lowers, open, &file, &mut |_| {});
        let (done, digest) = done.map_err(|error| error.to_string())?;
        assert_eq!(digest, Digest::of(&bytes));
        self.trees.push(tree);
        Ok(done)
    }

    fn top(&self, name: &str) -> PathBuf {
        self.trees.last().unwrap().join(name)
    }

    fn is_whiteout(&self, name: &str) -> bool {
        let meta = self.top(name).symlink_metadata();
        meta.is_ok_and(|meta| meta.file_type().is_char_device() && meta.rdev() == 0)
    }

    fn is_opaque(&self, name: &str) -> bool {
        let mut value = [0; 8];
        rustix::fs::getxattr(self.top(name), "trusted.overlay.opaque", &mut value[..])
            .is_ok_and(|length| &value[..length] == b"y")
    }
}

#[test]
fn whiteouts_hide_what_lies_below() {
    let Some(mut layers) = Layers::new() else {
        return;
    };
    layers
        .add(&[
            dir("etc"),
            file("etc/a", "a"),
            file("etc/b", "b"),
            dir("opt"),
            file("opt/x", "x"),
            file("new", ""),
        ])
        .unwrap();
    layers
        .add(&[
            file("etc/.wh.a", ""),
            // The mark may be before or after the object that replaces the hidden one.
            file(".wh.opt", ""),
            dir("opt"),
            file("opt/y", "y"),
            file("etc/.wh.nothing", ""),
            file("new", "newer"),
            file(".wh.new", ""),
        ])
        .unwrap();
    assert!(layers.is_whiteout("etc/a"));
    assert!(layers.is_opaque("opt") && layers.top("opt/y").exists());
    assert!(layers.top("etc/nothing").symlink_metadata().is_err());
    assert_eq!(fs::read_to_string(layers.top("new")).unwrap(), "newer");
    // A hidden file does not exist for the next layer.
    let error = layers.add(&[member(b'1', b"etc/c", b"etc/a", 0o644, b"")]);
    assert!(error.unwrap_err().contains("a hard link to a missing file"));
}

#[test]
fn opaque_folders_hide_all_that_lies_below() {
    let Some(mut layers) = Layers::new() else {
        return;
    };
    layers
        .add(&[
            dir("etc"),
            dir("etc/d"),
            file("etc/d/a", "a"),
            dir("var"),
            file("var/b", "b"),
        ])
        .unwrap();
    layers
        .add(&[
            file("etc/d/.wh..wh..opq", ""),
            file("etc/d/new", "n"),
            file("none/.wh..wh..opq", ""),
        ])
        .unwrap();
    assert!(layers.is_opaque("etc/d") && !layers.is_opaque("etc"));
    assert!(!layers.top("none").exists());
    layers
        .add(&[file("var/c", "c"), file(".wh..wh..opq", "")])
        .unwrap();
    assert!(layers.is_whiteout("etc") && layers.is_opaque("var"));
}

#[test]
fn marks_of_overlay_itself_do_not_pass() {
    let Some(mut layers) = Layers::new() else {
        return;
    };
    layers.add(&[dir("etc"), file("etc/a", "a")]).unwrap();
    let done = layers
        .add(&[member(b'3', b"etc/a", b"", 0, b""), dir("etc")])
        .unwrap();
    assert_eq!(done.left_out, 1);
    assert!(!layers.is_whiteout("etc/a") && !layers.is_opaque("etc"));
    for bad in [".wh.", "etc/.wh..", "etc/.wh..."] {
        let error = layers.add(&[file(bad, "")]);
        assert!(error.unwrap_err().contains("hides no name"), "{bad}");
        fs::remove_dir_all(layers.dir.path().join("tree2")).unwrap();
    }
}

#[test]
fn hard_links_of_a_layer_reach_files_of_lower_layers() {
    let Some(mut layers) = Layers::new() else {
        return;
    };
    let link = |name: &str, target: &str| member(b'2', name.as_bytes(), target.as_bytes(), 0, b"");
    layers
        .add(&[
            member(b'5', b"srv", b"", 0o2750, b""),
            file("srv/a", "content"),
            dir("usr"),
            dir("usr/lib"),
            link("lib", "usr/lib"),
            link("abs", "/usr/lib"),
            link("out", "../../../../usr"),
            link("loop", "loop"),
        ])
        .unwrap();
    layers
        .add(&[
            file("srv/b", "b"),
            // These names lead through links of the layer below.
            file("lib/x", "x"),
            file("abs/y", "y"),
            file("out/z", "z"),
            // This hard link is one more name of a file of the layer below.
            member(b'1', b"hard", b"srv/a", 0o644, b""),
        ])
        .unwrap();
    assert_eq!(
        layers.top("srv").metadata().unwrap().mode() & 0o7777,
        0o2750
    );
    for name in ["usr/lib/x", "usr/lib/y", "usr/z"] {
        assert!(layers.top(name).exists(), "{name}");
    }
    assert!(!layers.top("lib").exists());
    assert_eq!(fs::read_to_string(layers.top("hard")).unwrap(), "content");
    let ino = |name: &str| layers.top(name).metadata().unwrap().ino();
    assert_eq!(ino("hard"), ino("srv/a"));
    for (members, why) in [
        (vec![file("loop/x", "")], "symbolic link"),
        (vec![link("own", "usr"), file("own/x", "")], "symbolic link"),
        (vec![member(b'1', b"x", b"../outside", 0, b"")], "'..'"),
    ] {
        let error = layers.add(&members).unwrap_err();
        assert!(error.contains(why), "{error}");
        fs::remove_dir_all(layers.dir.path().join("tree2")).unwrap();
    }
}
