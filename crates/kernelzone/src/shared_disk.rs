//! Proves that a disk outside the zonepath is the same storage on two hosts, so that a migration
//! need not copy it.
//!
//! Equal paths prove nothing. The source makes a [`Sign`] of each such disk, and the target looks
//! for the sign on the storage that it has at the path of its own configuration:
//!
//! - **A file**: the source holds a lock of a random byte behind the end of the file, and the
//!   target must see this lock. Only a file system for several hosts with locks, such as NFS, shows
//!   it there. Nothing is written to the file.
//! - **A block device**: both kernels must report the same name that is unique in the world (WWN,
//!   EUI-64, NGUID; the map of a multipath device; the UUID of an LVM volume with the names of the
//!   devices below it), and the same bytes in random places. Bytes of zeros prove nothing. Nothing is written to the device, because all its bytes belong to the guest.
//!
//! In both cases the sizes must be equal, and both hosts must read and write the storage past their
//! page caches: otherwise a guest that arrives would read old bytes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use storage::sparse;
use vm::Format;

use crate::disks::{self, Place};
use host::Error;

/// Number of random pieces of a block device that the hosts compare.
const PIECES: usize = 64;

/// Minimum number of pieces that must be equal: the guest may write to others between the two
/// reads.
const EQUAL_PIECES: usize = 56;

/// Number of pieces that are not zeros that the source looks for, and the minimum of these that must
/// be equal.
const TELLING_PIECES: usize = 8;
const EQUAL_TELLING_PIECES: usize = 4;

/// Number of pieces at the start of a device that are searched if the random ones are zeros. The
/// identifiers of a partition table or a file system are there.
const HEAD_PIECES: u64 = 1024;

/// Maximum length of a name of the other host in a message, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Length of a piece in bytes, and the alignment that direct I/O needs on any device.
const PIECE_BYTES: usize = 4096;

/// The sign by which another host recognizes a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sign {
    /// Number of the disk.
    pub id: u32,
    /// Size of the disk in bytes.
    size: u64,
    proof: Proof,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Proof {
    /// The offset of the byte that the source has locked.
    File { lock: u64 },
    Device {
        /// The name of the device that is unique in the world.
        name: String,
        /// The offsets of the compared pieces with their checksums in hexadecimal digits.
        pieces: Vec<(u64, String)>,
    },
}

/// The reason why a disk is not known to be shared.
#[derive(Debug, thiserror::Error)]
enum NotShared {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("its file system has no direct I/O, so this host could read old bytes of it")]
    NotDirect,
    #[error("its size is {here} bytes on the target and {there} bytes on the source")]
    Size { here: u64, there: u64 },
    #[error("it is a block device on one host and a file on the other")]
    Kind,
    #[error(
        "the target does not see the lock that the source holds on it: it is another file, or a file system without locks between hosts"
    )]
    NoLock,
    #[error(
        "this host reports no name of the device that is unique in the world (WWN, EUI-64 or NGUID, a multipath map, an LVM volume)"
    )]
    Nameless,
    #[error("it is the device {here} on the target and {there} on the source")]
    Name { here: String, there: String },
    #[error(
        "{equal} of {PIECES} compared pieces have equal bytes on both hosts, at least {EQUAL_PIECES} must"
    )]
    Bytes { equal: usize },
    #[error(
        "{equal} of its compared pieces with other bytes than zeros are equal on both hosts, at least {EQUAL_TELLING_PIECES} must: a device with nothing on it proves nothing, so make a file system on it first"
    )]
    Zeros { equal: usize },
}

/// A disk on shared storage, as the source has it. The sign is valid as long as this value lives.
#[derive(Debug)]
pub struct Shared {
    /// The sign for the target.
    pub sign: Sign,
    /// Holds the lock of a file.
    _file: File,
}

/// Makes the sign of a disk outside the zonepath.
///
/// # Errors
/// Fails with [`Error::Refused`] if no other host could recognize the disk.
pub fn sign(place: &Place) -> Result<Shared, Error> {
    make_sign(place).map_err(|why| refused(place, &why))
}

