//! Tests tar archives, valid and hostile, and their limits.

use super::*;

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
    // These names lead through links: to the outside, absolute and relative, and to the inside.
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
    // A file with the name of a link replaces the link, and not the link's target.
    let mut trial = Trial::new();
    let bytes = archive(&[
        dir("usr"),
        link("usr/x", "../../outside"),
        file("usr/x", "mine"),
    ]);
    trial.unpack(&bytes).unwrap();
    assert_eq!(fs::read_to_string(trial.path("usr/x")).unwrap(), "mine");
    // A directory with the name of a link would follow the link, so it is refused.
    let error = refusal(&archive(&[dir("usr"), link("x", ".."), dir("x")]));
    assert!(error.contains("x: "), "{error}");
    // A hard link to a symbolic link does not lead outside: it is a second symbolic link.
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
fn other_file_formats_are_refused_by_name() {
    for (bytes, why) in [
        (&b"PK\x03\x04...."[..], "a zip archive"),
        (b"!<arch>\n....", "a Debian package"),
        (b"btrfs-stream\0\x09\0\0\0", "a btrfs stream of version 9"),
        (b"........\xac\xcb\xba\xf5\x02\0\0\0....", "a ZFS stream"),
        (b"070707........", "the old form odc"),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(why), "{error}");
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
    // The archive is cut at three positions: in a header, in content, and before the end mark.
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
        // The damage is in the last block or its checksum, after all of the tar data.
        let at = damaged.len() - if program == "xz" { 1 } else { 2 };
        damaged[at] ^= 0x55;
        let error = refusal(&damaged);
        assert!(error.contains("archive: "), "{program}: {error}");
    }
}

#[test]
fn a_flipped_bit_is_damage_and_not_a_short_file() {
    let program = Path::new("/usr/bin/zstd");
    if !program.exists() {
        eprintln!("skipped: no zstd on this machine");
        return;
    }
    // This text needs many blocks.
    let mut text = String::new();
    for number in 0_u64..200_000 {
        text.push_str(&format!(
            "{:x}\n",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ));
    }
    let bytes = archive(&[dir("usr"), file("usr/first", "1"), file("usr/large", &text)]);
    let scratch = tempfile::tempdir().unwrap();
    let plain = scratch.path().join("plain");
    fs::write(&plain, bytes).unwrap();
    let mut compress = std::process::Command::new(program);
    let output = compress.arg("-c").arg(&plain).output().unwrap();
    let mut damaged = output.stdout;
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let error = refusal(&damaged);
    for part in ["usr/large", "damaged or cut off", "make the archive again"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("truncated"), "{error}");
}

#[test]
fn attributes_pass_by_the_list() {
    let records = |pairs: &[(&str, &str)]| -> Vec<u8> {
        let line = |(key, value): &(&str, &str)| {
            let rest = format!(" SCHILY.xattr.{key}={value}\n");
            // The length of a record includes its own digits; all these lengths have two digits.
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
fn an_archive_without_a_root_file_system_is_refused() {
    let error = refusal(&archive(&[file("README", "hello")]));
    assert!(
        error.ends_with("no root file system: it has neither usr nor bin"),
        "{error}"
    );
}
