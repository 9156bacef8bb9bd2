//! The type of machine that a zone keeps from its install on.
//!
//! Records the hardware that a guest has found once and must find again: a machine type without a
//! version means another machine with each release of QEMU, and the state of a suspended machine
//! fits no other.

use serde::{Deserialize, Serialize};

/// The record of a machine from the install of its zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The version of QEMU that it was made with.
    pub qemu: String,
    /// The machine type, with its version.
    pub machine: String,
    /// The processor's model.
    pub cpu: String,
}

impl Model {
    /// The one that a QEMU of this version gives to new machines.
    #[must_use]
    pub fn of_version(version: &Version) -> Self {
        Self {
            qemu: version.to_string(),
            machine: format!("pc-q35-{}.{}", version.major, version.minor),
            cpu: "max".to_owned(),
        }
    }

    /// Why a QEMU of this version cannot be this machine; `None` when it can. Newer
    /// releases keep the machines of older ones.
    #[must_use]
    pub fn why_not(&self, version: &Version) -> Option<String> {
        let made = Version::parse(&self.qemu)?;
        ((version.major, version.minor) < (made.major, made.minor)).then(|| {
            format!(
                "the zone was made with QEMU {}; this host has {version}: it needs QEMU {}.{} or newer",
                self.qemu, made.major, made.minor
            )
        })
    }
}

/// The version of a QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 7 of 7.2.22.
    pub major: u32,
    /// 2 of 7.2.22.
    pub minor: u32,
    /// 22 of 7.2.22.
    pub micro: u32,
}

impl Version {
    /// Reads the first line that QEMU prints for `--version`, or a version alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let word = match text.split_once("version ") {
            Some((_, rest)) => rest,
            None => text,
        };
        let word = word
            .split(|c: char| c != '.' && !c.is_ascii_digit())
            .next()?;
        let mut numbers = word.split('.').map(str::parse);
        let major = numbers.next()?.ok()?;
        let minor = numbers.next()?.ok()?;
        let micro = match numbers.next() {
            None => 0,
            Some(number) => number.ok()?,
        };
        Some(Self {
            major,
            minor,
            micro,
        })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_qemu_prints_them() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)";
        let version = Version::parse(debian).unwrap();
        assert_eq!(version.to_string(), "7.2.22");
        assert_eq!(Version::parse("10.0").unwrap().to_string(), "10.0.0");
        assert_eq!(Version::parse("QEMU emulator version"), None);
        assert_eq!(Version::parse("x.y"), None);
        assert_eq!(Version::parse("99999999999.1"), None);
    }

    #[test]
    fn an_older_qemu_cannot_be_a_newer_machine() {
        let old = Version::parse("7.2.22").unwrap();
        let new = Version::parse("10.0.2").unwrap();
        assert_eq!(Model::of_version(&old).machine, "pc-q35-7.2");
        assert_eq!(Model::of_version(&old).why_not(&new), None);
        let why = Model::of_version(&new).why_not(&old).unwrap();
        assert!(why.contains("10.0") && why.contains("7.2.22"), "{why}");
    }
}
