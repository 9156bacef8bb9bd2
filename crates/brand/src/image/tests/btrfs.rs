//! Tests streams of btrfs.

use super::super::btrfs::{MAGIC, crc32c};
use super::*;

const SUBVOL: u16 = 1;
const MKFILE: u16 = 3;
const MKDIR: u16 = 4;
const MKNOD: u16 = 5;
const MKFIFO: u16 = 6;
const SYMLINK: u16 = 8;
const RENAME: u16 = 9;
const LINK: u16 = 10;
const UNLINK: u16 = 11;
const SET_XATTR: u16 = 13;
const WRITE: u16 = 15;
const CLONE: u16 = 16;
const TRUNCATE: u16 = 17;
const CHMOD: u16 = 18;
const CHOWN: u16 = 19;
const UTIMES: u16 = 20;
const END: u16 = 21;

const PATH: u16 = 15;

fn command(number: u16, words: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, value) in words {
        body.extend_from_slice(&kind.to_le_bytes());
        body.extend_from_slice(&u16::try_from(value.len()).unwrap().to_le_bytes());
        body.extend_from_slice(value);
    }
    let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&body);
    let sum = crc32c(0, &bytes);
    bytes[6..10].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn named(number: u16, path: &str, words: &[(u16, &[u8])]) -> Vec<u8> {
    let mut all = vec![(PATH, path.as_bytes())];
    all.extend_from_slice(words);
    command(number, &all)
}

fn begin() -> Vec<u8> {
    let header = [MAGIC, &1u32.to_le_bytes()].concat();
    let subvolume = named(SUBVOL, "root", &[(1, &[7; 16]), (2, &[0; 8])]);
    [header, subvolume].concat()
}

fn stream(commands: &[Vec<u8>]) -> Vec<u8> {
    [begin(), commands.concat(), command(END, &[])].concat()
}

fn write(path: &str, offset: u64, data: &[u8]) -> Vec<u8> {
    named(WRITE, path, &[(18, &offset.to_le_bytes()), (19, data)])
}

fn own(path: &str) -> Vec<u8> {
    let user = u64::from(rustix::process::geteuid().as_raw()).to_le_bytes();
    let group = u64::from(rustix::process::getegid().as_raw()).to_le_bytes();
    named(CHOWN, path, &[(6, &user), (7, &group)])
}

fn clone(from: &str, uuid: u8, length: u64) -> Vec<u8> {
    let uuid = [uuid; 16];
    named(
        CLONE,
        "usr/copy",
        &[
            (18, &0u64.to_le_bytes()),
            (24, &length.to_le_bytes()),
            (20, &uuid),
            (22, from.as_bytes()),
            (23, &1u64.to_le_bytes()),
        ],
    )
}

