//! Tests more than two hundred invalid archives and images. Each causes one line of error, leaves
//! the zone configured, and leaves no other file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::container::{Image, Member, archive, file, folder, gzip, hard_link, link};
use e2e::tree::{Face, assert_same, face};
use e2e::{Host, Random, run};
use oci::Digest;
use oci::layout::{INDEX, MARK, blob_name};

/// The zone that each install tries to make.
const ZONE: &str = "bad";

/// A host with a zone, and a folder that must not change.
struct Trial {
    host: Host,
    outside: PathBuf,
    before: Face,
    tried: usize,
}

impl Trial {
    fn new() -> Option<Self> {
        let host = Host::new()?;
        host.zonecfg(&["-z", ZONE, "create -t SUNWlx"]).quiet();
        let outside = host.path("/outside");
        fs::create_dir_all(outside.join("inner")).unwrap();
        fs::write(outside.join("file"), "as it was").unwrap();
        fs::write(outside.join("inner/other"), "this too").unwrap();
        let before = face(&outside);
        Some(Self {
            host,
            outside,
            before,
            tried: 0,
        })
    }

    /// Tries to install an archive. The one line of error must contain `why`.
    fn archive(&mut self, bytes: &[u8], why: &str) {
        let path = self.host.path("/archive");
        fs::write(&path, bytes).unwrap();
        let number = self.tried;
        self.install(&path, &format!("archive {number}"), why);
    }

    fn install(&mut self, path: &Path, what: &str, why: &str) {
        self.tried += 1;
        let ran = self
            .host
            .on(ZONE, &["install", "-a", &path.to_string_lossy()]);
        assert_eq!(ran.code(), Some(1), "{what}: {ran:?}");
        let begin = format!("zoneadm: zone '{ZONE}': ");
        assert!(
            ran.err.starts_with(&begin) && ran.err.lines().count() == 1,
            "{what}: {ran:?}"
        );
        let told = why.split('|').any(|why| ran.err.contains(why));
        assert!(told, "{what}: expected {why}: {ran:?}");
        assert!(
            !ran.err
                .chars()
                .any(|char| char.is_control() && char != '\n'),
            "{what}: {ran:?}"
        );
        self.assert_no_trace(what);
    }

    fn assert_no_trace(&self, what: &str) {
        assert_eq!(self.host.state(ZONE), "configured", "{what}");
        assert!(
            !self.host.path("/zones").join(ZONE).exists(),
            "{what}: the zonepath is left"
        );
        assert_same(&self.before, &face(&self.outside));
        let layers = self.host.path("/zones/.layers");
        assert!(!layers.exists(), "{what}: layers are left");
        let images = self.host.path("/var/lib/zones/images");
        for entry in fs::read_dir(&images).into_iter().flatten() {
            let entry = entry.unwrap();
            assert_eq!(entry.file_name(), ".layers", "{what}: left of an image");
            for entry in fs::read_dir(entry.path()).unwrap() {
                let entry = entry.unwrap();
                assert_eq!(entry.file_name(), ".dead", "{what}: a layer is left");
                assert_eq!(
                    fs::read_dir(entry.path()).unwrap().count(),
                    0,
                    "{what}: a tree"
                );
            }
        }
    }

    /// Tries to install a layout.
    fn layout(&mut self, folder: &Path, what: &str, why: &str) {
        let path = PathBuf::from(format!("oci:{}", folder.display()));
        self.install(&path, what, why);
        fs::remove_dir_all(folder).unwrap();
    }
}

/// Returns a valid archive of some files.
fn sound() -> Vec<u8> {
    let mut members = vec![folder("usr"), folder("usr/bin"), link("bin", "usr/bin")];
    let mut random = Random::new(7);
    for n in 0..20 {
        let content: Vec<u8> = (0..3000 + 100 * n)
            .map(|_| u8::try_from(random.index(256)).unwrap())
            .collect();
        members.push(file(&format!("usr/bin/{n}"), &content));
    }
    members.push(hard_link("usr/bin/same", "usr/bin/3"));
    archive(&members)
}

