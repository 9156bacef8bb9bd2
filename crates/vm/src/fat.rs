//! Makes small disks with a FAT file system that every guest can read.
//!
//! The disk has no partition table and the file system FAT16 with clusters of one sector. Files are
//! in the root folder, with long names. The layout is that of Microsoft's specification of FAT.

/// The size of a sector and of a cluster, in bytes.
const SECTOR: usize = 512;
/// The size of the disk, in sectors: 8 MiB.
const SECTORS: usize = 16_384;
/// The size of one file allocation table, in sectors: enough for the clusters of the disk.
const TABLE_SECTORS: usize = 64;
/// Maximum number of entries of the root folder.
const ROOT_ENTRIES: usize = 512;
/// The size of an entry of a folder, in bytes.
const ENTRY: usize = 32;
/// The number of characters of a long name in one entry.
const NAME_PART: usize = 13;
/// The length of a short name and of a label, in bytes.
const SHORT_NAME: usize = 11;
/// The mark of the last cluster of a file.
const LAST: usize = 0xffff;
/// 1 January 1980, the first date of FAT. All files have it, so equal files make equal disks.
const DATE: u16 = 0x0021;

/// The offset of the first table, of the root folder, and of the first cluster, in bytes.
const TABLES_AT: usize = SECTOR;
const ROOT_AT: usize = TABLES_AT + 2 * TABLE_SECTORS * SECTOR;
const DATA_AT: usize = ROOT_AT + ROOT_ENTRIES * ENTRY;
/// The number of clusters of the disk.
const CLUSTERS: usize = (SECTORS * SECTOR - DATA_AT) / SECTOR;

/// The reason why a disk cannot hold files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The label, or the name of a file, cannot be stored.
    #[error("{0:?}: expected 1 to 64 letters, digits, dots and hyphens; a label has at most 11")]
    Name(String),
    /// The files are too many or too large.
    #[error("the files are larger than a disk of 8 MiB")]
    Full,
}

/// Returns the content of a disk with this label and these files.
///
/// # Errors
/// Fails with [`Problem`].
pub fn disk(label: &str, files: &[(&str, &[u8])]) -> Result<Vec<u8>, Problem> {
    let volume = padded(label).filter(|_| is_name(label));
    let volume = volume.ok_or_else(|| Problem::Name(label.to_owned()))?;
    let mut disk = vec![0; SECTORS * SECTOR];
    disk[..SECTOR].copy_from_slice(&boot_sector(&volume));
    let mut table = vec![0xfff8, LAST];
    let mut root = entry(&volume, VOLUME, 0, 0).to_vec();
    for (number, (name, content)) in files.iter().enumerate() {
        if !is_name(name) {
            return Err(Problem::Name((*name).to_owned()));
        }
        let needed = content.len().div_ceil(SECTOR);
        let first = table.len();
        if first - 2 + needed > CLUSTERS {
            return Err(Problem::Full);
        }
        let at = DATA_AT + (first - 2) * SECTOR;
        disk[at..at + content.len()].copy_from_slice(content);
        for place in 1..=needed {
            let next = first + place;
            table.push(if place == needed { LAST } else { next });
        }
        let short = short_name(name, number);
        root.extend(long_name(name, checksum(&short)));
        let first = if needed == 0 { 0 } else { first };
        root.extend(entry(&short, FILE, first, content.len()));
    }
    if root.len() > ROOT_ENTRIES * ENTRY {
        return Err(Problem::Full);
    }
    disk[ROOT_AT..ROOT_AT + root.len()].copy_from_slice(&root);
    for (number, cluster) in table.iter().enumerate() {
        for copy in 0..2 {
            let at = TABLES_AT + copy * TABLE_SECTORS * SECTOR + number * 2;
            disk[at..at + 2].copy_from_slice(&two_bytes(*cluster));
        }
    }
    Ok(disk)
}

/// Returns a number as FAT stores it. All numbers of the disk are below 65,536.
fn two_bytes(number: usize) -> [u8; 2] {
    u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes()
}

fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(legal) && !name.ends_with('.')
}

/// Returns a text of at most 11 bytes, followed by spaces.
fn padded(text: &str) -> Option<[u8; SHORT_NAME]> {
    let mut field = [b' '; SHORT_NAME];
    field
        .get_mut(..text.len())?
        .copy_from_slice(text.as_bytes());
    Some(field)
}

/// Returns a short name that no other file of the disk has. Readers of long names do not show it.
fn short_name(name: &str, number: usize) -> [u8; SHORT_NAME] {
    let mut short = [b' '; SHORT_NAME];
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric).take(4);
    for (place, letter) in short.iter_mut().zip(letters) {
        *place = letter.to_ascii_uppercase();
    }
    let digits = format!("~{:03}", number % 1000);
    short[4..8].copy_from_slice(digits.as_bytes());
    short
}

/// The attribute of the entry that holds the label.
const VOLUME: u8 = 0x08;
/// The attribute of a file that was not backed up.
const FILE: u8 = 0x20;
/// The attribute of an entry that holds a part of a long name.
const LONG_NAME: u8 = 0x0f;

