use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use super::*;

fn parse(words: &[&str]) -> Result<Options, Error> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    Options::parse(&words)
}

#[test]
fn options_name_one_source() {
    assert_eq!(parse(&[]).unwrap().source, None);
    let archive = Some(Source::Archive("/x.tar".into()));
    assert_eq!(parse(&["-a", "/x.tar", "-u"]).unwrap().source, archive);
    assert_eq!(parse(&["-v", "-a/x.tar"]).unwrap().source, archive);
    assert_eq!(
        parse(&["-d", "/x"]).unwrap().source,
        Some(Source::Directory("/x".into()))
    );
}

#[test]
fn wrong_options_are_usage_errors() {
    for words in [
        &["-a"][..],
        &["-a", "x.tar"],
        &["-a", "/x", "-d", "/y"],
        &["-a", "/x", "-a", "/y"],
        &["-q"],
        &["--archive"],
        &["x"],
        &["-"],
        &["-p", "-a", "/x"],
    ] {
        assert!(parse(words).unwrap_err().is_usage(), "{words:?}");
    }
}

#[test]
fn attributes_of_overlay_and_of_the_host_do_not_pass() {
    assert!(is_allowed_attribute("security.capability"));
    assert!(is_allowed_attribute("user.mime_type"));
    for name in [
        "trusted.overlay.opaque",
        "user.overlay.redirect",
        "user.overlay",
        "security.selinux",
        "security.ima",
        "system.posix_acl_access",
    ] {
        assert!(!is_allowed_attribute(name), "{name}");
    }
}

/// One member of a tar archive, made by hand: the library would refuse to.
fn member(kind: u8, name: &[u8], link: &[u8], mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(mode);
    let owner = rustix::process::geteuid().as_raw();
    header.set_uid(owner.into());
    header.set_gid(rustix::process::getegid().as_raw().into());
    header.set_mtime(1_000_000_000);
    header.set_size(content.len() as u64);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &str) -> Vec<u8> {
    member(b'0', name.as_bytes(), b"", 0o644, content.as_bytes())
}