#[test]
fn tar_archives() {
    let Some(mut trial) = Trial::new() else {
        return;
    };
    let outside = trial.outside.to_string_lossy().into_owned();
    let usr = folder("usr");
    let with = |more: &[Vec<u8>]| archive(&[std::slice::from_ref(&usr), more].concat());
    let long = Member {
        name: &[b'n'; 100],
        ..Member::of(b'0', "")
    };
    let named = |name: &'static [u8]| {
        Member {
            name,
            ..Member::of(b'0', "")
        }
        .bytes()
    };
    let sized = |kind: u8, size: u64| {
        Member {
            size: Some(size),
            ..Member::of(kind, "usr/x")
        }
        .bytes()
    };
    let owned = |uid: u64, gid: u64| {
        Member {
            owner: (uid, gid),
            ..Member::of(b'0', "usr/x")
        }
        .bytes()
    };
    let long_name = |length: usize| {
        let text = vec![b'a'; length];
        let name = Member {
            content: &text,
            ..Member::of(b'L', "././@LongLink")
        };
        [name.bytes(), long.bytes()].concat()
    };
    let deep: String = "d/".repeat(2100);
    let sparse = {
        let mut bytes = Member::of(b'S', "usr/sparse").bytes();
        bytes[257..265].copy_from_slice(b"ustar  \0");
        bytes[386..398].copy_from_slice(b"00000000000\0");
        bytes[398..410].copy_from_slice(b"77777777777\0");
        // The size field says four tebibytes.
        bytes[483..495].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes[148..156].copy_from_slice(b"        ");
        let sum: u32 = bytes[..512].iter().map(|byte| u32::from(*byte)).sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes
    };
    let escape = format!("{outside}/file");
    for (members, why) in [
        (vec![file("../outside/evil", b"x")], "a name with '..'"),
        (
            vec![file("usr/../../outside/evil", b"x")],
            "a name with '..'",
        ),
        (vec![folder("..")], "a name with '..'"),
        (vec![link("../evil", "x")], "a name with '..'"),
        (vec![file("/etc/evil", b"x")], "an absolute name"),
        (
            vec![file(&format!("{outside}/e"), b"x")],
            "an absolute name",
        ),
        (vec![folder("/")], "an absolute name"),
        (vec![link("/evil", "x")], "an absolute name"),
        (
            vec![link("x", &outside), file("x/evil", b"x")],
            "symbolic link",
        ),
        (
            vec![link("x", "../../outside"), file("x/file", b"x")],
            "symbolic link",
        ),
        (
            vec![link("x", "usr"), file("x/evil", b"x")],
            "symbolic link",
        ),
        (vec![link("x", "/"), folder("x/evil")], "symbolic link"),
        (
            vec![link("x", &outside), link("x/evil", "y")],
            "symbolic link",
        ),
        (
            vec![link("x", &outside), hard_link("x/evil", "usr")],
            "hard link",
        ),
        (vec![link("x", &outside), folder("x")], "x: "),
        (vec![link("x", "x"), file("x/y", b"")], "symbolic link"),
        (
            vec![link("a", "b"), link("b", "a"), file("a/x", b"")],
            "symbolic link",
        ),
        (
            vec![link("x", &escape), hard_link("y", "x/z")],
            "symbolic link",
        ),
        (vec![hard_link("x", &escape)], "an absolute name"),
        (
            vec![hard_link("x", "../../outside/file")],
            "a name with '..'",
        ),
        (vec![hard_link("x", "nothing")], "hard link"),
        (vec![hard_link("x", "usr")], "hard link"),
        (vec![hard_link("x", "")], "a link to nothing"),
        (vec![link("x", "")], "a link to nothing"),
        (vec![file("x", b"1"), file("x/y", b"2")], "x/y: "),
        (vec![folder("x"), file("x/y", b"1"), file("x", b"2")], "x: "),
        (vec![folder("x"), link("x", "usr")], "x: "),
        (vec![file("x", b""), folder("x")], "x: "),
        (vec![named(b"")], "no name"),
        (vec![named(b".")], "no name"),
        (
            vec![
                file(&"n".repeat(99), b"").clone(),
                file("x/\x1b[2J/..", b""),
            ],
            "a name with '..'",
        ),
        (vec![sized(b'0', 1 << 41)], "more than 1099511627776 bytes"),
        (vec![sized(b'0', 1 << 36)], "truncated"),
        (vec![sized(b'0', u64::MAX)], ""),
        (vec![sized(b'0', 1 << 63)], ""),
        (vec![sparse], ""),
        (vec![owned(65_536, 0)], "a zone has ids up to 65535"),
        (vec![owned(0, 65_536)], "a zone has ids up to 65535"),
        (vec![owned(4_294_967_295, 0)], "a zone has ids up to 65535"),
        (vec![owned(1 << 40, 0)], "an owner id that is none"),
        (vec![long_name(5000)], "a name of more than 4096 bytes"),
        (vec![long_name(16 << 20)], "larger than any name"),
        (
            vec![{
                let text = deep.clone();
                let name = Member {
                    content: text.as_bytes(),
                    ..Member::of(b'L', "././@LongLink")
                };
                [name.bytes(), long.bytes()].concat()
            }],
            "a name of more than 4096 bytes",
        ),
        (
            vec![
                Member {
                    content: b"12 bad\n",
                    ..Member::of(b'x', "pax")
                }
                .bytes(),
                file("usr/x", b""),
            ],
            "",
        ),
        (
            vec![
                Member {
                    content: b"22 GNU.sparse.major=1\n",
                    ..Member::of(b'x', "pax")
                }
                .bytes(),
                file("usr/x", b""),
            ],
            "sparse",
        ),
    ] {
        trial.archive(&with(&members), why);
    }
    for (bytes, why) in [
        (b"".to_vec(), ""),
        (b"not an archive".to_vec(), ""),
        (vec![0; 100], ""),
        (vec![b'x'; 4096], ""),
        (archive(&[]), "neither usr nor bin"),
        (archive(&[file("README", b"hello")]), "neither usr nor bin"),
        (b"PK\x03\x04 and so on".to_vec(), "a zip archive"),
        (b"!<arch>\ndebian-binary".to_vec(), "a Debian package"),
        (b"\xed\xab\xee\xdb\x03".to_vec(), "an RPM package"),
        (b"QFI\xfb\0\0\0\x03".to_vec(), "qcow2"),
        (b"btrfs-stream\0\x01".to_vec(), "truncated"),
        (
            b"\0\0\0\0\0\0\0\0\xac\xcb\xba\xf5\x02\0\0\0".to_vec(),
            "a ZFS stream",
        ),
        (b"\x7fELF\x02".to_vec(), "a program"),
        (b"\xfd7zXZ\0 damaged".to_vec(), ""),
        (b"\x28\xb5\x2f\xfd damaged".to_vec(), ""),
        (b"BZh9 damaged".to_vec(), ""),
        (b"\x1f\x8b\x08 damaged".to_vec(), ""),
        (gzip(b"nothing in it"), ""),
        (gzip(&gzip(&sound())), ""),
    ] {
        trial.archive(&bytes, why);
    }
    let whole = sound();
    let packed = gzip(&whole);
    let mut random = Random::new(3);
    for _ in 0..25 {
        let cut = random.index(whole.len() - 1100);
        trial.archive(&whole[..cut], "");
        let cut = random.index(packed.len() - 1);
        trial.archive(&packed[..cut], "");
        // These bytes of the header are ignored by every reader.
        let mut flipped = packed.clone();
        let at = 10 + random.index(packed.len() - 10);
        flipped[at] ^= 1 << random.index(8);
        trial.archive(&flipped, "");
    }
    for at in [0, 5, 100, 130, 150, 156, 257] {
        let mut flipped = whole.clone();
        flipped[512 + at] ^= 0x10;
        trial.archive(&flipped, "checksum|cksum");
    }
    println!("{} archives refused", trial.tried);
    assert!(trial.tried >= 145, "{}", trial.tried);
    // The unchanged archive is accepted.
    let path = trial.host.path("/archive");
    fs::write(&path, &packed).unwrap();
    trial
        .host
        .on(ZONE, &["install", "-a", &path.to_string_lossy()])
        .quiet();
}

