//! The record of a kernel zone: `machine.json` in the zonepath. Install writes the record, and
//! every boot reads it.
//!
//! A guest must find the same virtual machine at each boot, and only the record lists the base
//! files of the guest's disks.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::atomic;
use store::format::{self, Stored};
use vm::{Format, Model};

use host::Error;

/// Name of the record's file in the zonepath.
pub const FILE: &str = "machine.json";

/// The format that this release writes. A record without a format number has format 1.
const FORMAT: u64 = 1;

/// Maximum number of bytes of a record that are read.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// The record of a kernel zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The virtual machine's type, its processor, and the QEMU version of the install.
    pub model: Model,
    /// The firmware or kernel that starts the guest.
    pub start: Start,
    /// The disks that install, a clone or a later boot has made or recorded.
    pub disks: Vec<Disk>,
    /// The variables of the guest's UEFI firmware; `None` for a guest without UEFI firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvram: Option<Nvram>,
    /// Number of the machine's ports for parts that come and go while the guest runs. A zone of an
    /// earlier release has none until its next cold boot.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ports: u32,
    /// The most processors and memory that the machine can get while the guest runs. A zone gets
    /// this room at its first cold boot, and keeps it on each host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<vm::machine::Room>,
    /// The network cards that the machine has had at a cold boot, or that came while the guest ran.
    /// `None` until the first cold boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<Vec<Card>>,
    /// Number of starts that were counted. Each counted start makes earlier images of the guest's
    /// memory invalid, because an image fits the disks of one start only.
    #[serde(default)]
    pub boots: u64,
}

/// A network card of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The name of the link in the zone.
    pub link: String,
    /// The port of the card; `None` for a card that stays until the guest ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
}

/// The file with the variables of a UEFI firmware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvram {
    /// Name of the file in the zonepath.
    pub file: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Checksum of the keys that were written to the variables; `None` if signatures were never
    /// checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
}

/// The method by which a guest starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The guest starts from the loader on its disk.
    Firmware,
    /// The guest starts from the loader on its disk. If the disk has no loader yet, the guest
    /// starts from the CD of an installer.
    Installer {
        /// The path of the CD's image. If the image is missing, the guest has no CD drive.
        cd: PathBuf,
    },
    /// Zones for Linux starts the kernel from a file in the zone's root.
    Kernel {
        /// True if the zone's root also contains an initial file system for the kernel.
        initrd: bool,
        /// The kernel's command line, to which the boot arguments are appended.
        command_line: String,
    },
}

/// A disk of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Number of the disk in the configuration.
    pub id: u32,
    /// Size of the disk in bytes, as the guest sees it.
    pub size: u64,
    /// Name in the zonepath of the file that the guest writes to; `None` for a disk outside the
    /// zonepath. At first this is the configured file. A clone can turn this file into a base file
    /// and give the origin a new overlay instead.
    pub file: Option<String>,
    /// The format of the file that the guest writes to.
    pub format: Format,
    /// The files in the zonepath below the overlay, which never change. The file next to the
    /// overlay is first. Each zone that shares a file has its own hard link, so the file is deleted
    /// with the last of these zones.
    pub bases: Vec<Base>,
    /// The port of the disk; `None` for a disk that stays until the guest ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde needs"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A base file: a file below the overlay of a disk, which never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Name of the base file in the zonepath.
    pub name: String,
    /// The format of the base file.
    pub format: Format,
    /// The digest of the base file's blocks, if it was computed. A migration uses the digest to
    /// find the same base file on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The reason why a record is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// A file name in the record leads out of the zonepath.
    #[error("{0} is no file of the zone")]
    File(String),
    /// The machine has no port with this number.
    #[error("a disk or network card is in a port that the machine does not have")]
    Port,
    /// The name of a machine type or processor contains characters that would change QEMU's
    /// arguments.
    #[error("{0:?} is no machine or processor")]
    Word(String),
}

