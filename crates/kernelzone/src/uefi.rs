//! Chooses the UEFI firmware of a guest, and writes the keys of secure boot to the firmware's
//! variables.
//!
//! The code of the firmware is a read-only file of the host. The firmware's variables (the boot
//! menu, the keys) are in a file of the zone, which starts as a copy of the firmware's template. If
//! signatures are checked, the keys are written before the guest starts in three cases: the
//! variables contain no keys yet, the configuration names other keys, or a user has switched the
//! check off at the console.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use model::Config;
use model::config::machine::{VerifiedBoot, storage_path};
use storage::sparse;
use store::atomic;
use vm::firmware::{self, Firmware, Need};
use vm::nvram::{self, Keys};
use vm::{Model, Uefi};

use crate::record::{Nvram, Record, Start};
use host::{Error, flatten};

/// Name of the file with the firmware's variables in the zonepath.
pub const FILE: &str = "uefi.nvram";

/// The reason why a guest has no firmware or no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UefiError {
    /// The guest's kernel is started directly, without firmware.
    #[error(
        "its kernel is started from outside of its disk, which firmware with secure boot does not check: install the zone from the image of a disk that is started by UEFI (-a), or set policy=warning"
    )]
    Direct,
    /// No firmware of this host is suitable; the text names the package that contains one.
    #[error("{0}")]
    NoFirmware(String),
    /// No firmware of this host contains keys, and the configuration names no certificates.
    #[error(
        "no UEFI firmware here brings keys with it: name the certificates that are trusted (cert)"
    )]
    NoKeys,
    /// A certificate is named by a URI that is not a path of this host.
    #[error("{0}: not a path of this host")]
    NoPath(String),
    /// A file is not a certificate.
    #[error("{}: no certificate (X.509, DER or PEM)", .0.display())]
    NoCertificate(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The path names a folder or a device, not a file.
    #[error("{}: not a file", .0.display())]
    NoFile(PathBuf),
    /// The file is larger than the variables of any firmware.
    #[error("{}: too long", .0.display())]
    TooLong(PathBuf),
    /// The firmware variables in a file are invalid.
    #[error("{}", path.display())]
    Vars {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the variables are invalid.
        source: vm::Error,
    },
    /// The keys or the firmware's template are invalid.
    #[error(transparent)]
    Vm(#[from] vm::Error),
    /// The file with the firmware variables cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The record of the kernel zone cannot be written.
    #[error(transparent)]
    Record(#[from] Error),
    /// The firmware variables of a clone cannot be written.
    #[error("{0}")]
    Clone(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The UEFI firmware of a guest: paths and settings for QEMU.
#[derive(Clone, Debug)]
pub struct Flash {
    /// The path of the firmware's code.
    pub code: PathBuf,
    /// The path of the file with the firmware's variables.
    pub vars: PathBuf,
    /// The UEFI settings of the guest for QEMU.
    pub uefi: Uefi,
}

fn is_enforced(config: &Config) -> bool {
    config.verified_boot().is_some_and(|one| one.enforced)
}

fn choose<'a>(
    all: &'a [Firmware],
    config: &Config,
    model: &Model,
    nvram: Option<&Nvram>,
) -> Result<&'a Firmware, UefiError> {
    let need = Need {
        machine: &model.machine,
        secure: is_enforced(config),
        vars_size: nvram.map(|nvram| nvram.size),
    };
    firmware::choose(all, &need).ok_or_else(|| UefiError::NoFirmware(firmware::missing(&need)))
}

fn all() -> Vec<Firmware> {
    firmware::all(Path::new("/"))
}

/// Returns the UEFI firmware that starts a guest; `None` for a guest without UEFI firmware.
///
/// # Errors
/// Fails with [`Error::Refused`] if this host has no suitable firmware, or if signatures must be
/// checked and the kernel is started directly.
pub(crate) fn of(
    config: &Config,
    record: &Record,
    zonepath: &Path,
) -> Result<Option<Flash>, Error> {
    let refused = |error: UefiError| Error::Refused(format!("{}.", flatten(&error)));
    let enforced = is_enforced(config);
    if record.nvram.is_none() && !enforced {
        return Ok(None);
    }
    if enforced && matches!(record.start, Start::Kernel { .. }) {
        return Err(refused(UefiError::Direct));
    }
    let all = all();
    let found = choose(&all, config, &record.model, record.nvram.as_ref());
    let found = found.map_err(refused)?;
    Ok(Some(Flash {
        code: found.code.clone(),
        vars: zonepath.join(FILE),
        uefi: Uefi {
            code_size: found.code_size,
            vars_size: found.vars_size,
            smm: found.smm,
        },
    }))
}

/// Returns the problems with verified-boot, for the verify and install of a zone.
pub fn problems(config: &Config, record: Option<&Record>) -> Vec<String> {
    let Some(wanted) = config.verified_boot() else {
        return Vec::new();
    };
    let problem = |error: UefiError| {
        vec![format!(
            "could not verify verified-boot: {}",
            flatten(&error)
        )]
    };
    if !wanted.enforced {
        return match certificates(&wanted) {
            Ok(_) => Vec::new(),
            Err(why) => problem(why),
        };
    }
    if record.is_some_and(|record| matches!(record.start, Start::Kernel { .. })) {
        return problem(UefiError::Direct);
    }
    let all = all();
    // The machine type of a new guest differs from this type in its version only.
    let model = match record {
        Some(record) => record.model.clone(),
        None => Model::of_version(&vm::model::Version {
            major: 7,
            minor: 0,
            micro: 0,
        }),
    };
    let found = choose(
        &all,
        config,
        &model,
        record.and_then(|one| one.nvram.as_ref()),
    );
    let keys = found.and_then(|_| keys(&wanted, &all).map(drop));
    keys.map_or_else(problem, |()| Vec::new())
}

/// Makes the file with the firmware variables of a new guest.
///
/// # Errors
/// Fails with [`UefiError`] if no firmware is suitable, if its template is unusable, or if the file
/// cannot be written.
pub(crate) fn make(config: &Config, model: &Model, zonepath: &Path) -> Result<Nvram, UefiError> {
    let all = all();
    let found = choose(&all, config, model, None)?;
    let path = zonepath.join(FILE);
    let content = read(&found.template)?;
    // An invalid template must fail the install, not the first boot.
    nvram::Nvram::parse(&content)?;
    atomic::write(&path, &content, 0o600)?;
    Ok(Nvram {
        file: FILE.to_owned(),
        size: content.len() as u64,
        keys: None,
    })
}

/// Switches the check of signatures on in the firmware's variables if verified-boot enforces it.
/// This runs before a guest starts without an image. Returns a remark for the user.
///
/// # Errors
/// Fails with [`Error::Refused`] and the reason why signatures cannot be checked.
pub fn prepare(config: &Config, zonepath: &Path) -> Result<Option<String>, Error> {
    let Some(wanted) = config.verified_boot() else {
        return Ok(None);
    };
    if !wanted.enforced {
        return Ok(Some(
            "verified-boot policy=warning: nothing is checked, because firmware cannot warn of unsigned programs, only refuse them; set policy=enforce to refuse them"
                .to_owned(),
        ));
    }
    let record = Record::load(zonepath)?;
    if matches!(record.start, Start::Kernel { .. }) {
        return Err(Error::Refused(format!("{}.", UefiError::Direct)));
    }
    enrol(config, &wanted, record, zonepath)
        .map_err(|error| Error::Refused(format!("{}.", flatten(&error))))
}

fn enrol(
    config: &Config,
    wanted: &VerifiedBoot,
    mut record: Record,
    zonepath: &Path,
) -> Result<Option<String>, UefiError> {
    let all = all();
    let mut told = None;
    let known = match record.nvram.take() {
        Some(nvram) => nvram,
        None => {
            told = Some("it is started by UEFI firmware from now on, as verified-boot needs it");
            make(config, &record.model, zonepath)?
        }
    };
    let found = choose(&all, config, &record.model, Some(&known))?;
    let keys = keys(wanted, &all)?;
    let sum = hex(&sparse::sum(&keys.bytes()));
    let path = zonepath.join(FILE);
    let parse = |path: &Path| {
        let parsed = nvram::Nvram::parse(&read(path)?);
        parsed.map_err(|source| UefiError::Vars {
            path: path.to_owned(),
            source,
        })
    };
    let mut nvram = parse(&path)?;
    if !nvram.checks() || known.keys.as_ref() != Some(&sum) {
        if known.keys.as_ref() == Some(&sum) {
            told = Some("signatures are checked again: that was switched off in its firmware");
        }
        nvram.enrol(&keys);
        let bytes = nvram.to_bytes(&parse(&found.template)?)?;
        atomic::write(&path, &bytes, 0o600)?;
    }
    // The record is written last, because the keys count only after they are in the file.
    if known.keys.as_ref() != Some(&sum) {
        record.nvram = Some(Nvram {
            keys: Some(sum),
            ..known
        });
        record.save(zonepath)?;
    }
    Ok(told.map(str::to_owned))
}

/// Returns the keys that may sign loaders: the keys that most loaders are signed with, and the
/// certificates of the configuration.
fn keys(wanted: &VerifiedBoot, all: &[Firmware]) -> Result<Keys, UefiError> {
    let certificates = certificates(wanted)?;
    let mut certificates = certificates.iter();
    let mut keys = match firmware::enrolled(all) {
        Some(found) => {
            let template = nvram::Nvram::parse(&read(&found.template)?)?;
            Keys::of(&template)?
        }
        None => {
            let first = certificates.next().ok_or(UefiError::NoKeys)?;
            Keys::of_certificate(first)?
        }
    };
    for certificate in certificates {
        keys.trust(certificate)?;
    }
    Ok(keys)
}

fn certificates(wanted: &VerifiedBoot) -> Result<Vec<Vec<u8>>, UefiError> {
    let one = |uri: &String| {
        let path = storage_path(uri).ok_or_else(|| UefiError::NoPath(uri.clone()))?;
        nvram::certificate(&read(&path)?).ok_or(UefiError::NoCertificate(path))
    };
    wanted.certificates.iter().map(one).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, UefiError> {
    let failed = |source| UefiError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(UefiError::NoFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(nvram::MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match bytes.len() as u64 > nvram::MAX_FILE_BYTES {
        true => Err(UefiError::TooLong(path.to_owned())),
        false => Ok(bytes),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies the origin's firmware variables to a clone.
///
/// # Errors
/// Fails if the file cannot be read or written.
pub(crate) fn copy(origin: &Record, from: &Path, to: &Path) -> Result<Option<Nvram>, UefiError> {
    let Some(nvram) = &origin.nvram else {
        return Ok(None);
    };
    let content = read(&from.join(&nvram.file))?;
    crate::new_file::write_new(&to.join(FILE), &content).map_err(UefiError::Clone)?;
    Ok(Some(Nvram {
        file: FILE.to_owned(),
        ..nvram.clone()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_on_a_full_disk_is_told_as_full() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = UefiError::Clone(Box::new(full));
        assert!(host::error::is_full(&error));
        let text = std::io::Error::from(std::io::ErrorKind::StorageFull).to_string();
        assert_eq!(host::flatten(&error), text);
    }
}
