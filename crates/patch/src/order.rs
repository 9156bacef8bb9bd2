//! The changes to make to the packages of a zone.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The order for a package manager: the changes that it makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Upgrades every package that has a newer version, and removes none.
    Upgrade,
    /// Upgrades every package. Installs and removes packages where the newer versions require this.
    DistUpgrade,
    /// Upgrades packages that have a newer version in a security archive.
    Security,
    /// Installs these packages: `NAME`, or `NAME=VERSION`.
    Packages(Vec<String>),
    /// Installs these package files of the host.
    Files(Vec<PathBuf>),
    /// Returns packages to former versions: `NAME=VERSION`, or `NAME-` to remove a package.
    Back {
        /// The patch that the order undoes.
        patch: String,
        /// The packages, in the syntax of the package manager.
        packages: Vec<String>,
    },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade => f.write_str("upgrade"),
            Self::DistUpgrade => f.write_str("dist-upgrade"),
            Self::Security => f.write_str("security"),
            Self::Packages(names) => write!(f, "packages {}", names.join(" ")),
            Self::Files(files) => {
                f.write_str("files")?;
                files
                    .iter()
                    .filter_map(|file| file.file_name())
                    .try_for_each(|name| write!(f, " {}", name.to_string_lossy()))
            }
            Self::Back { patch, .. } => write!(f, "take back {patch}"),
        }
    }
}

/// Returns true if a word is a legal package: `NAME` or `NAME:ARCH`, both optionally with
/// `=VERSION`.
#[must_use]
pub fn is_package(word: &str) -> bool {
    let (name, version) = match word.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (word, None),
    };
    let begins = |text: &str| {
        text.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
    };
    let all = |text: &str, more: &[u8]| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    // A minus at the end would remove the package, and a plus would install it.
    begins(name)
        && all(name, b"+-.:")
        && !name.ends_with('-')
        && version.is_none_or(|version| begins(version) && all(version, b"+-.:~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_package_names_are_accepted() {
        for good in ["apt", "libc6:amd64", "g++", "a=1:2.3-4+deb12u1~x"] {
            assert!(is_package(good), "{good}");
        }
        for bad in [
            "", "-o", "apt-", "a b", "a;b", "=1", "a=", "a=-1", "./x.deb",
        ] {
            assert!(!is_package(bad), "{bad}");
        }
    }
}
