//! A file as a disk, with the old content of all sectors that were written since the last flush.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Number of bytes that a disk writes completely or not at all. Present disks have this value, and
/// ext4 needs it: ext4 does not mount if half of the 4 KiB block that names the end of its log is
/// lost.
const SECTOR: usize = 4096;

type Sector = [u8; SECTOR];

/// The content of sectors that were not flushed after a power cut.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// None of them was written.
    AllLost,
    /// Some of them were written; the seed determines which.
    SomeLost(u64),
}

/// A disk with a volatile cache.
#[derive(Debug)]
pub struct Disk {
    file: File,
    size: u64,
    /// The content of each changed sector at the last flush, by the sector's number.
    before: BTreeMap<u64, Sector>,
}

impl Disk {
    /// Returns a disk with the content of this file, whose size is a multiple of the sector size.
    pub fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size: size - size % SECTOR as u64,
            before: BTreeMap::new(),
        })
    }

    /// Returns the size in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Reads the last written content, flushed or not.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.check(at, bytes.len())?;
        self.file.read_exact_at(bytes, at)
    }

    /// Writes to the cache.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.check(at, bytes.len())?;
        let size = SECTOR as u64;
        let end = (at + bytes.len() as u64).div_ceil(size);
        for number in at / size..end {
            if !self.before.contains_key(&number) {
                let mut old = [0; SECTOR];
                self.file.read_exact_at(&mut old, number * size)?;
                self.before.insert(number, old);
            }
        }
        self.file.write_all_at(bytes, at)
    }

    /// Makes all writes so far durable.
    pub fn flush(&mut self) {
        self.before.clear();
    }

    /// Cuts the power. Returns the number of sectors that kept their old content, and the number
    /// that have the new one.
    pub fn cut_off(&mut self, fate: Fate) -> io::Result<(u64, u64)> {
        let mut random = match fate {
            Fate::AllLost => None,
            Fate::SomeLost(seed) => Some(Random(seed)),
        };
        let (mut lost, mut kept) = (0, 0);
        for (number, old) in std::mem::take(&mut self.before) {
            if random.as_mut().is_some_and(Random::flip) {
                kept += 1;
                continue;
            }
            self.file.write_all_at(&old, number * SECTOR as u64)?;
            lost += 1;
        }
        Ok((lost, kept))
    }

    fn check(&self, at: u64, length: usize) -> io::Result<()> {
        match at.checked_add(length as u64) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    }
}

/// The pseudo-random generator splitmix64.
struct Random(u64);

impl Random {
    fn flip(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) & 1 == 1
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a disk of eight sectors, all zeros, in a file without a name.
    pub fn blank() -> Disk {
        let folder = std::env::temp_dir();
        let path = folder.join(format!(
            "volatile-disk-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(8 * SECTOR as u64).unwrap();
        Disk::new(file).unwrap()
    }

    fn content(disk: &Disk) -> Vec<u8> {
        let mut bytes = vec![0; 8 * SECTOR];
        disk.read(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_power_cut_keeps_flushed_data_only() {
        let mut disk = blank();
        disk.write(4096, &[1; 8192]).unwrap();
        disk.flush();
        let flushed = content(&disk);
        disk.write(8000, &[2; 600]).unwrap();
        disk.write(7900, &[3; 200]).unwrap();
        let mut two = [0; 2];
        disk.read(8099, &mut two).unwrap();
        assert_eq!(two, [3, 2], "it reads what it was told last");
        assert_eq!(disk.cut_off(Fate::AllLost).unwrap(), (2, 0));
        assert_eq!(content(&disk), flushed);
        assert_eq!(disk.cut_off(Fate::AllLost).unwrap(), (0, 0));
    }

    #[test]
    fn some_sectors_are_lost_whole() {
        let mut disk = blank();
        disk.write(0, &[1; 8 * SECTOR]).unwrap();
        let (lost, kept) = disk.cut_off(Fate::SomeLost(7)).unwrap();
        assert_eq!(lost + kept, 8);
        assert!(lost > 0 && kept > 0);
        let content = content(&disk);
        let whole = content.chunks(SECTOR).filter(|one| **one == [1; SECTOR]);
        assert_eq!(whole.count() as u64, kept);
        assert_eq!(
            content.iter().filter(|byte| **byte == 0).count() as u64,
            lost * SECTOR as u64
        );
    }

    #[test]
    fn reads_and_writes_beyond_the_end_are_refused() {
        let mut disk = blank();
        assert!(disk.write(8 * SECTOR as u64 - 100, &[0; 200]).is_err());
        assert!(disk.read(u64::MAX, &mut [0]).is_err());
        assert!(disk.write(8 * SECTOR as u64 - 1, &[0]).is_ok());
    }
}
