//! The record of a machine from its install on: `machine.json` in the zonepath. `machine.json` in
//! the zonepath.
//!
//! A guest must find the same machine at each boot, and only the record lists the base files of its
//! disks.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::atomic;
use store::format::{self, Stored};
use vm::{Format, Model};

use host::Error;

/// Name of the file.
pub const FILE: &str = "machine.json";

/// The format that is written. A record that says none has format 1.
const FORMAT: u64 = 1;

/// Maximum size of a record that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// The record of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The machine's type, the processor it shows, and the QEMU that it was made with.
    pub model: Model,
    /// The way the machine starts.
    pub start: Start,
    /// Its disks, as far as we made them.
    pub disks: Vec<Disk>,
    /// The variables of its UEFI firmware; none for a machine with a BIOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvram: Option<Nvram>,
    /// The number of starts that make earlier images of its memory invalid: an image fits the disks
    /// of one start only.
    #[serde(default)]
    pub boots: u64,
}

/// The file with the variables of a UEFI firmware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvram {
    /// Its name in the zonepath.
    pub file: String,
    /// Bytes of it.
    pub size: u64,
    /// The sum of the keys that were put in, once signatures were to be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
}

/// The way a machine starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The loader on its disk.
    Firmware,
    /// The loader on its disk, or, as long as there is none, that on the CD of an
    /// installer.
    Installer {
        /// The image of the CD. Once it is gone there is no drive any more.
        cd: PathBuf,
    },
    /// The kernel in the zone's root.
    Kernel {
        /// True if there is an initial file system beside it.
        initrd: bool,
        /// The kernel's command line before the boot arguments.
        command_line: String,
    },
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Its number in the configuration.
    pub id: u32,
    /// Bytes that the guest sees.
    pub size: u64,
    /// The file that is written to, by its name in the zonepath; none for a disk that
    /// lies elsewhere. That of the configuration is the first; a clone makes it one that
    /// others stand on, and gives the zone another.
    pub file: Option<String>,
    /// The format of the file that is written to.
    pub format: Format,
    /// The files in the zonepath below the overlay, which never change, the nearest first. Zones
    /// that share one have a hard link each, so that the last one that goes takes it along.
    pub bases: Vec<Base>,
}

/// A file that a disk stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Its name in the zonepath.
    pub name: String,
    /// The format of the file.
    pub format: Format,
    /// The digest of its blocks, once it was computed: another host may have such a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The reason why a record is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// A name leads out of the zonepath.
    #[error("{0} is no file of the zone")]
    File(String),
    /// QEMU would take the word for several.
    #[error("{0:?} is no machine or processor")]
    Word(String),
}

