//! The kernel that a zone is told it runs on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kernel version that programs of a zone see instead of the real one; fields that are not
/// given stay real.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -s`.
    pub name: Option<String>,
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -m`.
    pub machine: Option<String>,
}

impl Kernel {
    /// Maximum length of a word in the result of uname(2), in bytes.
    pub const MAX_WORD_BYTES: usize = 64;

    /// Returns whether a word can be any of these.
    #[must_use]
    pub fn is_word(text: &str) -> bool {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-~".contains(&byte);
        (1..=Self::MAX_WORD_BYTES).contains(&text.len()) && text.bytes().all(good)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [&self.name, &self.release, &self.machine];
        let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
        f.write_str(&words.join(" "))
    }
}
