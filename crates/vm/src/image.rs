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

/// Grows an image to this size in bytes; an image that has the size already stays unchanged. The
/// file must be open for reading and writing, and no QEMU may use it. The new size is on stable
/// storage when this function returns.
///
/// # Errors
/// Fails with [`Error::Image`] if the image is larger, or if a qcow2 has no room for the size in its
/// tables.
pub fn grow(file: &File, size: u64, name: &str) -> Result<(), Error> {
    let fail = |why: &str| Error::Image(format!("{name}: {why}"));
    let image = inspect(file, name)?;
    self::size(size, fail)?;
    if size < image.size {
        return Err(fail(&format!(
            "the disk has {} bytes, and a disk never shrinks",
            image.size
        )));
    }
    if size > image.size {
        match image.format {
            Format::Raw => file
                .set_len(size)
                .map_err(Error::io(format!("grow {name}")))?,
            Format::Qcow2 => grow_qcow2(file, size, name)?,
        }
    }
    file.sync_all().map_err(Error::io(format!("grow {name}")))
}

/// Grows a qcow2 whose header [`inspect`] accepted. The table of the first level has one entry for
/// each part of the disk, and ends within a cluster of its own, so the rest of that cluster is free
/// for new entries. The header changes in one write, within the first block of the file.
fn grow_qcow2(file: &File, size: u64, name: &str) -> Result<(), Error> {
    let fail = |why: &str| Error::Image(format!("{name}: {why}"));
    let io = || Error::io(format!("grow {name}"));
    let mut header = [0; 104];
    read_some(file, &mut header).map_err(io())?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    // Older tools would not keep bitmaps, snapshots and other parts in step with the new size.
    if word(60) != 0 || (word(4) == 3 && long(88) != 0) {
        return Err(fail(
            "a qcow2 with snapshots or bitmaps of its own; grow it with qemu-img resize",
        ));
    }
    let cluster = 1_u64 << word(20);
    let (entries, table) = (u64::from(word(36)), long(40));
    let needed = size.div_ceil(cluster / 8 * cluster);
    let room = (entries * 8).div_ceil(cluster) * cluster / 8;
    let count = u32::try_from(needed).ok().filter(|_| needed <= room);
    let Some(count) = count.filter(|_| table >= cluster && table % cluster == 0) else {
        return Err(fail(
            "its tables have no room for this size; grow it with qemu-img resize, or while the zone runs",
        ));
    };
    let new = needed.saturating_sub(entries);
    // The tables of the largest disk are some MiB long, because of the bounds on both sizes.
    let zeros = vec![0; usize::try_from(new * 8).unwrap_or(0)];
    file.write_all_at(&zeros, table.saturating_add(entries * 8))
        .and_then(|()| file.sync_all())
        .map_err(io())?;
    let mut changed = [0; 16];
    changed[..8].copy_from_slice(&size.to_be_bytes());
    changed[12..].copy_from_slice(&count.max(word(36)).to_be_bytes());
    file.write_all_at(&changed, 24).map_err(io())
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

    #[test]
    fn images_grow_and_never_shrink() {
        let raw = file(&[7; 1024]);
        grow(&raw, 4096, "x").unwrap();
        assert_eq!(raw.metadata().unwrap().len(), 4096);
        let less = grow(&raw, 1024, "x").unwrap_err().to_string();
        assert!(less.contains("never shrinks"), "{less}");
        assert!(grow(&raw, 4097, "x").is_err());
        assert_eq!(raw.metadata().unwrap().len(), 4096);
        let qcow2 = file(&crate::overlay::empty(1 << 30).unwrap());
        for size in [1 << 30, 16 << 30, 1 << 42] {
            grow(&qcow2, size, "x").unwrap();
            assert_eq!(inspect(&qcow2, "x").unwrap().size, size);
        }
        // One cluster of 64 KiB has entries for 4 TiB.
        let full = grow(&qcow2, (1 << 42) + 512, "x").unwrap_err().to_string();
        assert!(full.contains("no room"), "{full}");
        let own = file(&header(|h| h[63] = 1));
        let why = grow(&own, 2 << 30, "x").unwrap_err().to_string();
        assert!(why.contains("snapshots"), "{why}");
    }

    /// If QEMU's own tool is installed, it must accept the grown overlay.
    #[test]
    fn qemus_own_check_takes_a_grown_overlay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.qcow2");
        std::fs::write(&path, crate::overlay::empty(512 << 20).unwrap()).unwrap();
        let open = File::options().read(true).write(true).open(&path).unwrap();
        grow(&open, 100 << 30, "x").unwrap();
        let check = std::process::Command::new("qemu-img")
            .args(["check", "-f", "qcow2"])
            .arg(&path)
            .output();
        match check {
            Ok(check) => assert!(check.status.success(), "{check:?}"),
            Err(_) => println!(
                "skipped: qemus_own_check_takes_a_grown_overlay: qemu-img is not installed"
            ),
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut content = QCOW_MAGIC.to_vec();
            content.extend(&bytes);
            let _ = look(&content);
            let _ = look(&bytes);
            let _ = grow(&file(&content), 1 << 40, "x");
        }
    }
}
