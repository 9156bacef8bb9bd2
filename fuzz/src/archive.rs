//! Roots that come as a file from outside: squashfs, cpio, streams of btrfs send and of ZFS, tar. A
//! file that cannot be unpacked is refused, and no file outside of the root changes.

use std::fs;

use brand::{ImageLimits, ImageSource, ZfsStream, unpack_within};

/// The first bytes of a btrfs stream, before its version.
const BTRFS: &[u8] = b"btrfs-stream\0";

/// Number of bytes before the body of a command in a btrfs stream: length, number, checksum.
const COMMAND: usize = 10;

/// Limits of a root: a compressed or sparse archive of a few KiB can be large when unpacked.
const LIMITS: ImageLimits = ImageLimits {
    members: 1000,
    bytes: 1 << 20,
    path: 4096,
};

/// Returns one small archive of each kind. The corpus has larger ones.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let cpio = |name: &str, mode: u32, content: &str| {
        let (length, size) = (name.len() + 1, content.len());
        let mut member = format!(
            "070701{0:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}{0:08x}{0:08x}{0:08x}{0:08x}{length:08x}{0:08x}{name}\0",
            0, 1
        );
        while member.len() % 4 != 0 {
            member.push('\0');
        }
        member.push_str(content);
        while member.len() % 4 != 0 {
            member.push('\0');
        }
        member
    };
    let archive = [
        cpio("etc", 0o040_755, ""),
        cpio("etc/passwd", 0o100_644, "root"),
        cpio("etc/link", 0o120_777, "../../out"),
        cpio("TRAILER!!!", 0, ""),
    ];
    let word = |kind: u16, value: &[u8]| {
        let length = u16::try_from(value.len()).unwrap_or_default();
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), value].concat()
    };
    let command = |number: u16, words: &[Vec<u8>]| {
        let body = words.concat();
        let length = u32::try_from(body.len()).unwrap_or_default();
        [
            &length.to_le_bytes()[..],
            &number.to_le_bytes(),
            &[0; 4],
            &body,
        ]
        .concat()
    };
    let path = |name: &str| word(15, name.as_bytes());
    let stream = [
        [BTRFS, &1u32.to_le_bytes()].concat(),
        command(1, &[path("root"), word(1, &[7; 16]), word(2, &[0; 8])]),
        command(4, &[path("etc")]),
        command(3, &[path("new")]),
        command(9, &[path("new"), word(16, b"etc/passwd")]),
        command(
            15,
            &[path("etc/passwd"), word(18, &[0; 8]), word(19, b"root")],
        ),
        command(8, &[path("link"), word(17, b"../../out")]),
        command(18, &[path("etc"), word(5, &0o755u64.to_le_bytes())]),
        command(21, &[]),
    ];
    let mut zfs = vec![0; 312];
    zfs[8..16].copy_from_slice(b"\xac\xcb\xba\xf5\x02\0\0\0");
    zfs[16] = 1;
    zfs[32] = 2;
    vec![archive.concat().into_bytes(), stream.concat(), zfs]
}

/// Writes correct checksums into the commands of a btrfs stream: with a random checksum, a reader
/// would refuse every command.
fn sign(data: &mut [u8]) {
    let mut at = BTRFS.len() + 4;
    while let Some(rest) = data.get_mut(at..).filter(|rest| rest.len() >= COMMAND) {
        let mut length = [0; 4];
        length.copy_from_slice(&rest[..4]);
        let end = COMMAND.saturating_add(u32::from_le_bytes(length) as usize);
        let Some(command) = rest.get_mut(..end) else {
            return;
        };
        command[6..10].fill(0);
        let sum = crc32c(command);
        command[6..10].copy_from_slice(&sum.to_le_bytes());
        at += end;
    }
}

/// Returns the CRC-32C as the kernel computes it, without the inversions.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    })
}

/// Checks one input.
///
/// # Panics
/// Panics if the input is a finding.
pub fn check(data: &[u8]) {
    let mut data = data.to_vec();
    if data.starts_with(BTRFS) {
        sign(&mut data);
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (input, root) = (folder.path().join("input"), folder.path().join("root"));
    fs::write(&input, &data).expect("the folder is writable");
    fs::write(folder.path().join("out"), "mine").expect("the folder is writable");
    fs::create_dir(&root).expect("the folder is writable");
    // Both may be refused, with a message of one line.
    if let Err(error) = ZfsStream::open(&input) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let source = ImageSource::Archive(input.clone());
    if let Err(error) = unpack_within(&root, &source, LIMITS) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let out = fs::read(folder.path().join("out")).expect("it is still there");
    assert_eq!(out, b"mine");
    assert_eq!(fs::read(&input).expect("it is still there"), data);
    let beside = fs::read_dir(folder.path()).expect("the folder can be read");
    assert_eq!(beside.count(), 3, "something was made beside the root");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_come_to_the_members_of_the_seeds() {
        for mut data in seeds().into_iter().take(2) {
            if data.starts_with(BTRFS) {
                sign(&mut data);
            }
            let folder = tempfile::tempdir().unwrap();
            let (input, root) = (folder.path().join("input"), folder.path().join("root"));
            fs::write(&input, &data).unwrap();
            fs::create_dir(&root).unwrap();
            let source = ImageSource::Archive(input);
            let ended = unpack_within(&root, &source, LIMITS);
            let passwd = fs::read(root.join("etc/passwd"));
            assert_eq!(passwd.ok().as_deref(), Some(&b"root"[..]), "{ended:?}");
        }
    }
}