/// Checks that a disk of this host is the storage that the source has signed.
///
/// # Errors
/// Fails with [`Error::Refused`] and the difference.
pub fn check(place: &Place, sign: &Sign) -> Result<(), Error> {
    find_sign(place, sign).map_err(|why| refused(place, &why))
}

fn refused(place: &Place, why: &NotShared) -> Error {
    Error::Refused(format!(
        "disk {} is {}, outside the zonepath, and is not the same storage on both hosts: {why}. Mount the same storage on both hosts, or move the disk into the zonepath, which is copied.",
        place.id,
        place.path.display()
    ))
}

fn make_sign(place: &Place) -> Result<Shared, NotShared> {
    let (file, is_device) = open(&place.path)?;
    let size = disks::length(&place.path)?;
    let proof = match is_device {
        false => {
            let lock = random()? % sys::byte_lock::OFFSETS;
            sys::byte_lock::hold(&file, lock)?;
            Proof::File { lock }
        }
        true => Proof::Device {
            name: name_of(&file)?,
            pieces: pieces(&file, size)?,
        },
    };
    Ok(Shared {
        sign: Sign {
            id: place.id,
            size,
            proof,
        },
        _file: file,
    })
}

fn find_sign(place: &Place, sign: &Sign) -> Result<(), NotShared> {
    let (file, is_device) = open(&place.path)?;
    let here = disks::length(&place.path)?;
    if here != sign.size {
        let there = sign.size;
        return Err(NotShared::Size { here, there });
    }
    match &sign.proof {
        Proof::File { lock } if !is_device => match sys::byte_lock::is_held(&file, *lock)? {
            true => Ok(()),
            false => Err(NotShared::NoLock),
        },
        Proof::Device { name, pieces } if is_device => {
            let here = name_of(&file)?;
            if here != *name {
                let printable = name.chars().filter(|c| c.is_ascii_graphic() || *c == ' ');
                let there = printable.take(MAX_NAME_CHARS).collect();
                return Err(NotShared::Name { here, there });
            }
            compare(&file, pieces)
        }
        _ => Err(NotShared::Kind),
    }
}

/// Returns the offsets and checksums of random pieces of a device. If too few of them have other
/// bytes than zeros, pieces from the start of the device are added.
fn pieces(device: &File, size: u64) -> io::Result<Vec<(u64, String)>> {
    let zeros = hexadecimal(&[0; PIECE_BYTES]);
    let count = (size / PIECE_BYTES as u64).max(1);
    let mut found = (0..PIECES)
        .map(|_| {
            let at = random()? % count * PIECE_BYTES as u64;
            Ok((at, piece(device, at)?))
        })
        .collect::<io::Result<Vec<_>>>()?;
    let mut telling = found.iter().filter(|(_, sum)| *sum != zeros).count();
    for number in 0..count.min(HEAD_PIECES) {
        if telling >= TELLING_PIECES {
            break;
        }
        let at = number * PIECE_BYTES as u64;
        let sum = piece(device, at)?;
        if sum != zeros && found.iter().all(|(known, _)| *known != at) {
            telling += 1;
            found.push((at, sum));
        }
    }
    Ok(found)
}

/// Compares the pieces of the source with those of this host's device.
fn compare(device: &File, pieces: &[(u64, String)]) -> Result<(), NotShared> {
    let zeros = hexadecimal(&[0; PIECE_BYTES]);
    let (mut equal, mut telling) = (0, Vec::new());
    for (at, sum) in pieces.iter().take(PIECES + TELLING_PIECES) {
        if piece(device, *at)? != *sum {
            continue;
        }
        equal += 1;
        if *sum != zeros {
            telling.push(at);
        }
    }
    telling.sort_unstable();
    telling.dedup();
    match telling.len() {
        _ if equal < EQUAL_PIECES => Err(NotShared::Bytes { equal }),
        equal if equal < EQUAL_TELLING_PIECES => Err(NotShared::Zeros { equal }),
        _ => Ok(()),
    }
}

