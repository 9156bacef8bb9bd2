//! The machine type that a kernel zone keeps from its install on.
//!
//! The record keeps the hardware that a guest saw first, because the guest must always see the same
//! hardware. A machine type without a version means other hardware with each release of QEMU, and
//! the state of a suspended guest fits no other hardware.

use serde::{Deserialize, Serialize};

/// The record of a guest's hardware, made at the install of its zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The version of QEMU at the install of the zone.
    pub qemu: String,
    /// The machine type, with its version.
    pub machine: String,
    /// The processor's model.
    pub cpu: String,
}

impl Model {
    /// Returns the hardware that a QEMU of this version gives to new guests.
    #[must_use]
    pub fn of_version(version: &Version) -> Self {
        Self {
            qemu: version.to_string(),
            machine: format!("pc-q35-{}.{}", version.major, version.minor),
            cpu: "max".to_owned(),
        }
    }

    /// Returns the reason why a QEMU of this version cannot provide this hardware; `None` if it
    /// can. Newer releases of QEMU keep the machine types of older ones.
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

/// A version of QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major number: 7 in 7.2.22.
    pub major: u32,
    /// The minor number: 2 in 7.2.22.
    pub minor: u32,
    /// The micro number: 22 in 7.2.22.
    pub micro: u32,
}

impl Version {
    /// Reads a version from the first line that QEMU prints for `--version`, or from the version
    /// number alone.
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
