//! Tests squashfs images.

use super::*;

/// Makes a squashfs image of a folder. Returns `None` if mksquashfs is not installed.
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

/// Makes a folder with every kind of file.
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
    // Tables and inodes are at the end of the image. A changed byte there makes the image invalid,
    // or changes what is read; it causes no other failure.
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
