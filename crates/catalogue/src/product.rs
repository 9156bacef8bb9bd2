//! Products, each with its newest version.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// A product of a catalogue, with the files of its newest version that can become a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// The name in the catalogue: `debian:trixie:amd64:default`.
    pub name: String,
    /// The names for users: `debian/13`.
    pub aliases: Vec<String>,
    /// The architecture, in Debian's words.
    pub architecture: String,
    /// The name of the distribution.
    pub os: String,
    /// The name of the release.
    pub release: String,
    /// The variant: `default`, `cloud`. It may be empty.
    pub variant: String,
    /// The name of the version: `20251124_05:24`.
    pub version: String,
    /// The file with the description of the image; `None` if it is in the same file as the root.
    pub metadata: Option<File>,
    /// Files with the same root in several forms, the preferred form first; never empty.
    pub roots: Vec<Root>,
}

/// A file of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The path below the address of the server; see [`crate::url::is_path`].
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 digest, as 64 hexadecimal digits.
    pub sha256: String,
}

/// A file with the root of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The form of the file.
    pub form: Form,
    /// The file.
    pub file: File,
    /// The digest of the metadata followed by the root, by which Incus and LXD name the image; empty
    /// if the catalogue has none.
    pub fingerprint: String,
}

/// The form of a file with a root. The order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A squashfs.
    Squashfs,
    /// A tar archive.
    Tar,
    /// A tar archive with the description and the root.
    Unified,
}

impl Form {
    /// Returns the form that `ftype` names; `None` for disks of virtual machines and other files.
    #[must_use]
    pub fn of(ftype: &str) -> Option<Self> {
        match ftype {
            "squashfs" => Some(Self::Squashfs),
            "root.tar.xz" => Some(Self::Tar),
            "incus_combined.tar.gz" | "lxd_combined.tar.gz" => Some(Self::Unified),
            _ => None,
        }
    }

    /// Returns the name of a file of this form.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Squashfs => "root.squashfs",
            Self::Tar => "root.tar.xz",
            Self::Unified => "image.tar.gz",
        }
    }
}

impl Product {
    /// Returns the shortest name for users, or the name of the product if it has no alias.
    #[must_use]
    pub fn called(&self) -> &str {
        let shortest = self.aliases.iter().min_by_key(|alias| alias.len());
        shortest.map_or(&self.name, |alias| alias)
    }

    /// Returns true if a word names this product: the product, an alias, or `os/release/variant`.
    /// The variant `default` may be left out.
    #[must_use]
    pub fn answers_to(&self, word: &str) -> bool {
        self.name == word || self.aliases.iter().any(|alias| alias == word) || self.implied(word)
    }

    fn implied(&self, word: &str) -> bool {
        let mut parts = word.split('/');
        let same = |part: Option<&str>, text: &str| {
            part.is_some_and(|part| !part.is_empty() && part.eq_ignore_ascii_case(text))
        };
        let variant = match self.variant.as_str() {
            "" => "default",
            variant => variant,
        };
        same(parts.next(), &self.os)
            && same(parts.next(), &self.release)
            && parts.next().unwrap_or("default") == variant
            && parts.next().is_none()
    }
}

/// Compares names of versions: numbers in them by their value, other characters by their code.
#[must_use]
pub fn compare_versions(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one, other);
    loop {
        let (x, rest_a) = piece(a);
        let (y, rest_b) = piece(b);
        let both_numbers = x.starts_with(digit) && y.starts_with(digit);
        let order = if both_numbers {
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            x.cmp(y)
        };
        if order != Ordering::Equal {
            return order;
        }
        if x.is_empty() && y.is_empty() {
            // Only zeros in front of numbers differ.
            return one.cmp(other);
        }
        (a, b) = (rest_a, rest_b);
    }
}

fn digit(char: char) -> bool {
    char.is_ascii_digit()
}

/// Splits the longest beginning off that is all digits or has none.
fn piece(text: &str) -> (&str, &str) {
    let is_number = text.starts_with(digit);
    let end = text.find(|char| digit(char) != is_number);
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn product(name: &str, aliases: &[&str]) -> Product {
        let mut parts = name.split(':');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        Product {
            name: name.to_owned(),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            os: part(),
            release: part(),
            architecture: part(),
            variant: part(),
            version: "20251124_05:24".to_owned(),
            metadata: None,
            roots: Vec::new(),
        }
    }

    #[test]
    fn a_product_answers_to_its_names() {
        let debian = product(
            "debian:trixie:amd64:default",
            &["debian/13/default", "debian/13"],
        );
        let cloud = product("debian:trixie:amd64:cloud", &["debian/13/cloud"]);
        for (word, default, other) in [
            ("debian:trixie:amd64:default", true, false),
            ("debian/13", true, false),
            ("debian/13/cloud", false, true),
            ("debian/trixie", true, false),
            ("Debian/trixie/cloud", false, true),
            ("debian/trixie/cloud/more", false, false),
            ("debian", false, false),
            ("", false, false),
        ] {
            assert_eq!(debian.answers_to(word), default, "{word}");
            assert_eq!(cloud.answers_to(word), other, "{word}");
        }
        assert_eq!(debian.called(), "debian/13");
        assert_eq!(product("a:b:c:d", &[]).called(), "a:b:c:d");
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let mut all = [
            "20251124_05:24",
            "20251123_23:59",
            "20121026.10",
            "20121026.2",
            "20121026",
        ];
        all.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            all,
            [
                "20121026",
                "20121026.2",
                "20121026.10",
                "20251123_23:59",
                "20251124_05:24"
            ]
        );
    }

    proptest! {
        #[test]
        fn versions_have_a_total_order(a in "[0-9a._:]{0,8}", b in "[0-9a._:]{0,8}", c in "[0-9a._:]{0,8}") {
            let order = compare_versions(&a, &b);
            prop_assert_eq!(order, compare_versions(&b, &a).reverse());
            prop_assert_eq!(order == Ordering::Equal, a == b);
            if order != Ordering::Greater && compare_versions(&b, &c) != Ordering::Greater {
                prop_assert!(compare_versions(&a, &c) != Ordering::Greater);
            }
        }
    }
}