/// Returns a member of a cpio archive: kind and permissions, number of names, name, content.
fn cpio(mode: u32, links: u32, name: &str, content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap();
    let length = u32::try_from(name.len()).unwrap() + 1;
    let mut text = "070701".to_owned();
    for number in [
        9,
        mode,
        0,
        0,
        links,
        1_000_000_000,
        size,
        0,
        0,
        0,
        0,
        length,
        0,
    ] {
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

#[test]
fn cpio_archives() {
    let Some(mut trial) = Trial::new() else {
        return;
    };
    let (dir, reg, lnk) = (0o040_755, 0o100_644, 0o120_777);
    let usr = cpio(dir, 2, "usr", b"");
    let end = cpio(0, 1, "TRAILER!!!", b"");
    let with = |more: &[Vec<u8>]| [&usr[..], &more.concat(), &end].concat();
    let field = |number: usize, digits: &[u8]| {
        let mut bytes = cpio(reg, 1, "usr/x", b"hello");
        bytes[6 + 8 * number..14 + 8 * number].copy_from_slice(digits);
        bytes
    };
    for (members, why) in [
        (
            vec![cpio(reg, 1, "../outside/evil", b"x")],
            "a name with '..'",
        ),
        (vec![cpio(reg, 1, "/etc/evil", b"x")], "an absolute name"),
        (
            vec![
                cpio(lnk, 1, "x", b"../../outside"),
                cpio(reg, 1, "x/file", b"x"),
            ],
            "symbolic link",
        ),
        (vec![cpio(lnk, 1, "x", b"")], "a link to nothing"),
        (vec![cpio(lnk, 1, "x", &[b'a'; 5000])], "too long a name"),
        (vec![cpio(reg, 1, "x", b""), cpio(dir, 1, "x", b"")], "x: "),
        (
            vec![cpio(reg, 1, &"n".repeat(5000), b"")],
            "larger than any name",
        ),
        (vec![field(0, b"0000000G")], "other characters than digits"),
        (vec![field(2, b"00010000")], "a zone has ids up to 65535"),
        (vec![field(3, b"FFFFFFFF")], "a zone has ids up to 65535"),
        (vec![field(6, b"FFFFFFFF")], "truncated"),
        (vec![field(11, b"00000000")], "larger than any name"),
        (vec![field(11, b"00000003")], ""),
        (vec![b"junk".to_vec()], ""),
        (
            vec![b"070707".to_vec(), vec![b'0'; 200]],
            "the old form odc",
        ),
    ] {
        trial.archive(&with(&members), why);
    }
    trial.archive(&usr, "the end of the archive is missing");
    trial.archive(
        &[b"\xc7\x71".as_slice(), &[0; 200]].concat(),
        "the old form bin",
    );
    let sound = with(&[
        cpio(reg, 1, "usr/a", &[b'x'; 3000]),
        cpio(reg, 1, "usr/b", &[b'y'; 3000]),
    ]);
    let mut random = Random::new(5);
    for _ in 0..20 {
        let cut = random.index(sound.len() - end.len());
        trial.archive(&sound[..cut], "");
    }
    println!("{} archives refused", trial.tried);
}

#[test]
fn container_images() {
    let Some(mut trial) = Trial::new() else {
        return;
    };
    let outside = trial.outside.to_string_lossy().into_owned();
    let place = trial.host.path("/layout");
    let base = archive(&[
        folder("usr"),
        folder("etc"),
        file("etc/a", b"a"),
        link("out", &outside),
    ]);
    let make = |second: Vec<u8>| Image::make(&place, &[base.clone(), second], "{}");
    let upper = |members: &[Vec<u8>]| archive(members);
    for (members, why) in [
        (vec![file("../outside/evil", b"x")], "a name with '..'"),
        (vec![file("/evil", b"x")], "an absolute name"),
        (vec![file("etc/../../.wh.outside", b"")], "a name with '..'"),
        (vec![file(".wh.", b"")], "hides no name"),
        (vec![file(".wh..", b"")], "hides no name"),
        (vec![file("etc/.wh...", b"")], "hides no name"),
        (
            vec![link("x", &outside), file("x/evil", b"x")],
            "symbolic link",
        ),
        (
            vec![hard_link("x", "etc/nothing")],
            "a hard link to a missing file",
        ),
        (
            vec![file("etc/.wh.a", b""), hard_link("x", "etc/a")],
            "a hard link to a missing file",
        ),
        (vec![hard_link("x", "../outside/file")], "a name with '..'"),
        (
            vec![link("loop", "loop"), file("loop/x", b"")],
            "symbolic link",
        ),
        (vec![file("etc/a/b", b"x"), file("etc/a", b"x")], "etc/a: "),
        (
            vec![
                Member {
                    owner: (100_000, 0),
                    ..Member::of(b'0', "etc/x")
                }
                .bytes(),
            ],
            "ids up to 65535",
        ),
    ] {
        let image = make(upper(&members));
        trial.layout(&image.folder, why, why);
    }
    // This name leads through a link of the layer below, to a folder of the zone, and never
    // outside.
    let image = make(upper(&[file("out/evil", b"x")]));
    let path = format!("oci:{}", image.folder.display());
    trial.host.on(ZONE, &["install", "-a", &path]).quiet();
    trial.host.on(ZONE, &["uninstall", "-F"]).quiet();
    let _ = run::run(&mut trial.host.command("zoneimg", &["prune"]), b"").ok();
    trial.assert_no_trace("a link to the outside below");
    fs::remove_dir_all(&place).unwrap();

    // The documents of a layout.
    let sound = upper(&[file("etc/b", b"b")]);
    let change = |name: &str, text: &[u8]| {
        let image = make(sound.clone());
        fs::write(image.folder.join(name), text).unwrap();
        image.folder
    };
    let digest = Digest::of(b"x");
    let index =
        |entries: &str| format!(r#"{{"schemaVersion":2,"manifests":[{entries}]}}"#).into_bytes();
    for (name, text, why) in [
        (MARK, b"{}".to_vec(), "imageLayoutVersion"),
        (
            MARK,
            br#"{"imageLayoutVersion":"9"}"#.to_vec(),
            "layout version 9",
        ),
        (MARK, vec![b' '; 5000], "more than 4096 bytes"),
        (INDEX, b"".to_vec(), "neither an index"),
        (INDEX, b"[[[[".to_vec(), "neither an index"),
        (INDEX, vec![b'['; 1 << 20], "neither an index"),
        (INDEX, vec![b' '; 5 << 20], "more than 4194304 bytes"),
        (
            INDEX,
            br#"{"schemaVersion":1,"manifests":[]}"#.to_vec(),
            "schema version 1",
        ),
        (INDEX, index(""), "no image in it"),
        (
            INDEX,
            index(r#"{"digest":"sha256:../../etc/passwd","size":5}"#),
            "not a digest",
        ),
        (
            INDEX,
            index(&format!(r#"{{"digest":"{digest}","size":-5}}"#)),
            "a size of -5",
        ),
        (
            INDEX,
            index(&format!(r#"{{"digest":"{digest}","size":99999999999}}"#)),
            "a size of 9999",
        ),
        (
            INDEX,
            index(&format!(r#"{{"digest":"{digest}","size":5}}"#)),
            "cannot read",
        ),
        (
            INDEX,
            index(&format!(r#"{{"digest":"{}","size":5}}"#, "sha512:00")),
            "other than sha256",
        ),
    ] {
        let folder = change(name, &text);
        trial.layout(&folder, name, why);
    }
    let image = make(sound.clone());
    let config = image
        .blobs()
        .into_iter()
        .find(|(_, bytes)| bytes.starts_with(b"{\"os\""))
        .unwrap();
    for (digest, why) in [
        (image.digest, "expected sha256:"),
        (config.0, "expected sha256:"),
        (image.layers[0], "bytes, expected"),
        (image.layers[1], "bytes, expected"),
    ] {
        let image = make(sound.clone());
        fs::write(image.folder.join(blob_name(&digest)), "{}").unwrap();
        trial.layout(&image.folder, "another blob", why);
        let image = make(sound.clone());
        fs::remove_file(image.folder.join(blob_name(&digest))).unwrap();
        trial.layout(&image.folder, "a blob is missing", "cannot read");
        let image = make(sound.clone());
        let blob = image.folder.join(blob_name(&digest));
        fs::remove_file(&blob).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &blob).unwrap();
        trial.layout(&image.folder, "a link for a blob", "cannot read");
        let image = make(sound.clone());
        let blob = image.folder.join(blob_name(&digest));
        let mut bytes = fs::read(&blob).unwrap();
        let last = bytes.len() / 2;
        bytes[last] ^= 1;
        fs::write(&blob, bytes).unwrap();
        trial.layout(&image.folder, "a flipped bit", "sha256:");
    }
    // The digests are correct, but the content is invalid: layers that are not archives, and
    // content of another type.
    for (layer, why) in [
        (b"no archive".to_vec(), ""),
        (sound[..600].to_vec(), ""),
        (gzip(&sound[..512]), ""),
    ] {
        let image = make(layer);
        trial.layout(&image.folder, "no archive for a layer", why);
    }
    let image = make(sound.clone());
    let text = String::from_utf8(config.1).unwrap();
    let wrong = text.replace(&Digest::of(&sound).to_string(), &digest.to_string());
    assert_ne!(text, wrong);
    replace_config(&image, &config.0, wrong.as_bytes());
    trial.layout(&image.folder, "another content", "and the image says");
    for (from, to, why) in [
        ("\"linux\"", "\"windows\"", "an image for windows/"),
        ("\"layers\"", "\"zip\"", "a root of type zip"),
        (
            "\"diff_ids\":[",
            "\"diff_ids\":[\"sha256:00\",",
            "not a digest",
        ),
    ] {
        let image = make(sound.clone());
        replace_config(&image, &config.0, text.replace(from, to).as_bytes());
        trial.layout(&image.folder, to, why);
    }

    // Archives of such folders, cut and changed.
    let image = make(sound);
    let tar = trial.host.path("/image.tar");
    let mut command = Command::new("tar");
    command
        .arg("-C")
        .arg(&image.folder)
        .arg("-cf")
        .arg(&tar)
        .args(["oci-layout", "index.json", "blobs"]);
    run::run(&mut command, b"").quiet();
    let whole = fs::read(&tar).unwrap();
    let mut random = Random::new(9);
    for _ in 0..15 {
        // The change is behind the first header, by which the format is recognized.
        let cut = 512 + random.index(6 * 512);
        trial.archive(&whole[..cut], "");
    }
    let twice = [&whole[..1024], &whole[..]].concat();
    trial.archive(&twice, "there twice");
    println!("{} images refused", trial.tried);
    assert!(trial.tried >= 60, "{}", trial.tried);
}

/// Replaces the configuration of an image, and corrects all digests.
fn replace_config(image: &Image, old: &Digest, config: &[u8]) {
    let put = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        fs::write(image.folder.join(blob_name(&digest)), bytes).unwrap();
        digest
    };
    let find = |digest: &Digest| fs::read_to_string(image.folder.join(blob_name(digest))).unwrap();
    let old_size = find(old).len();
    let sized = |digest: &Digest, size: usize| format!("\"digest\":\"{digest}\",\"size\":{size}");
    let manifest = find(&image.digest);
    let changed = manifest.replace(&sized(old, old_size), &sized(&put(config), config.len()));
    assert_ne!(manifest, changed);
    let index = fs::read_to_string(image.folder.join(INDEX)).unwrap();
    let entry = sized(&image.digest, manifest.len());
    let index = index.replace(&entry, &sized(&put(changed.as_bytes()), changed.len()));
    fs::write(image.folder.join(INDEX), index).unwrap();
}
