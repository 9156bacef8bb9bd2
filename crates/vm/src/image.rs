//! Decides whether a file is a disk image that may be used.
//!
//! An image may come from an untrusted source. A qcow2 image can name other files, as its backing
//! file or for its data, and QEMU would open any file that the image names. Such an image is
//! refused. Only the header of the image is read for this check.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Error;
use crate::machine::Format;

/// The properties of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The format of the file.
    pub format: Format,
    /// The size in bytes of the disk that the guest sees.
    pub size: u64,
}

/// Maximum size of a disk, in bytes: 64 TiB.
pub const MAX_DISK_BYTES: u64 = 64 << 40;

/// The size of a disk block in bytes.
const BLOCK: u64 = 512;

const QCOW_MAGIC: [u8; 4] = *b"QFI\xfb";

/// The first bytes of file formats that are not raw disks, and that must not be used as raw disks.
const OTHERS: &[(&[u8], &str)] = &[
    (b"KDMV", "VMDK"),
    (b"COWD", "VMDK"),
    (b"# Disk DescriptorFile", "VMDK"),
    (b"vhdxfile", "VHDX"),
    (b"conectix", "VHD"),
    (b"<<< ", "VDI"),
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"QED\0", "QED"),
];

/// The bits of `incompatible_features` that are accepted: dirty, and compression by zstd. A corrupt
/// image, an image with its data in another file, and features of later releases are refused.
const KNOWN_FEATURES: u64 = 1 | 1 << 3;

/// Returns the format and size of an image.
///
/// # Errors
/// Fails with [`Error::Image`] and the reason if the image cannot be used; `name` is the image's
/// name for messages.
pub fn inspect(file: &File, name: &str) -> Result<Image, Error> {
    let fail = |why: &str| Error::Image(format!("{name}: {why}"));
    let length = file
        .metadata()
        .map_err(Error::io(format!("look at {name}")))?
        .len();
    let mut header = [0; 104];
    let read = read_some(file, &mut header).map_err(Error::io(format!("read {name}")))?;
    if header[..4] == QCOW_MAGIC {
        return qcow2(&header[..read], fail);
    }
    if let Some((_, kind)) = OTHERS.iter().find(|(magic, _)| header.starts_with(magic)) {
        return Err(fail(&format!(
            "this is {kind}; convert it to raw or qcow2 first (qemu-img convert)"
        )));
    }
    if length == 0 || length % BLOCK != 0 {
        return Err(fail(
            "not a raw disk: its length is not a whole number of blocks of 512 bytes",
        ));
    }
    size(length, fail).map(|size| Image {
        format: Format::Raw,
        size,
    })
}

fn read_some(file: &File, into: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn size(size: u64, fail: impl Fn(&str) -> Error) -> Result<u64, Error> {
    match size {
        0 => Err(fail("the disk is empty")),
        size if size > MAX_DISK_BYTES => Err(fail("the disk is larger than 64 TiB")),
        size if size % BLOCK != 0 => Err(fail("the disk ends within a block")),
        size => Ok(size),
    }
}

fn qcow2(header: &[u8], fail: impl Fn(&str) -> Error) -> Result<Image, Error> {
    if header.len() < 72 {
        return Err(fail("a qcow2 that ends within its header"));
    }
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    let version = word(4);
    if !matches!(version, 2 | 3) {
        return Err(fail(&format!(
            "a qcow2 of version {version}; 2 and 3 are known"
        )));
    }
    if long(8) != 0 || word(16) != 0 {
        return Err(fail(
            "it stands on another file (backing file), which is not followed; flatten it first (qemu-img convert)",
        ));
    }
    if !(9..=21).contains(&word(20)) {
        return Err(fail("a qcow2 with clusters of an impossible size"));
    }
    if word(32) != 0 {
        return Err(fail("an encrypted qcow2, which cannot be opened"));
    }
    if version == 3 {
        if header.len() < 104 {
            return Err(fail("a qcow2 that ends within its header"));
        }
        let features = long(72);
        if features & 2 != 0 {
            return Err(fail(
                "a qcow2 that is marked as corrupt; repair it first (qemu-img check -r)",
            ));
        }
        if features & 4 != 0 {
            return Err(fail(
                "a qcow2 that keeps its data in another file, which is not followed",
            ));
        }
        if features & !KNOWN_FEATURES != 0 {
            return Err(fail("a qcow2 with features that are not known here"));
        }
    }
    size(long(24), fail).map(|size| Image {
        format: Format::Qcow2,
        size,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn header(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut header = crate::overlay::header(1 << 30).unwrap();
        change(&mut header);
        header
    }

    fn look(content: &[u8]) -> Result<Image, String> {
        inspect(&file(content), "x").map_err(|error| error.to_string())
    }

    #[test]
    fn raw_and_qcow2_are_told_apart() {
        let raw = look(&[0; 1024]).unwrap();
        assert_eq!((raw.format, raw.size), (Format::Raw, 1024));
        let qcow2 = look(&header(|_| {})).unwrap();
        assert_eq!((qcow2.format, qcow2.size), (Format::Qcow2, 1 << 30));
    }

    #[test]
    fn disk_images_that_refer_to_other_files_are_refused() {
        let backing = header(|h| h[8..16].copy_from_slice(&104u64.to_be_bytes()));
        assert!(look(&backing).unwrap_err().contains("backing file"));
        let length = header(|h| h[16..20].copy_from_slice(&10u32.to_be_bytes()));
        assert!(look(&length).unwrap_err().contains("backing file"));
        let data = header(|h| h[79] |= 4);
        assert!(look(&data).unwrap_err().contains("another file"));
        let unknown = header(|h| h[72] |= 1);
        assert!(look(&unknown).unwrap_err().contains("not known"));
        let corrupt = header(|h| h[79] |= 2);
        assert!(look(&corrupt).unwrap_err().contains("corrupt"));
        let locked = header(|h| h[35] = 1);
        assert!(look(&locked).unwrap_err().contains("encrypted"));
    }

    #[test]
    fn errors_name_the_format_of_files_that_are_no_disks() {
        for (content, expected) in [
            (&b""[..], "whole number of blocks"),
            (&[0; 513], "whole number of blocks"),
            (b"KDMV and more", "VMDK"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"QFI\xfb\0\0\0\x03", "within its header"),
            (b"QFI\xfb", "within its header"),
        ] {
            let error = look(content).unwrap_err();
            assert!(error.contains(expected), "{content:?}: {error}");
        }
        let huge = header(|h| h[24] = 0xff);
        assert!(look(&huge).unwrap_err().contains("64 TiB"));
        let odd = header(|h| h[31] = 1);
        assert!(look(&odd).unwrap_err().contains("within a block"));
        let version = header(|h| h[7] = 9);
        assert!(look(&version).unwrap_err().contains("version 9"));
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut content = QCOW_MAGIC.to_vec();
            content.extend(&bytes);
            let _ = look(&content);
            let _ = look(&bytes);
        }
    }
}
