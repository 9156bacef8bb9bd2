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

/// The message where a kernel is started directly.
const DIRECT: &str = "its kernel is started from outside of its disk, which firmware with secure boot does not check: install the zone from the image of a disk that is started by UEFI (-a), or set policy=warning";

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
) -> Result<&'a Firmware, String> {
    let need = Need {
        machine: &model.machine,
        secure: is_enforced(config),
        vars_size: nvram.map(|nvram| nvram.size),
    };
    firmware::choose(all, &need).ok_or_else(|| firmware::missing(&need))
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
    let refused = |why: &str| Error::Refused(format!("{why}."));
    let enforced = is_enforced(config);
    if record.nvram.is_none() && !enforced {
        return Ok(None);
    }
    if enforced && matches!(record.start, Start::Kernel { .. }) {
        return Err(refused(DIRECT));
    }
    let all = all();
    let found = choose(&all, config, &record.model, record.nvram.as_ref());
    let found = found.map_err(|why| refused(&why))?;
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
    let problem = |why: String| vec![format!("could not verify verified-boot: {why}")];
    if !wanted.enforced {
        return match certificates(&wanted) {
            Ok(_) => Vec::new(),
            Err(why) => problem(why),
        };
    }
    if record.is_some_and(|record| matches!(record.start, Start::Kernel { .. })) {
        return problem(DIRECT.to_owned());
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
/// Why it cannot be made.
pub(crate) fn make(config: &Config, model: &Model, zonepath: &Path) -> Result<Nvram, String> {
    let all = all();
    let found = choose(&all, config, model, None)?;
    let path = zonepath.join(FILE);
    let content = read(&found.template)?;
    // A template that makes no sense is found here, and not at the first boot.
    nvram::Nvram::parse(&content).map_err(|error| flatten(&error))?;
    atomic::write(&path, &content, 0o600).map_err(|error| flatten(&error))?;
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
        return Err(Error::Refused(format!("{DIRECT}.")));
    }
    enrol(config, &wanted, record, zonepath).map_err(|why| Error::Refused(format!("{why}.")))
}

fn enrol(
    config: &Config,
    wanted: &VerifiedBoot,
    mut record: Record,
    zonepath: &Path,
) -> Result<Option<String>, String> {
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
        parsed.map_err(|error| format!("{}: {}", path.display(), flatten(&error)))
    };
    let mut nvram = parse(&path)?;
    if !nvram.checks() || known.keys.as_ref() != Some(&sum) {
        if known.keys.as_ref() == Some(&sum) {
            told = Some("signatures are checked again: that was switched off in its firmware");
        }
        nvram.enrol(&keys);
        let bytes = nvram.to_bytes(&parse(&found.template)?);
        let bytes = bytes.map_err(|error| flatten(&error))?;
        atomic::write(&path, &bytes, 0o600).map_err(|error| flatten(&error))?;
    }
    // Last, because the keys count only when they are in the file.
    if known.keys.as_ref() != Some(&sum) {
        record.nvram = Some(Nvram {
            keys: Some(sum),
            ..known
        });
        record.save(zonepath).map_err(|error| flatten(&error))?;
    }
    Ok(told.map(str::to_owned))
}

/// Returns the keys that may sign loaders: those that most loaders are signed by, and those that
/// the configuration adds.
fn keys(wanted: &VerifiedBoot, all: &[Firmware]) -> Result<Keys, String> {
    let odd = |error: vm::Error| flatten(&error);
    let certificates = certificates(wanted)?;
    let mut certificates = certificates.iter();
    let mut keys = match firmware::enrolled(all) {
        Some(found) => {
            let template = nvram::Nvram::parse(&read(&found.template)?).map_err(odd)?;
            Keys::of(&template).map_err(odd)?
        }
        None => {
            let first = certificates.next().ok_or(
                "no UEFI firmware here brings keys with it: name the certificates that are trusted (cert)",
            )?;
            Keys::of_certificate(first).map_err(odd)?
        }
    };
    for certificate in certificates {
        keys.trust(certificate).map_err(odd)?;
    }
    Ok(keys)
}

fn certificates(wanted: &VerifiedBoot) -> Result<Vec<Vec<u8>>, String> {
    let one = |uri: &String| {
        let path = storage_path(uri).ok_or_else(|| format!("{uri}: not a path of this host"))?;
        nvram::certificate(&read(&path)?)
            .ok_or_else(|| format!("{}: no certificate (X.509, DER or PEM)", path.display()))
    };
    wanted.certificates.iter().map(one).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(format!("{}: not a file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(nvram::MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match bytes.len() as u64 > nvram::MAX_FILE_BYTES {
        true => Err(format!("{}: too long", path.display())),
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
pub(crate) fn copy(origin: &Record, from: &Path, to: &Path) -> Result<Option<Nvram>, String> {
    let Some(nvram) = &origin.nvram else {
        return Ok(None);
    };
    let content = read(&from.join(&nvram.file))?;
    crate::new_file::write_new(&to.join(FILE), &content).map_err(|error| error.to_string())?;
    Ok(Some(Nvram {
        file: FILE.to_owned(),
        ..nvram.clone()
    }))
}
