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
    // A hard link to a link is no way out either.
    let hard = member(b'1', b"usr/y", b"usr/x", 0o644, b"");
    let error = refusal(&archive(&[dir("usr"), link("usr/x", "/etc/passwd"), hard]));
    assert!(
        error.contains("usr/y: cannot make the hard link"),
        "{error}"
    );
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
