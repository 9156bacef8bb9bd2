//! The UEFI firmware of a machine, and the keys of secure boot among its variables.
//!
//! The code of a firmware is the host's, and read-only. Its variables (the boot menu, the keys) are
//! in a file of the zone, a copy of the firmware's template. If signatures are checked the keys are
//! put in before the machine is started: when there are none yet, when the configuration names
//! other ones, and when the check was switched off at the console.

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

/// Name of the file in the zonepath.
pub(crate) const FILE: &str = "uefi.nvram";

/// The reason why a machine has no firmware, or no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UefiError {
    /// Its kernel is started directly.
    #[error(
        "its kernel is started from outside of its disk, which firmware with secure boot does not check: install the zone from the image of a disk that is started by UEFI (-a), or set policy=warning"
    )]
    Direct,
    /// No firmware of this host would do; the text says which package has one.
    #[error("{0}")]
    NoFirmware(String),
    /// No firmware of this host has keys, and the configuration names none.
    #[error(
        "no UEFI firmware here brings keys with it: name the certificates that are trusted (cert)"
    )]
    NoKeys,
    /// A certificate is named otherwise than by a path.
    #[error("{0}: not a path of this host")]
    NoPath(String),
    /// A file is no certificate.
    #[error("{}: no certificate (X.509, DER or PEM)", .0.display())]
    NoCertificate(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A folder or a device.
    #[error("{}: not a file", .0.display())]
    NoFile(PathBuf),
    /// Larger than the variables of any firmware.
    #[error("{}: too long", .0.display())]
    TooLong(PathBuf),
    /// The variables in a file make no sense.
    #[error("{}", path.display())]
    Vars {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: vm::Error,
    },
    /// The keys or the template make no sense.
    #[error(transparent)]
    Vm(#[from] vm::Error),
    /// The variables cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The record of the machine cannot be written.
    #[error(transparent)]
    Record(#[from] Error),
    /// The variables of a clone cannot be made.
    #[error("{0}")]
    Clone(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The firmware of a machine, as it is opened.
#[derive(Clone, Debug)]
pub struct Flash {
    /// The file of its code.
    pub code: PathBuf,
    /// The file of its variables.
    pub vars: PathBuf,
    /// The machine's UEFI settings.
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

/// The firmware that a machine is started by; none for a BIOS.
///
/// # Errors
/// [`Error::Refused`] where this host has none that would do.
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

/// Returns the problems to report before a zone is verified or installed.
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
    // The type that a new machine would have differs in its version only.
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

/// Makes the variables of the firmware of a new machine.
///
/// # Errors
/// [`UefiError`].
pub(crate) fn make(config: &Config, model: &Model, zonepath: &Path) -> Result<Nvram, UefiError> {
    let all = all();
    let found = choose(&all, config, model, None)?;
    let path = zonepath.join(FILE);
    let content = read(&found.template)?;
    // A template that makes no sense is found here, and not at the first boot.
    nvram::Nvram::parse(&content)?;
    atomic::write(&path, &content, 0o600)?;
    Ok(Nvram {
        file: FILE.to_owned(),
        size: content.len() as u64,
        keys: None,
    })
}

/// Has signatures checked where they are to be, before a machine is started that does not go on
/// from an image. Returns a remark for the user.
///
/// # Errors
/// [`Error::Refused`] with the reason that it cannot be so.
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
    // Last, because the keys count only when they are in the file.
    if known.keys.as_ref() != Some(&sum) {
        record.nvram = Some(Nvram {
            keys: Some(sum),
            ..known
        });
        record.save(zonepath)?;
    }
    Ok(told.map(str::to_owned))
}

/// Returns the keys that may sign loaders: those that most loaders are signed by, and those that
/// the configuration adds.
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

/// Copies the firmware's variables of the origin to a clone.
///
/// # Errors
/// When it cannot be copied.
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