/// The kernel first creates every object under a temporary name, and so does this stream.
#[test]
fn a_stream_arrives_whole() {
    let mode = |mode: u64| mode.to_le_bytes();
    let time = [1_000_000_000u64.to_le_bytes().as_slice(), &[0; 4]].concat();
    let bytes = stream(&[
        named(CHMOD, "", &[(5, &mode(0o700))]),
        named(MKDIR, "o256-5-0", &[]),
        named(MKFILE, "o257-5-0", &[]),
        named(RENAME, "o257-5-0", &[(16, b"o256-5-0/a")]),
        named(MKNOD, "o258-5-0", &[(5, &mode(0o20_666)), (8, &mode(259))]),
        named(RENAME, "o258-5-0", &[(16, b"o256-5-0/null")]),
        named(RENAME, "o256-5-0", &[(16, b"usr")]),
        named(CHMOD, "usr/null", &[(5, &mode(0o666))]),
        own("usr/null"),
        write("usr/a", 0, b"hello"),
        write("usr/a", 5, b" world"),
        named(
            SET_XATTR,
            "usr/a",
            &[(13, b"trusted.overlay.opaque"), (14, b"y")],
        ),
        own("usr/a"),
        named(CHMOD, "usr/a", &[(5, &mode(0o4755))]),
        named(LINK, "usr/b", &[(17, b"usr/a")]),
        named(MKFILE, "usr/copy", &[]),
        clone("usr/a", 7, 4),
        named(SYMLINK, "usr/l", &[(17, b"../etc/passwd")]),
        own("usr/l"),
        named(MKFIFO, "usr/pipe", &[]),
        named(CHMOD, "usr/pipe", &[(5, &mode(0o640))]),
        named(MKFILE, "usr/gone", &[]),
        named(UNLINK, "usr/gone", &[]),
        named(MKFILE, "usr/hole", &[]),
        write("usr/hole", 1 << 20, &[0; 4096]),
        named(TRUNCATE, "usr/hole", &[(4, &(3u64 << 20).to_le_bytes())]),
        named(UTIMES, "usr", &[(10, &time)]),
    ]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    for bytes in [bytes, gzip.finish().unwrap()] {
        let mut trial = Trial::new();
        let installed = trial.unpack(&bytes).unwrap();
        assert_eq!(
            (installed.files, installed.directories, installed.links),
            (4, 1, 1)
        );
        assert_eq!(installed.left_out, 1);
        let read = |name: &str| fs::read_to_string(trial.path(name)).unwrap();
        assert_eq!(
            (read("usr/a"), read("usr/copy")),
            ("hello world".into(), "ello".into())
        );
        let a = trial.path("usr/a").metadata().unwrap();
        assert_eq!((a.nlink(), a.mode() & 0o7777), (2, 0o4755));
        let link = fs::read_link(trial.path("usr/l")).unwrap();
        assert_eq!(link, Path::new("../etc/passwd"));
        let pipe = trial.path("usr/pipe").metadata().unwrap();
        assert!(pipe.file_type().is_fifo() && pipe.mode() & 0o7777 == 0o640);
        let hole = trial.path("usr/hole").metadata().unwrap();
        assert_eq!(hole.len(), 3 << 20);
        assert!(hole.blocks() < 64, "{}", hole.blocks());
        assert_eq!(trial.path("usr").metadata().unwrap().mtime(), 1_000_000_000);
        for name in ["usr/null", "usr/gone", "o256-5-0"] {
            assert!(!trial.path(name).exists(), "{name}");
        }
    }
}

#[test]
fn hostile_streams_are_refused() {
    let usr = || named(MKDIR, "usr", &[]);
    let link = |target: &str| named(SYMLINK, "usr/l", &[(17, target.as_bytes())]);
    let file = || named(MKFILE, "usr/a", &[]);
    let id = 70_000u64.to_le_bytes();
    let mut damaged = stream(&[usr()]);
    *damaged.last_mut().unwrap() ^= 1;
    let mut cut = stream(&[usr(), file()]);
    cut.truncate(cut.len() - 12);
    let long = [begin(), u32::MAX.to_le_bytes().to_vec(), vec![0; 6]].concat();
    let twice = [stream(&[usr()]), stream(&[usr()])].concat();
    let many: Vec<_> = (0..5000)
        .map(|i| named(MKNOD, &format!("n{i}"), &[]))
        .collect();
    for (bytes, why) in [
        (stream(&[named(MKDIR, "../usr", &[])]), "'..'"),
        (stream(&[named(MKDIR, "/usr", &[])]), "absolute"),
        (
            stream(&[usr(), file(), named(RENAME, "usr/a", &[(16, b"../a")])]),
            "'..'",
        ),
        (
            stream(&[usr(), file(), named(LINK, "usr/b", &[(17, b"/etc/passwd")])]),
            "absolute",
        ),
        (
            stream(&[usr(), link("/etc"), named(MKFILE, "usr/l/x", &[])]),
            "symbolic link",
        ),
        (
            stream(&[usr(), link("/etc/passwd"), write("usr/l", 0, b"x")]),
            "cannot write",
        ),
        (
            stream(&[
                usr(),
                link("/etc/passwd"),
                named(CHMOD, "usr/l", &[(5, &[0; 8])]),
            ]),
            "symbolic link",
        ),
        (
            stream(&[
                usr(),
                link("/etc/passwd"),
                named(LINK, "usr/b", &[(17, b"usr/l")]),
            ]),
            "hard link",
        ),
        (
            stream(&[usr(), named(MKFIFO, "usr/p", &[]), write("usr/p", 0, b"x")]),
            "cannot write",
        ),
        (
            stream(&[usr(), file(), named(CHOWN, "usr/a", &[(6, &id), (7, &id)])]),
            "owner",
        ),
        (
            stream(&[usr(), file(), write("usr/a", u64::MAX, b"x")]),
            "more than",
        ),
        (
            stream(&[usr(), file(), named(TRUNCATE, "usr/a", &[(4, &[0xff; 8])])]),
            "more than",
        ),
        (
            stream(&[
                usr(),
                named(MKFILE, "usr/copy", &[]),
                clone("usr/copy", 8, 9),
            ]),
            "another subvolume",
        ),
        (
            stream(&[
                usr(),
                named(MKFILE, "usr/copy", &[]),
                clone("usr/copy", 7, 9),
            ]),
            "not there",
        ),
        (stream(&[usr(), usr()]), "there twice"),
        (stream(&[named(2, "x", &[])]), "increment"),
        (stream(&[usr(), named(25, "x", &[])]), "compressed"),
        (stream(&[usr(), named(22, "x", &[])]), "without data"),
        (stream(&[usr(), named(99, "x", &[])]), "command 99"),
        (
            stream(&[usr(), named(MKFILE, "a\0b", &[])]),
            "without a name",
        ),
        (
            stream(&[
                command(MKDIR, &[(PATH, b"usr")]),
                command(CHMOD, &[(PATH, b"usr")]),
            ]),
            "number",
        ),
        (stream(&many), "too many device nodes"),
        (stream(&[]), "neither usr nor bin"),
        (damaged, "checksum"),
        (cut, "truncated"),
        (long, "too large"),
        (twice, "more than one"),
        (
            [MAGIC, &[1, 0, 0, 0], &command(END, &[])].concat(),
            "no subvolume",
        ),
    ] {
        let error = refusal(&bytes);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn a_stream_is_bounded() {
    let commands: Vec<_> = (0..1000)
        .map(|_| named(CHMOD, "", &[(5, &[0; 8])]))
        .collect();
    let few = Limits {
        members: 10,
        ..LIMITS
    };
    let mut trial = Trial::new();
    let error = trial
        .unpack_within(&stream(&commands), few)
        .unwrap_err()
        .to_string();
    assert!(error.contains("more commands"), "{error}");
}
