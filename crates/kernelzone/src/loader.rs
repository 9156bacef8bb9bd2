//! Finds out whether a disk or CD starts with a BIOS, with UEFI firmware, or with both.
//!
//! Only tables of a limited size are read. The loader of a qcow2 image stays unknown, because its
//! blocks may be anywhere in the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The kinds of firmware that could start a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways {
    pub bios: bool,
    pub uefi: bool,
}

/// Bytes of a block on a disk, and of a sector on a CD.
const BLOCK: u64 = 512;
const SECTOR: u64 = 2048;

/// Maximum number of partitions of a table that are read.
const MAX_PARTITIONS: usize = 256;

/// The GUID of the type "EFI system partition", in the byte order of a GPT.
const SYSTEM: [u8; 16] = [
    0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b,
];
/// The type of an EFI system partition in an MBR partition table.
const OLD_SYSTEM: u8 = 0xef;

/// Returns the kinds of firmware that can start a disk or CD.
pub(super) fn ways(file: &File) -> io::Result<Ways> {
    let mut mark = [0; 6];
    match file.read_exact_at(&mut mark, 16 * SECTOR) {
        Ok(()) if &mark[1..] == b"CD001" => return cd(file),
        _ => {}
    }
    disk(file)
}

fn disk(file: &File) -> io::Result<Ways> {
    let mut head = [0; 512];
    file.read_exact_at(&mut head, 0)?;
    if head[510..] != [0x55, 0xaa] {
        return Ok(Ways::default());
    }
    let mut kinds = (0..4).map(|at| head[446 + 16 * at + 4]);
    Ok(Ways {
        // An MBR that was not made for a BIOS contains no boot program before its partition table.
        bios: head[..440].iter().any(|&byte| byte != 0),
        uefi: kinds.any(|kind| kind == OLD_SYSTEM) || has_system(file).unwrap_or(false),
    })
}

/// Returns true if the GPT of a disk lists an EFI system partition.
fn has_system(file: &File) -> io::Result<bool> {
    let mut head = [0; 92];
    file.read_exact_at(&mut head, BLOCK)?;
    if &head[..8] != b"EFI PART" {
        return Ok(false);
    }
    let number =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let first = u64::from(number(72)) | u64::from(number(76)) << 32;
    let (count, size) = (number(80) as usize, u64::from(number(84)));
    if !(128..=4096).contains(&size) {
        return Ok(false);
    }
    let mut at = first.saturating_mul(BLOCK);
    for _ in 0..count.min(MAX_PARTITIONS) {
        let mut kind = [0; 16];
        file.read_exact_at(&mut kind, at)?;
        if kind == SYSTEM {
            return Ok(true);
        }
        at = at.saturating_add(size);
    }
    Ok(false)
}

/// Reads the boot catalog of a CD (El Torito).
fn cd(file: &File) -> io::Result<Ways> {
    const EFI: u8 = 0xef;
    const BOOTABLE: u8 = 0x88;
    let mut record = [0; 75];
    file.read_exact_at(&mut record, 17 * SECTOR)?;
    if &record[7..30] != b"EL TORITO SPECIFICATION" {
        return Ok(Ways::default());
    }
    let place = u32::from_le_bytes([record[71], record[72], record[73], record[74]]);
    let mut catalog = [0; 2048];
    file.read_exact_at(&mut catalog, u64::from(place) * SECTOR)?;
    let mut ways = Ways::default();
    let entries: Vec<&[u8]> = catalog.chunks_exact(32).collect();
    // The first entry names the platform of the second entry. Section headers name the platform of
    // later entries.
    let mut platform = entries[0][1];
    for entry in &entries[1..] {
        match entry[0] {
            0x90 | 0x91 => platform = entry[1],
            BOOTABLE if platform == EFI => ways.uefi = true,
            BOOTABLE if platform == 0 => ways.bios = true,
            _ => {}
        }
    }
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn look(content: &[u8]) -> Ways {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        ways(&file).unwrap_or_default()
    }

    fn told(content: &[u8]) -> (bool, bool) {
        let ways = look(content);
        (ways.bios, ways.uefi)
    }

    #[test]
    fn disks_are_told_by_their_tables() {
        let mut disk = vec![0; 64 << 10];
        assert_eq!(told(&disk), (false, false));
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk[446 + 4] = 0x83;
        assert_eq!(told(&disk), (false, false));
        disk[446 + 4] = OLD_SYSTEM;
        assert_eq!(told(&disk), (false, true));
        disk[0] = 0xeb;
        assert_eq!(told(&disk), (true, true));
        disk[446 + 4] = 0xee;
        assert_eq!(told(&disk), (true, false));
        disk[512..520].copy_from_slice(b"EFI PART");
        disk[512 + 72] = 2;
        disk[512 + 80] = 128;
        disk[512 + 84] = 128;
        assert_eq!(told(&disk), (true, false));
        disk[1024 + 128..1024 + 144].copy_from_slice(&SYSTEM);
        assert_eq!(told(&disk), (true, true));
        // The GPT header now points to a table outside the disk.
        disk[512 + 72..512 + 80].fill(0xff);
        assert_eq!(told(&disk), (true, false));
    }

    #[test]
    fn cds_are_told_by_their_catalog() {
        let mut cd = vec![0; 32 * 2048];
        let mut put = |at: usize, what: &[u8]| cd[at..at + what.len()].copy_from_slice(what);
        put(16 * 2048, b"\x01CD001\x01");
        put(17 * 2048, b"\x00CD001\x01EL TORITO SPECIFICATION");
        put(17 * 2048 + 71, &19_u32.to_le_bytes());
        put(19 * 2048, &[1]);
        put(19 * 2048 + 32, &[0x88]);
        assert_eq!(told(&cd), (true, false));
        cd[19 * 2048 + 64] = 0x91;
        cd[19 * 2048 + 65] = 0xef;
        cd[19 * 2048 + 96] = 0x88;
        assert_eq!(told(&cd), (true, true));
        cd[19 * 2048 + 32] = 0;
        assert_eq!(told(&cd), (false, true));
        cd[17 * 2048 + 71..17 * 2048 + 75].fill(0xff);
        assert_eq!(told(&cd), (false, false));
    }
}