impl Record {
    /// Reads the record of the zone at `zonepath`.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is none, or it makes no sense; [`Error::Store`] when only
    /// newer programs know its format.
    pub fn load(zonepath: &Path) -> Result<Self, Error> {
        let path = zonepath.join(FILE);
        let fail = |why: String| {
            Error::Refused(format!(
                "{}: {why}; uninstall the zone and install it again.",
                path.display()
            ))
        };
        let mut text = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(MAX_RECORD_BYTES).read_to_end(&mut text))
            .map_err(|error| fail(error.to_string()))?;
        format::check_json(&path, &text, FORMAT)?;
        let record: Self =
            serde_json::from_slice(&text).map_err(|error| fail(error.to_string()))?;
        record.check().map_err(|error| fail(error.to_string()))?;
        Ok(record)
    }

    /// Checks that all names stay in the zonepath, and that words for QEMU are single words.
    ///
    /// # Errors
    /// Fails with the name that leads elsewhere.
    pub fn check(&self) -> Result<(), BadRecord> {
        let is_plain =
            |name: &&str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        if let Some(name) = self.files().find(|name| !is_plain(name)) {
            return Err(BadRecord::File(name.to_owned()));
        }
        // A comma would begin an option.
        let is_word = |word: &&str| {
            let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"._-+".contains(&letter);
            !word.is_empty() && word.bytes().all(plain)
        };
        let words = [self.model.machine.as_str(), self.model.cpu.as_str()];
        match words.into_iter().find(|word| !is_word(word)) {
            Some(word) => Err(BadRecord::Word(word.to_owned())),
            None => Ok(()),
        }
    }

    /// The record as another host takes it: without files of this host.
    #[must_use]
    pub fn arrived(&self) -> Self {
        let mut arrived = self.clone();
        if matches!(arrived.start, Start::Installer { .. }) {
            arrived.start = Start::Firmware;
        }
        arrived
    }

    /// The names of all files of its disks in the zonepath, and the file of its firmware's
    /// variables.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let disks = self.disks.iter().flat_map(|disk| {
            let bases = disk.bases.iter().map(|base| base.name.as_str());
            bases.chain(disk.file.as_deref())
        });
        disks.chain(self.nvram.iter().map(|nvram| nvram.file.as_str()))
    }

    /// Stores it.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn save(&self, zonepath: &Path) -> Result<(), Error> {
        let stored = Stored {
            format: FORMAT,
            content: self,
        };
        let text = serde_json::to_vec_pretty(&stored)
            .map_err(|error| Error::Refused(error.to_string()))?;
        Ok(atomic::write(&zonepath.join(FILE), &text, 0o600)?)
    }

    /// Counts one more start of the zone at `zonepath`, for good.
    ///
    /// # Errors
    /// See [`load`](Self::load) and [`save`](Self::save).
    pub fn count_boot(zonepath: &Path) -> Result<(), Error> {
        let mut record = Self::load(zonepath)?;
        record.boots = record.boots.saturating_add(1);
        record.save(zonepath)
    }

    /// Returns the record of a disk.
    #[must_use]
    pub fn disk(&self, id: u32) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(base: &str) -> Record {
        Record {
            model: Model {
                qemu: "7.2.22".to_owned(),
                machine: "pc-q35-7.2".to_owned(),
                cpu: "max".to_owned(),
            },
            start: Start::Kernel {
                initrd: true,
                command_line: "root=/dev/vda".to_owned(),
            },
            disks: vec![Disk {
                id: 0,
                size: 1 << 30,
                file: None,
                format: Format::Qcow2,
                bases: vec![Base {
                    name: base.to_owned(),
                    format: Format::Raw,
                    digest: None,
                }],
            }],
            nvram: None,
            boots: 0,
        }
    }

    #[test]
    fn starts_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = record("disk0.base-1");
        record.save(dir.path()).unwrap();
        // One of an earlier release has no such number.
        let path = dir.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(",\n  \"boots\": 0", "")).unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("boots"));
        for _ in 0..2 {
            Record::count_boot(dir.path()).unwrap();
        }
        record.boots = 2;
        assert_eq!(Record::load(dir.path()).unwrap(), record);
    }

    #[test]
    fn a_record_reads_back_as_saved() {
        let dir = tempfile::tempdir().unwrap();
        let record = record("disk0.base-1");
        record.save(dir.path()).unwrap();
        assert_eq!(Record::load(dir.path()).unwrap(), record);
    }

    #[test]
    fn the_format_is_said_and_a_newer_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        // As programs without formats wrote it.
        std::fs::write(&path, include_str!("../fixtures/machine.json")).unwrap();
        let old = Record::load(dir.path()).unwrap();
        assert_eq!((old.boots, old.disks.len()), (3, 1));
        old.save(dir.path()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\n  \"format\": 1,"), "{text}");
        assert_eq!(Record::load(dir.path()).unwrap(), old);
        let newer = "{\"format\": 2, \"all\": \"else\"}";
        std::fs::write(&path, newer).unwrap();
        let error = Record::count_boot(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("machine.json has format 2") && error.contains("use newer programs"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    }

    #[test]
    fn another_host_opens_no_file_of_its_own_for_it() {
        let mut sent = record("disk0.base-1");
        sent.start = Start::Installer {
            cd: "/etc/shadow".into(),
        };
        assert_eq!(sent.arrived().start, Start::Firmware);
    }

    #[test]
    fn a_record_that_leads_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["../x", "/etc/shadow", "", ".."] {
            record(name).save(dir.path()).unwrap();
            assert!(Record::load(dir.path()).is_err(), "{name}");
        }
        let mut nvram = record("base-1");
        nvram.nvram = Some(Nvram {
            file: "../nvram".to_owned(),
            size: 4096,
            keys: None,
        });
        nvram.save(dir.path()).unwrap();
        assert!(Record::load(dir.path()).is_err());
        for word in ["", "max,kvm=off", "pc q35", "x/y"] {
            let mut odd = record("disk0.base-1");
            odd.model.cpu = word.to_owned();
            assert!(odd.check().is_err(), "{word}");
        }
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Record::load(dir.path()).is_err());
    }
}