impl Record {
    /// Returns the record of a guest that has not booted yet.
    pub fn before_first_boot(
        model: Model,
        start: Start,
        disks: Vec<Disk>,
        nvram: Option<Nvram>,
    ) -> Self {
        Self {
            model,
            start,
            disks,
            nvram,
            ports: vm::machine::PORTS,
            room: None,
            cards: None,
            boots: 0,
        }
    }

    /// Reads the record of the zone at `zonepath`.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the record is missing or invalid, and with [`Error::Store`]
    /// if its format is newer than these programs.
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

    /// Checks that all files of the record are in the zonepath, and that the names for QEMU contain
    /// only letters, digits and `._-+`.
    ///
    /// # Errors
    /// Fails with the first name that is refused.
    pub fn check(&self) -> Result<(), BadRecord> {
        let is_plain =
            |name: &&str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        let mut ports = self.used_ports();
        if self.ports > vm::machine::PORTS || ports.any(|port| port >= self.ports) {
            return Err(BadRecord::Port);
        }
        if let Some(name) = self.files().find(|name| !is_plain(name)) {
            return Err(BadRecord::File(name.to_owned()));
        }
        // A comma in a name would start another option of QEMU.
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

    /// Returns the record as another host receives it, without the CD image of this host.
    #[must_use]
    pub fn arrived(&self) -> Self {
        let mut arrived = self.clone();
        if matches!(arrived.start, Start::Installer { .. }) {
            arrived.start = Start::Firmware;
        }
        arrived
    }

    /// Returns the names of all files of the disks in the zonepath, and the name of the file with
    /// the firmware variables.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let disks = self.disks.iter().flat_map(|disk| {
            let bases = disk.bases.iter().map(|base| base.name.as_str());
            bases.chain(disk.file.as_deref())
        });
        disks.chain(self.nvram.iter().map(|nvram| nvram.file.as_str()))
    }

    /// Returns the disks in the zonepath, each with the name of the file that the guest writes to.
    pub fn own_disks(&self) -> impl Iterator<Item = (&Disk, &str)> {
        let own = self.disks.iter();
        own.filter_map(|disk| Some((disk, disk.file.as_deref()?)))
    }

    /// Writes the record to the zonepath.
    ///
    /// # Errors
    /// Fails with [`Error::Store`] if the file cannot be written.
    pub fn save(&self, zonepath: &Path) -> Result<(), Error> {
        let stored = Stored {
            format: FORMAT,
            content: self,
        };
        let text = serde_json::to_vec_pretty(&stored)
            .map_err(|error| Error::Refused(error.to_string()))?;
        Ok(atomic::write(&zonepath.join(FILE), &text, 0o600)?)
    }

    /// Adds one to the number of starts in the record of the zone at `zonepath`, and writes the
    /// record.
    ///
    /// # Errors
    /// Fails as [`load`](Self::load) and [`save`](Self::save) do.
    pub fn count_boot(zonepath: &Path) -> Result<(), Error> {
        let mut record = Self::load(zonepath)?;
        record.boots = record.boots.saturating_add(1);
        record.save(zonepath)
    }

    /// Returns the ports of all disks and network cards of the record.
    pub(crate) fn used_ports(&self) -> impl Iterator<Item = u32> {
        let disks = self.disks.iter().filter_map(|disk| disk.port);
        disks.chain(self.cards.iter().flatten().filter_map(|card| card.port))
    }

    /// Returns the port of the network card on the link with this name.
    #[must_use]
    pub fn card_port(&self, link: &str) -> Option<u32> {
        let mut cards = self.cards.iter().flatten();
        cards.find(|card| card.link == link)?.port
    }

    /// Returns the record of the disk with this number.
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
                port: None,
                bases: vec![Base {
                    name: base.to_owned(),
                    format: Format::Raw,
                    digest: None,
                }],
            }],
            nvram: None,
            ports: 0,
            room: None,
            cards: None,
            boots: 0,
        }
    }

    #[test]
    fn starts_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = record("disk0.base-1");
        record.save(dir.path()).unwrap();
        // A record of an earlier release has no number of starts.
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
        // The fixture is a record of a release that wrote no format number.
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