fn entry(name: &[u8; SHORT_NAME], attribute: u8, cluster: usize, size: usize) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..SHORT_NAME].copy_from_slice(name);
    entry[11] = attribute;
    for at in [16, 18, 24] {
        entry[at..at + 2].copy_from_slice(&DATE.to_le_bytes());
    }
    entry[26..28].copy_from_slice(&two_bytes(cluster));
    // The size is below that of the disk.
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    entry[28..32].copy_from_slice(&size.to_le_bytes());
    entry
}

/// Returns the checksum of a short name, which ties a long name to it.
fn checksum(short: &[u8; SHORT_NAME]) -> u8 {
    short
        .iter()
        .fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// Returns the entries of a long name. The last part of the name comes first.
fn long_name(name: &str, checksum: u8) -> Vec<u8> {
    /// The offsets of the characters in an entry.
    const PLACES: [usize; NAME_PART] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
    /// The mark of the last part of a name.
    const LAST_PART: u8 = 0x40;
    let parts: Vec<&[u8]> = name.as_bytes().chunks(NAME_PART).collect();
    let mut entries = Vec::new();
    for (number, part) in parts.iter().enumerate().rev() {
        let mut entry = [0_u8; ENTRY];
        // A name of 64 bytes has five parts.
        entry[0] = u8::try_from(number + 1).unwrap_or(u8::MAX);
        if number + 1 == parts.len() {
            entry[0] |= LAST_PART;
        }
        entry[11] = LONG_NAME;
        entry[13] = checksum;
        for (place, at) in PLACES.into_iter().enumerate() {
            let letter = match part.get(place) {
                Some(byte) => u16::from(*byte),
                None if place == part.len() => 0,
                None => 0xffff,
            };
            entry[at..at + 2].copy_from_slice(&letter.to_le_bytes());
        }
        entries.extend(entry);
    }
    entries
}

fn boot_sector(label: &[u8; SHORT_NAME]) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0xeb, 0x3c, 0x90]);
    put(3, b"MSWIN4.1");
    put(11, &two_bytes(SECTOR));
    // One sector in a cluster, one reserved sector, two tables.
    put(13, &[1, 1, 0, 2]);
    put(17, &two_bytes(ROOT_ENTRIES));
    put(19, &two_bytes(SECTORS));
    put(21, &[0xf8]);
    put(22, &two_bytes(TABLE_SECTORS));
    // The sectors in a track and the heads of an old disk, which are not used.
    put(24, &[32, 0, 64, 0]);
    put(36, &[0x80, 0, 0x29]);
    put(39, b"seed");
    put(43, label);
    put(54, b"FAT16   ");
    put(510, &[0x55, 0xaa]);
    sector
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn refuses_names_and_sizes_that_do_not_fit() {
        let name = |name: &str| Problem::Name(name.to_owned());
        assert_eq!(disk("a-label-of-12", &[]), Err(name("a-label-of-12")));
        assert_eq!(disk("", &[]), Err(name("")));
        assert_eq!(disk("x", &[("a/b", b"")]), Err(name("a/b")));
        assert_eq!(disk("x", &[("", b"")]), Err(name("")));
        let large = vec![0; CLUSTERS * SECTOR];
        assert!(disk("x", &[("a", &large)]).is_ok());
        assert_eq!(disk("x", &[("a", &large), ("b", b"1")]), Err(Problem::Full));
        let many = vec![("a-name-with-more-than-13-letters", &b""[..]); 200];
        assert_eq!(disk("x", &many), Err(Problem::Full));
    }

    #[test]
    fn other_programs_read_the_label_and_the_files() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("disk");
        let long = vec![b'x'; 1500];
        let files: [(&str, &[u8]); 4] = [
            ("meta-data", b"instance-id: 1\n"),
            ("user-data", &long),
            ("network-config", b""),
            ("vendor-data", &long[..512]),
        ];
        std::fs::write(&path, disk("cidata", &files).unwrap()).unwrap();
        let run = |program: &str, words: &[&str]| {
            let output = Command::new(program)
                .args(words)
                .env("MTOOLS_SKIP_CHECK", "0")
                .output();
            output
                .ok()
                .map(|output| (output.status.success(), output.stdout))
        };
        let image = path.to_str().unwrap();
        for (name, content) in files {
            match run("mtype", &["-i", image, &format!("::{name}")]) {
                Some(read) => assert_eq!(read, (true, content.to_vec()), "{name}"),
                None => eprintln!("skipped: no mtools"),
            }
        }
        match run("blkid", &["-p", "-o", "export", image]) {
            Some((_, told)) => {
                let told = String::from_utf8(told).unwrap();
                assert!(told.contains("LABEL=cidata\n"), "{told}");
                assert!(told.contains("TYPE=vfat\n"), "{told}");
            }
            None => eprintln!("skipped: no blkid"),
        }
        match run("fsck.vfat", &["-n", image]) {
            Some((clean, told)) => assert!(clean, "{}", String::from_utf8_lossy(&told)),
            None => eprintln!("skipped: no dosfstools"),
        }
    }
}