fn dir(name: &str) -> Vec<u8> {
    member(b'5', name.as_bytes(), b"", 0o755, b"")
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// A root between two files that must stay as they are.
struct Trial {
    dir: tempfile::TempDir,
    lines: Vec<String>,
}

impl Trial {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::write(dir.path().join("outside"), "outside").unwrap();
        Self {
            dir,
            lines: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }

    fn unpack_within(&mut self, bytes: &[u8], limits: Limits) -> Result<Installed, Error> {
        let archive = self.dir.path().join("archive");
        fs::write(&archive, bytes).unwrap();
        self.install(&Source::Archive(archive), limits)
    }

    fn install(&mut self, source: &Source, limits: Limits) -> Result<Installed, Error> {
        let root = self.path("");
        let done = install_within(&root, source, limits, &mut |line| {
            self.lines.push(line.to_owned());
        });
        let outside = fs::read_to_string(self.dir.path().join("outside")).unwrap();
        assert_eq!(outside, "outside", "nothing outside the root was touched");
        let mut names: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.retain(|name| name != "archive" && name != "source");
        names.sort();
        assert_eq!(
            names,
            ["outside", "root"],
            "nothing was made beside the root"
        );
        done
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<Installed, Error> {
        self.unpack_within(bytes, LIMITS)
    }
}

fn refusal(bytes: &[u8]) -> String {
    Trial::new().unpack(bytes).unwrap_err().to_string()
}

#[test]
fn a_sound_archive_arrives_whole() {
    let mut trial = Trial::new();
    let bytes = archive(&[
        dir("./"),
        dir("./usr"),
        file("./usr/a", "first"),
        member(b'0', b"usr/setuid", b"", 0o4755, b"x"),
        member(b'1', b"usr/hard", b"./usr/a", 0o644, b""),
        member(b'2', b"bin", b"usr/bin", 0o777, b""),
        member(b'2', b"etc/out", b"../../outside", 0o777, b""),
        member(b'6', b"run/fifo", b"", 0o600, b""),
        member(b'3', b"dev/sda", b"", 0o600, b""),
        member(b'4', b"dev/mem", b"", 0o600, b""),
    ]);
    let done = trial.unpack(&bytes).unwrap();
    assert_eq!((done.files, done.links, done.left_out), (2, 2, 2));
    let usr = trial.path("usr").metadata().unwrap();
    assert_eq!(usr.mtime(), 1_000_000_000);
    let mode = trial
        .path("usr/setuid")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o4755);
    let inode = |name: &str| trial.path(name).metadata().unwrap().ino();
    assert_eq!(inode("usr/a"), inode("usr/hard"));
    assert_eq!(
        fs::read_link(trial.path("etc/out")).unwrap(),
        Path::new("../../outside")
    );
    let fifo = trial.path("run/fifo").symlink_metadata().unwrap();
    assert!(fifo.file_type().is_fifo());
    assert!(!trial.path("dev/sda").exists());
    assert!(
        trial
            .lines
            .iter()
            .any(|line| line.starts_with("Left out 2 device nodes"))
    );
}

#[test]
fn names_that_lead_out_are_refused_by_name() {
    for (name, problem) in [
        ("../outside", "../outside: a name with '..'"),
        ("usr/../../outside", "usr/../../outside: a name with '..'"),
        ("/outside", "/outside: an absolute name"),
    ] {
        let error = refusal(&archive(&[dir("usr"), file(name, "evil")]));
        assert!(error.ends_with(problem), "{error}");
        let mut hard = member(b'1', b"usr/x", name.as_bytes(), 0o644, b"");
        hard.extend(file("usr/y", ""));
        let error = refusal(&archive(&[dir("usr"), hard]));
        assert!(error.ends_with(problem), "{error}");
    }
}

#[test]
fn planted_links_are_not_followed() {
    let link = |name: &str, target: &str| member(b'2', name.as_bytes(), target.as_bytes(), 0, b"");
    // Through a link to the outside, absolute and relative, and to the inside.
    for target in ["/", "..", "usr"] {
        for evil in [
            file("x/outside", "evil"),
            dir("x/y"),
            link("x/outside", "evil"),
            member(b'6', b"x/outside", b"", 0o600, b""),
            member(b'1', b"usr/stolen", b"x/outside", 0o644, b""),
        ] {
            let error = refusal(&archive(&[dir("usr"), link("x", target), evil]));
            assert!(error.contains("symbolic link"), "{error}");
        }
    }
    // Over a link: the link is replaced, not what it leads to.
    let mut trial = Trial::new();
    let bytes = archive(&[
        dir("usr"),
        link("usr/x", "../../outside"),
        file("usr/x", "mine"),
    ]);
    trial.unpack(&bytes).unwrap();
    assert_eq!(fs::read_to_string(trial.path("usr/x")).unwrap(), "mine");
    // A directory over a link would follow it.
    let error = refusal(&archive(&[dir("usr"), link("x", ".."), dir("x")]));
    assert!(error.contains("x: "), "{error}");
    // A hard link to a link is no way out either: it is one more link.
    let hard = member(b'1', b"usr/y", b"usr/x", 0o644, b"");
    let mut trial = Trial::new();
    let bytes = archive(&[dir("usr"), link("usr/x", "/etc/passwd"), hard]);
    trial.unpack(&bytes).unwrap();
    let text = fs::read_link(trial.path("usr/y")).unwrap();
    assert_eq!(text, Path::new("/etc/passwd"));
    let error = refusal(&archive(&[
        dir("usr"),
        member(b'1', b"usr/y", b"usr", 0o644, b""),
    ]));
    assert!(
        error.contains("usr/y: cannot make the hard link"),
        "{error}"
    );
}

#[test]
fn owners_that_no_zone_has_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let owned = |uid: u32, gid: u32| {
        let mut header = tar::Header::new_ustar();
        header.set_path("usr/a").unwrap();
        header.set_uid(uid.into());
        header.set_gid(gid.into());
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        archive(&[dir("usr"), header.as_bytes().to_vec()])
    };
    Trial::new().unpack(&owned(65_535, 65_535)).unwrap();
    for (uid, gid) in [(65_536, 0), (0, 100_000), (0o7_777_777, 0)] {
        let error = refusal(&owned(uid, gid));
        assert!(error.ends_with("a zone has ids up to 65535"), "{error}");
    }
}

