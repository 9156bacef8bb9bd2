//! Tests cpio archives.

use super::*;

/// Makes a member of a cpio archive.
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
        // The first names of a file have no content.
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
        (with(sign), "other characters than digits"),
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
