//! Dictionaries of the words in the seeds.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The words that a parser looks for but that may be in no seed.
pub(crate) const MORE: &[&str] = &[
    "\n",
    "\r\n",
    ";",
    "\"",
    "\"\"",
    "=[",
    "=(",
    "),(",
    "],",
    "%%",
    "%{zonename}",
    "#",
    " -F",
    " -?",
    "''",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE ",
    "<?xml",
    "?>",
    "/>",
    "</",
    "&#x41;",
    "&amp;",
    "::",
    "null",
    "{}",
    "[]",
];

thread_local! {
    /// The words of the target that this program fuzzes.
    static WORDS: OnceCell<Vec<Vec<u8>>> = const { OnceCell::new() };
}

/// Calls `f` with the words of a target. Later calls use the target of the first call.
pub(crate) fn with<T>(target: &str, f: impl FnOnce(&[Vec<u8>]) -> T) -> T {
    WORDS.with(|words| f(words.get_or_init(|| all(&crate::seeds(target)))))
}

/// Returns the words of the seeds.
fn all(seeds: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut words: BTreeSet<Vec<u8>> = MORE.iter().map(|word| word.as_bytes().to_vec()).collect();
    for seed in seeds {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_%{}".contains(byte);
        let parts = seed.split(|byte| !is_inner(byte));
        words.extend(
            parts
                .filter(|part| (2..=24).contains(&part.len()))
                .map(<[u8]>::to_vec),
        );
    }
    words.into_iter().collect()
}

/// Returns a dictionary of libFuzzer: each word of the seeds on a line, in quotes.
#[must_use]
pub fn dictionary(seeds: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for word in all(seeds) {
        text.push('"');
        for byte in word {
            // Writing to a string cannot fail.
            let _ = match byte {
                b'"' | b'\\' => write!(text, "\\{}", char::from(byte)),
                b' '..=b'~' => write!(text, "{}", char::from(byte)),
                _ => write!(text, "\\x{byte:02x}"),
            };
        }
        text.push_str("\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        let text = dictionary(&[b"add fs\nset dir=/data".to_vec()]);
        for line in ["\"add\"", "\"fs\"", "\"data\"", "\"\\x0a\"", "\"\\\"\""] {
            assert!(text.lines().any(|word| word == line), "{line}");
        }
    }
}
