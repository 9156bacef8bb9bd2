//! The kernel version that a zone sees.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kernel version that programs of a zone see. A field without a value keeps the value of the
/// real kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The kernel name, which `uname -s` prints.
    pub name: Option<String>,
    /// The kernel release, which `uname -r` prints.
    pub release: Option<String>,
    /// The machine name, which `uname -m` prints.
    pub machine: Option<String>,
}

impl Kernel {
    /// Maximum length of a field in the result of uname(2), in bytes.
    pub const MAX_WORD_BYTES: usize = 64;

    /// Returns true if a text can be a field of [`Kernel`].
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
