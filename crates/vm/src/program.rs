//! Finds the QEMU of this host.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::model::Version;

/// The paths where distributions install QEMU.
const PLACES: &[&str] = &[
    "/usr/bin/qemu-system-x86_64",
    "/usr/libexec/qemu-kvm",
    "/usr/local/bin/qemu-system-x86_64",
];

/// The host files that QEMU reads besides its own program: libraries and their cache, and the
/// firmware and tables that QEMU shows to the guest.
const FILES: &[&str] = &[
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/qemu",
    "/usr/share/seabios",
    "/usr/share/qemu-kvm",
    "/usr/local/share/qemu",
];

/// The oldest release of QEMU that has all options that kernel zones use.
const OLDEST: Version = Version {
    major: 7,
    minor: 0,
    micro: 0,
};

/// A QEMU that is installed on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The path of the program.
    pub path: PathBuf,
    /// The version of the program.
    pub version: Version,
}

/// Returns the path of QEMU on the host below `root`, if QEMU is installed.
#[must_use]
pub fn path(root: &Path) -> Option<PathBuf> {
    let below = |place: &&&str| root.join(place.trim_start_matches('/')).exists();
    PLACES.iter().find(below).map(PathBuf::from)
}

/// Returns the folders of the host that QEMU must be able to read.
#[must_use]
pub fn files(root: &Path) -> Vec<PathBuf> {
    let there = |place: &&&str| root.join(place.trim_start_matches('/')).is_dir();
    FILES.iter().filter(there).map(PathBuf::from).collect()
}

/// Returns the message that no QEMU is installed.
#[must_use]
pub fn missing() -> String {
    format!(
        "QEMU is not installed (looked for {}): install the package qemu-system-x86",
        PLACES.join(", ")
    )
}

/// Finds the QEMU of this host. If `known` does not return the version of this file, QEMU is run to
/// print its version, which takes the time to load its libraries.
///
/// # Errors
/// Fails with [`Error::Program`] if QEMU is not installed or too old.
pub fn find(known: impl FnOnce(&Path) -> Option<Version>) -> Result<Qemu, Error> {
    let path = path(Path::new("/")).ok_or_else(|| Error::Program(missing()))?;
    let version = match known(&path) {
        Some(version) => version,
        None => ask(&path)?,
    };
    if version < OLDEST {
        return Err(Error::Program(format!(
            "{} is QEMU {version}; {}.{} or newer is needed",
            path.display(),
            OLDEST.major,
            OLDEST.minor
        )));
    }
    Ok(Qemu { path, version })
}

fn ask(path: &Path) -> Result<Version, Error> {
    let shown = path.display();
    let output = std::process::Command::new(path)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(Error::io(format!("run {shown}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Version::parse(text.lines().next().unwrap_or_default())
        .ok_or_else(|| Error::Program(format!("{shown} does not tell its version")))
}