#[test]
fn zeros_become_holes() {
    let mut trial = Trial::new();
    let zeros = "\0".repeat(3 << 20);
    let bytes = archive(&[
        dir("usr"),
        file("usr/hole", &zeros),
        file("usr/tail", &(zeros.clone() + "x")),
    ]);
    trial.unpack(&bytes).unwrap();
    for (name, size) in [("usr/hole", 3 << 20), ("usr/tail", (3 << 20) + 1)] {
        let meta = trial.path(name).metadata().unwrap();
        assert_eq!(meta.size(), size);
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    }
    assert_eq!(
        fs::read(trial.path("usr/tail")).unwrap(),
        (zeros + "x").into_bytes()
    );
}

#[test]
fn what_is_no_archive_of_files_is_refused_by_name() {
    for (bytes, why) in [
        (&b"PK\x03\x04...."[..], "a zip archive"),
        (b"!<arch>\n....", "a Debian package"),
        (b"btrfs-stream\0....", "a btrfs stream"),
        (b"........\xac\xcb\xba\xf5\x02\0\0\0....", "a ZFS stream"),
        (b"070707........", "the old form odc"),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(why), "{error}");
    }
}

/// One member of a cpio archive.
fn cpio(name: &str, mode: u32, ino: u32, links: u32, content: &[u8], sum: Option<u32>) -> Vec<u8> {
    let numbers = [
        ino,
        mode,
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        links,
        1_000_000_000,
        u32::try_from(content.len()).unwrap(),
        0,
        0,
        0,
        0,
        u32::try_from(name.len()).unwrap() + 1,
        sum.unwrap_or(0),
    ];
    let magic = if sum.is_some() { "070702" } else { "070701" };
    let mut text = magic.to_owned();
    for number in numbers {
        text.push_str(&format!("{number:08X}"));
    }
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn cpio_end() -> Vec<u8> {
    cpio("TRAILER!!!", 0, 0, 1, b"", None)
}

#[test]
fn a_cpio_archive_arrives_whole() {
    let bytes = [
        cpio(".", 0o040_755, 1, 2, b"", None),
        cpio("usr", 0o040_755, 2, 2, b"", None),
        cpio("usr/a", 0o104_755, 3, 1, b"hello", None),
        // The first names of a file come without content.
        cpio("usr/b", 0o100_644, 4, 3, b"", None),
        cpio("usr/c", 0o100_644, 4, 3, b"shared", None),
        cpio("usr/d", 0o100_644, 4, 3, b"", None),
        cpio("usr/empty1", 0o100_644, 5, 2, b"", None),
        cpio("usr/empty2", 0o100_644, 5, 2, b"", None),
        cpio("usr/link", 0o120_777, 6, 1, b"../a", None),
        cpio("usr/pipe", 0o010_600, 7, 1, b"", None),
        cpio("usr/null", 0o020_666, 8, 1, b"", None),
        cpio("usr/sum", 0o100_644, 9, 1, b"\x01\x02", Some(3)),
        cpio_end(),
        vec![0; 512],
    ]
    .concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    for bytes in [bytes, gzip.finish().unwrap()] {
        let mut trial = Trial::new();
        let done = trial.unpack(&bytes).unwrap();
        assert_eq!((done.files, done.links, done.left_out), (4, 1, 1));
        let meta = |name: &str| trial.path(name).symlink_metadata().unwrap();
        assert_eq!(meta("usr/a").mode() & 0o7777, 0o4755);
        assert_eq!(meta("usr/b").ino(), meta("usr/c").ino());
        assert_eq!(meta("usr/b").ino(), meta("usr/d").ino());
        assert_eq!(meta("usr/empty1").ino(), meta("usr/empty2").ino());
        assert_eq!(fs::read(trial.path("usr/d")).unwrap(), b"shared");
        assert_eq!(
            fs::read_link(trial.path("usr/link")).unwrap(),
            Path::new("../a")
        );
        assert!(meta("usr/pipe").file_type().is_fifo());
        assert_eq!(meta("usr/a").mtime(), 1_000_000_000);
    }
}

#[test]
fn damaged_cpio_archives_are_noticed() {
    let usr = cpio("usr", 0o040_755, 2, 2, b"", None);
    let sound = cpio("usr/a", 0o100_644, 3, 1, b"hello", None);
    let with = |more: Vec<u8>| [usr.clone(), more, cpio_end()].concat();
    let mut long = sound.clone();
    long[94..102].copy_from_slice(b"7FFFFFFF");
    let mut sign = sound.clone();
    sign[6..14].copy_from_slice(b"+0000001");
    let mut huge = sound.clone();
    huge[54..62].copy_from_slice(b"FFFFFFFF");
    for (bytes, why) in [
        (
            [usr.clone(), sound.clone()].concat(),
            "the end of the archive is missing",
        ),
        (with(sound[..120].to_vec()), "damaged"),
        (with(long), "a header larger than"),
        (with(sign), "something else than digits"),
        (with(huge), "truncated"),
        (
            with(cpio("../a", 0o100_644, 3, 1, b"x", None)),
            "a name with '..'",
        ),
        (
            with(cpio("/a", 0o100_644, 3, 1, b"x", None)),
            "an absolute name",
        ),
        (
            with(cpio("usr/a", 0o100_644, 3, 1, b"x", Some(7))),
            "another checksum",
        ),
        (
            with(
                [
                    cpio("x", 0o120_777, 3, 1, b"/", None),
                    cpio("x/outside", 0o100_644, 4, 1, b"x", None),
                ]
                .concat(),
            ),
            "symbolic link",
        ),
    ] {
        let error = refusal(&bytes);
        assert!(error.contains(why), "{why}: {error}");
    }
}

/// Layers on one another, each with what overlay reads.
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
            // Before and after what takes its place.
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
    // What is hidden is not there for the next layer.
    let error = layers.add(&[member(b'1', b"etc/c", b"etc/a", 0o644, b"")]);
    assert!(
        error
            .unwrap_err()
            .contains("a hard link to what is not there")
    );
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
fn what_a_layer_does_not_hold_is_as_below() {
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
            // Through links of the layer below.
            file("lib/x", "x"),
            file("abs/y", "y"),
            file("out/z", "z"),
            // One more name of a file of the layer below.
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

#[test]
fn limits_hold() {
    let many: Vec<_> = (0..20)
        .map(|i| file(&format!("usr/{i}"), "12345678"))
        .collect();
    let few = Limits {
        members: 10,
        ..LIMITS
    };
    let error = Trial::new()
        .unpack_within(&archive(&many), few)
        .unwrap_err();
    assert!(
        error.to_string().ends_with("more than 10 members"),
        "{error}"
    );
    let small = Limits {
        bytes: 100,
        ..LIMITS
    };
    let error = Trial::new()
        .unpack_within(&archive(&many), small)
        .unwrap_err();
    assert!(
        error.to_string().ends_with("more than 100 bytes in files"),
        "{error}"
    );
    let short = Limits { path: 5, ..LIMITS };
    let error = Trial::new()
        .unpack_within(&archive(&many), short)
        .unwrap_err();
    assert!(
        error.to_string().ends_with("a name of more than 5 bytes"),
        "{error}"
    );
}

#[test]
fn a_long_name_of_megabytes_is_not_taken_into_memory() {
    let long = vec![b'a'; 64 << 20];
    let bytes = archive(&[member(b'L', b"././@LongLink", b"", 0, &long), file("x", "")]);
    let error = refusal(&bytes);
    assert!(
        error.ends_with("a header larger than any name or attribute"),
        "{error}"
    );
}

#[test]
fn damaged_archives_are_noticed() {
    let whole = archive(&[
        dir("usr"),
        file("usr/a", &"x".repeat(5000)),
        file("usr/b", "y"),
    ]);
    // Cut anywhere: in a header, in content, and before the end mark.
    for cut in [700, 2000, 512 + 512 + 5120, whole.len() - 1024] {
        let error = refusal(&whole[..cut]);
        assert!(error.contains("archive"), "{cut}: {error}");
    }
    let mut flipped = whole.clone();
    flipped[520] ^= 1;
    let error = refusal(&flipped);
    assert!(error.contains("checksum"), "{error}");

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&whole).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(Trial::new().unpack(&gzip).unwrap().files, 2);
    let mut wrong_sum = gzip.clone();
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    assert!(refusal(&wrong_sum).contains("archive: "));
    assert!(refusal(&gzip[..gzip.len() / 2]).contains("archive: "));
    assert!(refusal(b"no archive at all, and short").contains("archive: "));
}

#[test]
fn other_compressions_go_through_the_hosts_programs() {
    let whole = archive(&[dir("usr"), file("usr/a", &"x".repeat(50_000))]);
    for program in ["xz", "zstd"] {
        let path = Path::new("/usr/bin").join(program);
        if !path.exists() {
            eprintln!("skipped: no {program} on this machine");
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        let plain = scratch.path().join("plain");
        fs::write(&plain, &whole).unwrap();
        let output = std::process::Command::new(&path)
            .arg("-c")
            .arg(&plain)
            .output()
            .unwrap();
        assert_eq!(
            Trial::new().unpack(&output.stdout).unwrap().files,
            1,
            "{program}"
        );
        let mut damaged = output.stdout.clone();
        // In the last block or its checksum, after all of the tar data was given out.
        let at = damaged.len() - if program == "xz" { 1 } else { 2 };
        damaged[at] ^= 0x55;
        let error = refusal(&damaged);
        assert!(error.contains("archive: "), "{program}: {error}");
    }
}

#[test]
fn attributes_pass_by_the_list() {
    let records = |pairs: &[(&str, &str)]| -> Vec<u8> {
        let line = |(key, value): &(&str, &str)| {
            let rest = format!(" SCHILY.xattr.{key}={value}\n");
            // The length counts itself; these are all of two digits.
            format!("{}{rest}", rest.len() + 2).into_bytes()
        };
        pairs.iter().flat_map(line).collect()
    };
    let pax = records(&[
        ("user.kept", "yes"),
        ("user.overlay.opaque", "y"),
        ("trusted.overlay.opaque", "y"),
    ]);
    let mut trial = Trial::new();
    let bytes = archive(&[
        dir("usr"),
        member(b'x', b"pax", b"", 0, &pax),
        file("usr/a", "x"),
    ]);
    trial.unpack(&bytes).unwrap();
    let get = |name: &str| {
        let mut value = [0; 16];
        rustix::fs::getxattr(trial.path("usr/a"), name, &mut value[..])
    };
    match get("user.kept") {
        Ok(length) => assert_eq!(length, 3),
        Err(rustix::io::Errno::OPNOTSUPP) => eprintln!("skipped: no attributes here"),
        Err(errno) => panic!("{errno}"),
    }
    assert!(get("user.overlay.opaque").is_err());
    assert!(get("trusted.overlay.opaque").is_err());
}

#[test]
fn what_is_no_root_is_refused() {
    let error = refusal(&archive(&[file("README", "hello")]));
    assert!(
        error.ends_with("no root file system: it has neither usr nor bin"),
        "{error}"
    );
}

#[test]
fn a_directory_is_copied_as_it_is() {
    let mut trial = Trial::new();
    let source = trial.dir.path().join("source");
    fs::create_dir_all(source.join("usr/deep/er")).unwrap();
    fs::write(source.join("usr/a"), "x").unwrap();
    fs::hard_link(source.join("usr/a"), source.join("usr/deep/b")).unwrap();
    fs::set_permissions(source.join("usr/a"), fs::Permissions::from_mode(0o4711)).unwrap();
    symlink("/etc/passwd", source.join("usr/link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("usr/socket")).unwrap();
    let done = trial
        .install(&Source::Directory(source.clone()), LIMITS)
        .unwrap();
    assert_eq!(
        (done.files, done.links, done.directories, done.left_out),
        (1, 1, 3, 1)
    );
    let meta = |name: &str| trial.path(name).symlink_metadata().unwrap();
    assert_eq!(meta("usr/a").mode() & 0o7777, 0o4711);
    assert_eq!(meta("usr/a").ino(), meta("usr/deep/b").ino());
    assert!(meta("usr/link").is_symlink());
    assert_eq!(
        meta("usr/deep").mtime(),
        source.join("usr/deep").metadata().unwrap().mtime()
    );
}

#[test]
fn a_huge_file_is_refused_before_it_is_copied() {
    let mut trial = Trial::new();
    let source = trial.dir.path().join("source");
    fs::create_dir_all(source.join("usr")).unwrap();
    let huge = fs::File::create(source.join("usr/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let limits = Limits {
        bytes: 1 << 20,
        ..LIMITS
    };
    let error = trial
        .install(&Source::Directory(source), limits)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("more than 1048576 bytes in files"),
        "{error}"
    );
    assert!(!trial.path("usr/huge").exists());
}

#[test]
fn a_directory_around_the_zone_is_refused() {
    let mut trial = Trial::new();
    let around = trial.dir.path().to_owned();
    let error = trial
        .install(&Source::Directory(around), LIMITS)
        .unwrap_err();
    assert!(
        error.to_string().ends_with("the zone itself lies in it"),
        "{error}"
    );
}

/// Makes a squashfs image of a folder; nothing where there is no mksquashfs.
fn squash(source: &Path, image: &Path, options: &[&str]) -> Option<Vec<u8>> {
    if !Path::new("/usr/bin/mksquashfs").exists() {
        eprintln!("skipped: no mksquashfs on this machine");
        return None;
    }
    let _ = fs::remove_file(image);
    let made = std::process::Command::new("/usr/bin/mksquashfs")
        .arg(source)
        .arg(image)
        .args(["-noappend", "-no-progress", "-processors", "1"])
        .args(options)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    Some(fs::read(image).unwrap())
}

/// A folder with something of everything.
fn of_everything(source: &Path) {
    fs::create_dir_all(source.join("usr/deep/er")).unwrap();
    fs::write(source.join("usr/small"), "small").unwrap();
    fs::write(source.join("usr/empty"), "").unwrap();
    let large: Vec<u8> = (0..700_000_u64)
        .map(|n| u8::try_from(n * n / 7 % 251).unwrap())
        .collect();
    fs::write(source.join("usr/large"), &large).unwrap();
    let holes = fs::File::create(source.join("usr/holes")).unwrap();
    holes.set_len(1 << 20).unwrap();
    fs::hard_link(source.join("usr/small"), source.join("usr/deep/same")).unwrap();
    fs::set_permissions(source.join("usr/small"), fs::Permissions::from_mode(0o4711)).unwrap();
    symlink("/etc/passwd", source.join("usr/link")).unwrap();
    for n in 0..600 {
        fs::write(
            source.join(format!("usr/deep/er/a-file-with-a-longer-name-{n}")),
            n.to_string(),
        )
        .unwrap();
    }
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::setxattr(source.join("usr/small"), "user.colour", b"red", flags);
}

#[test]
fn a_squashfs_image_arrives_whole() {
    for options in [
        &["-comp", "gzip"][..],
        &["-comp", "zstd"],
        &["-noI", "-noD", "-noF"],
        &["-b", "4096"],
    ] {
        let mut trial = Trial::new();
        let source = trial.dir.path().join("source");
        of_everything(&source);
        let Some(bytes) = squash(&source, &trial.dir.path().join("archive"), options) else {
            return;
        };
        let done = trial.unpack(&bytes).unwrap();
        assert_eq!(
            (done.files, done.links, done.directories),
            (604, 1, 3),
            "{options:?}"
        );
        let meta = |name: &str| trial.path(name).symlink_metadata().unwrap();
        assert_eq!(meta("usr/small").ino(), meta("usr/deep/same").ino());
        assert_eq!(meta("usr/small").mode() & 0o7777, 0o4711);
        assert_eq!(
            fs::read_link(trial.path("usr/link")).unwrap(),
            Path::new("/etc/passwd")
        );
        for name in [
            "usr/small",
            "usr/empty",
            "usr/large",
            "usr/holes",
            "usr/deep/er/a-file-with-a-longer-name-599",
        ] {
            assert_eq!(
                fs::read(trial.path(name)).unwrap(),
                fs::read(source.join(name)).unwrap(),
                "{name}"
            );
            let time = source.join(name).metadata().unwrap().mtime();
            assert_eq!(meta(name).mtime(), time, "{name}");
        }
        let mut value = [0; 8];
        if rustix::fs::getxattr(source.join("usr/small"), "user.colour", &mut value[..]).is_ok() {
            let length =
                rustix::fs::getxattr(trial.path("usr/small"), "user.colour", &mut value[..])
                    .unwrap();
            assert_eq!(&value[..length], b"red");
        }
    }
}

#[test]
fn damaged_squashfs_images_are_no_surprise() {
    let trial = Trial::new();
    let source = trial.dir.path().join("source");
    of_everything(&source);
    let image = trial.dir.path().join("archive");
    let Some(lzo) = squash(&source, &image, &["-comp", "lzo"]) else {
        return;
    };
    assert!(refusal(&lzo).contains("compressed with lzo, which is not read"));
    let Some(bytes) = squash(&source, &image, &["-comp", "gzip"]) else {
        return;
    };
    for cut in [10, 95, 96, 500, bytes.len() / 2, bytes.len() - 5000] {
        let error = refusal(&bytes[..cut]);
        assert!(error.contains("archive"), "{error}");
    }
    // Tables and inodes are at the end: changed there, it is refused or read, no more.
    let mut seed = 11_u64;
    let mut below = |limit: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % limit as u64).unwrap()
    };
    let Some(plain) = squash(&source, &image, &["-noI"]) else {
        return;
    };
    for bytes in [&bytes, &plain] {
        for n in 0..20 {
            let mut changed = bytes.clone();
            for _ in 0..=below(3) {
                let tail = 30_000.min(changed.len());
                let at = match n % 3 {
                    0 => below(96),
                    _ => changed.len() - 1 - below(tail),
                };
                changed[at] = u8::try_from(below(256)).unwrap();
            }
            let _ = Trial::new().unpack(&changed);
        }
    }
}

#[test]
fn exports_of_incus_and_containers_of_lxc_are_taken_apart() {
    let hard =
        |name: &str, target: &str| member(b'1', name.as_bytes(), target.as_bytes(), 0o644, b"");
    let mut trial = Trial::new();
    trial
        .unpack(&archive(&[
            dir("backup"),
            file("backup/index.yaml", "name: web"),
            file("backup/container/backup.yaml", "container:"),
            dir("backup/container/rootfs"),
            dir("backup/container/rootfs/usr"),
            file("backup/container/rootfs/usr/a", "a"),
            hard(
                "backup/container/rootfs/usr/b",
                "backup/container/rootfs/usr/a",
            ),
        ]))
        .unwrap();
    assert_eq!(fs::read_to_string(trial.path("usr/b")).unwrap(), "a");
    assert!(!trial.path("backup").exists());
    let error = refusal(&archive(&[
        dir("backup"),
        dir("backup/container/rootfs/usr"),
        hard("backup/container/rootfs/usr/b", "backup/index.yaml"),
    ]));
    assert!(error.contains("outside the root"), "{error}");

    let mut trial = Trial::new();
    let source = trial.dir.path().join("source");
    fs::create_dir_all(source.join("rootfs/usr")).unwrap();
    fs::write(source.join("rootfs/usr/a"), "a").unwrap();
    fs::write(
        source.join("config"),
        "lxc.idmap = u 0 100000 65536\nlxc.idmap = g 0 200000 65536\n",
    )
    .unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(source.join("rootfs/usr/a"), Some(100_033), Some(200_034))
            .unwrap();
    }
    trial.install(&Source::Directory(source), LIMITS).unwrap();
    let meta = trial.path("usr/a").metadata().unwrap();
    if rustix::process::geteuid().is_root() {
        assert_eq!((meta.uid(), meta.gid()), (33, 34));
    }
}

mod streams {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    use super::super::pack::Pack;
    use super::super::{Content, unpack_stream};

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("etc/deep")).unwrap();
        fs::create_dir(at("bin")).unwrap();
        fs::write(at("etc/a"), "one").unwrap();
        fs::hard_link(at("etc/a"), at("etc/deep/b")).unwrap();
        fs::set_permissions(at("etc/a"), fs::Permissions::from_mode(0o4711)).unwrap();
        symlink("../etc/a", at("bin/l")).unwrap();
        let long = "n".repeat(200);
        fs::write(at("etc").join(&long), "long").unwrap();
        symlink(format!("/{long}/{long}"), at("etc/far")).unwrap();
        dir
    }

    fn carry(from: &Path, content: Content) -> tempfile::TempDir {
        let mut pack = Pack::new(Vec::new(), content);
        pack.tree(from, &mut |_, _| true).unwrap();
        let (bytes, packed) = pack.finish().unwrap();
        assert!(packed.members >= 8, "{packed:?}");
        let to = tempfile::tempdir().unwrap();
        unpack_stream(to.path(), bytes.as_slice(), content, Path::new("stream")).unwrap();
        to
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        for content in [Content::Root, Content::Layer] {
            let from = tree();
            let to = carry(from.path(), content);
            let read = |name: &str| fs::read_to_string(to.path().join(name)).unwrap();
            assert_eq!(
                (read("etc/a"), read("etc/deep/b")),
                ("one".into(), "one".into())
            );
            let stat = fs::metadata(to.path().join("etc/a")).unwrap();
            assert_eq!((stat.nlink(), stat.mode() & 0o7777), (2, 0o4711));
            assert_eq!(read(&format!("etc/{}", "n".repeat(200))), "long");
            for link in ["bin/l", "etc/far"] {
                assert_eq!(
                    fs::read_link(to.path().join(link)).unwrap(),
                    fs::read_link(from.path().join(link)).unwrap()
                );
            }
            let before = fs::metadata(from.path().join("etc/deep")).unwrap().mtime();
            assert_eq!(
                fs::metadata(to.path().join("etc/deep")).unwrap().mtime(),
                before
            );
        }
    }

    #[test]
    fn a_later_stream_goes_over_an_earlier_one() {
        let from = tree();
        let to = carry(from.path(), Content::Layer);
        fs::write(from.path().join("etc/a"), "two").unwrap();
        fs::remove_file(from.path().join("bin/l")).unwrap();
        fs::write(from.path().join("bin/l"), "a file now").unwrap();
        let mut pack = Pack::new(Vec::new(), Content::Layer);
        pack.tree(from.path(), &mut |path, _| {
            path.starts_with("bin") || path.ends_with("a") || path.ends_with("b")
        })
        .unwrap();
        let (bytes, _) = pack.finish().unwrap();
        unpack_stream(to.path(), bytes.as_slice(), Content::Layer, Path::new("s")).unwrap();
        let read = |name: &str| fs::read_to_string(to.path().join(name)).unwrap();
        assert_eq!(read("etc/a"), "two");
        assert_eq!(read("bin/l"), "a file now");
    }

    #[test]
    fn only_what_overlay_may_believe_is_carried() {
        let layer = |name: &str, value: &[u8]| Content::Layer.keeps(name, value);
        assert!(layer("trusted.overlay.opaque", b"y"));
        assert!(!layer("trusted.overlay.opaque", b"n"));
        for (value, legal) in [
            (&b"/usr/lib"[..], true),
            (b"former", true),
            (b"a/b", false),
            (b"/a/../b", false),
            (b"..", false),
            (b"/", false),
            (b"", false),
            (b"a\0b", false),
        ] {
            assert_eq!(layer("trusted.overlay.redirect", value), legal, "{value:?}");
        }
        for name in [
            "trusted.overlay.metacopy",
            "trusted.overlay.origin",
            "trusted.other",
            "user.overlay.opaque",
            "security.selinux",
        ] {
            assert!(!layer(name, b"y"), "{name}");
        }
        assert!(layer("security.capability", b"x") && layer("user.mine", b"x"));
        assert!(!Content::Root.keeps("trusted.overlay.opaque", b"y"));
        assert!(!Content::Root.keeps("system.posix_acl_access", b"x"));
    }
}