/// Opens a disk for reading past the page cache. Returns the file, and true if it is a block device.
fn open(path: &Path) -> Result<(File, bool), NotShared> {
    let part = disks::part(path, Format::Raw)?;
    if !part.direct {
        return Err(NotShared::NotDirect);
    }
    let mut flags = OFlags::NONBLOCK | OFlags::DIRECT;
    if !path.starts_with("/dev") {
        flags |= OFlags::NOFOLLOW;
    }
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    Ok((file, part.block_device))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // getrandom(2) returns up to 256 bytes completely or fails.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns the checksum of the piece at this offset.
fn piece(device: &File, at: u64) -> io::Result<String> {
    // Direct I/O needs memory that is aligned like the device.
    let mut memory = vec![0; 2 * PIECE_BYTES];
    let skip = memory.as_ptr().align_offset(PIECE_BYTES).min(PIECE_BYTES);
    let piece = &mut memory[skip..skip + PIECE_BYTES];
    device.read_exact_at(piece, at)?;
    Ok(hexadecimal(piece))
}

/// Returns the checksum of these bytes.
fn hexadecimal(bytes: &[u8]) -> String {
    let sum = sparse::sum(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the name of a block device that is unique in the world.
fn name_of(device: &File) -> Result<String, NotShared> {
    let number = device.metadata()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    name_in(&fs::canonicalize(folder)?).ok_or(NotShared::Nameless)
}

/// Returns the unique name of the device with this folder of sysfs.
fn name_in(folder: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    if let Some(part) = read("partition") {
        let disk = name_in(folder.parent()?)?;
        return Some(format!("{disk} partition {part} at {}", read("start")?));
    }
    if let Some(uuid) = read("dm/uuid") {
        // Other maps have names that only this host knows.
        let is_unique = ["mpath-", "LVM-"]
            .iter()
            .any(|kind| uuid.starts_with(kind) || uuid.starts_with("part") && uuid.contains(kind));
        return match is_unique && uuid.contains("LVM-") {
            // A clone of a whole host has volumes with the same UUID on other devices.
            true => Some(format!("{uuid} on {}", names_below(folder)?)),
            false => is_unique.then_some(uuid),
        };
    }
    // Names of other kinds consist of a vendor and a serial number. Virtual disks of different
    // hosts often have the same serial number.
    ["wwid", "device/wwid"]
        .iter()
        .filter_map(|name| read(name))
        .find(|name| {
            ["naa.", "eui.", "uuid."]
                .iter()
                .any(|kind| name.starts_with(kind))
        })
}

/// Returns the unique names of all devices on which a mapped device stands; `None` if one of them
/// has no such name.
fn names_below(folder: &Path) -> Option<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("slaves")).ok()? {
        names.push(name_in(&entry.ok()?.path().canonicalize().ok()?)?);
    }
    names.sort();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: PathBuf) -> Place {
        Place {
            id: 1,
            boot: None,
            path,
            size: None,
        }
    }

    #[test]
    fn a_file_is_recognized_by_a_lock_and_not_by_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            fs::write(path, vec![7; 2 * PIECE_BYTES]).unwrap();
        }
        let linked = folder.path().join("linked");
        fs::hard_link(&one, &linked).unwrap();
        let signed = match make_sign(&place(one.clone())) {
            Err(NotShared::NotDirect) => return println!("skipped: no direct I/O here"),
            other => other.unwrap(),
        };
        check(&place(linked.clone()), &signed.sign).unwrap();
        let error = check(&place(two.clone()), &signed.sign).unwrap_err();
        assert!(
            error.to_string().contains("does not see the lock"),
            "{error}"
        );
        fs::write(&two, [7]).unwrap();
        let error = check(&place(two.clone()), &signed.sign).unwrap_err();
        assert!(
            error.to_string().contains("1 bytes on the target"),
            "{error}"
        );
        fs::remove_file(&two).unwrap();
        assert!(check(&place(two), &signed.sign).is_err());
        // The sign ends with its holder.
        let sign = signed.sign.clone();
        drop(signed);
        assert!(check(&place(linked), &sign).is_err());
    }

    #[test]
    fn only_names_that_are_unique_in_the_world_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let name = |device: &str| name_in(&folder.path().join(device));
        write("sda/device/wwid", "naa.600140\n");
        write("sda/sda2/partition", "2\n");
        write("sda/sda2/start", "2048\n");
        write("sdb/device/wwid", "t10.ATA     QEMU HARDDISK  QM00001\n");
        write("nvme0n1/wwid", "eui.0025\n");
        write("nvme1n1/wwid", "nvme.1b36-31-51454d55\n");
        write("dm-0/dm/uuid", "mpath-3600140\n");
        write("dm-1/dm/uuid", "part1-mpath-3600140\n");
        write("dm-2/dm/uuid", "LVM-abc\n");
        // A volume on a thin pool on a partition, and one that has a nameless device, too.
        let below = |device: &str, names: &[&str]| {
            let slaves = folder.path().join(device).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            for (number, name) in names.iter().enumerate() {
                let link = slaves.join(number.to_string());
                std::os::unix::fs::symlink(folder.path().join(name), link).unwrap();
            }
        };
        write("dm-5/dm/uuid", "LVM-pool-tpool\n");
        below("dm-2", &["dm-5"]);
        below("dm-5", &["nvme0n1", "sda/sda2"]);
        write("dm-6/dm/uuid", "LVM-abc\n");
        below("dm-6", &["sda", "sdb"]);
        write("dm-7/dm/uuid", "LVM-abc\n");
        write("dm-3/dm/uuid", "CRYPT-PLAIN-x\n");
        write("dm-4/dm/uuid", "\n");
        assert_eq!(name("sda").as_deref(), Some("naa.600140"));
        let part = Some("naa.600140 partition 2 at 2048");
        assert_eq!(name("sda/sda2").as_deref(), part);
        assert_eq!(name("nvme0n1").as_deref(), Some("eui.0025"));
        assert_eq!(name("dm-0").as_deref(), Some("mpath-3600140"));
        assert_eq!(name("dm-1").as_deref(), Some("part1-mpath-3600140"));
        let stands = "LVM-abc on LVM-pool-tpool on eui.0025, naa.600140 partition 2 at 2048";
        assert_eq!(name("dm-2").as_deref(), Some(stands));
        for nameless in ["sdb", "nvme1n1", "dm-3", "dm-4", "dm-6", "dm-7", "loop0"] {
            assert_eq!(name(nameless), None, "{nameless}");
        }
    }

    #[test]
    fn zeros_prove_nothing() {
        let one = tempfile::tempfile().unwrap();
        let size = 64 << 20;
        one.set_len(size).unwrap();
        let refused = |device: &File, pieces: &[(u64, String)]| {
            compare(device, pieces).unwrap_err().to_string()
        };
        let empty = pieces(&one, size).unwrap();
        assert!(refused(&one, &empty).contains("0 of its compared pieces with other bytes"));
        // Only the start of the device has data, as with a new file system.
        let block = PIECE_BYTES as u64;
        for number in 0..EQUAL_TELLING_PIECES as u64 {
            one.write_all_at(&[7, 1], (3 + number) * block).unwrap();
        }
        let signed = pieces(&one, size).unwrap();
        compare(&one, &signed).unwrap();
        // Another device with other bytes there and the same zeros elsewhere.
        let two = tempfile::tempfile().unwrap();
        two.set_len(size).unwrap();
        two.write_all_at(&[8], 3 * block).unwrap();
        assert!(compare(&two, &signed).is_err());
        // One piece that is named often is one piece.
        let often = vec![signed[PIECES].clone(); PIECES];
        assert!(refused(&one, &often).contains("1 of its compared pieces"));
    }
}
