//! The address of a server, and the paths of documents below this address.

use std::fmt;
use std::str::FromStr;

/// The scheme of every address. Plain HTTP is not used.
const SCHEME: &str = "https://";

/// Maximum length of an address or a path, in bytes.
const MAX_LENGTH: usize = 1024;

/// The address of a server's streams: `https://host[:port][/path]`, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base(String);

/// The text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: expected https://host[:port][/path]", oci::shown(.0))]
pub struct BadBase(String);

impl FromStr for Base {
    type Err = BadBase;

    fn from_str(text: &str) -> Result<Self, BadBase> {
        let bad = || BadBase(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(bad)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) => (host, Some(path)),
            None => (rest, None),
        };
        let fits = oci::is_authority(host) && path.is_none_or(is_path);
        match fits && text.len() <= MAX_LENGTH {
            true => Ok(Self(format!("{SCHEME}{rest}"))),
            false => Err(bad()),
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Base {
    /// Returns the address of a document. `None` if the path is not a path below this address.
    #[must_use]
    pub fn join(&self, path: &str) -> Option<String> {
        is_path(path).then(|| format!("{}/{}", self.0, escaped(path)))
    }
}

/// Returns true for a relative path without `..`, empty components and characters with a meaning in
/// an address. Such a path cannot lead to another server or out of the folder of the streams.
#[must_use]
pub fn is_path(path: &str) -> bool {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~+:@=,".contains(&byte);
    (1..=MAX_LENGTH).contains(&path.len())
        && path.bytes().all(is_character)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        // A text such as `https:` is no first component.
        && !path.split('/').next().is_some_and(|first| first.ends_with(':'))
}

/// Percent-encodes the characters that only paths may contain.
fn escaped(path: &str) -> String {
    path.replace(':', "%3A").replace('@', "%40")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_an_address() {
        for (text, base) in [
            ("https://mirror.example.org", "https://mirror.example.org"),
            ("https://127.0.0.1:8443/a/b/", "https://127.0.0.1:8443/a/b"),
            ("https://[::1]:1/a", "https://[::1]:1/a"),
        ] {
            assert_eq!(text.parse::<Base>().unwrap().to_string(), base);
        }
        for bad in [
            "http://mirror.example.org",
            "https://",
            "https://user:pw@mirror.example.org",
            "https://mirror.example.org/../a",
            "https://mirror.example.org/a?b",
            "https://mirror.example.org//a",
            "ftp://mirror.example.org",
            "mirror.example.org",
        ] {
            assert!(bad.parse::<Base>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_stays_below_its_address() {
        let base: Base = "https://mirror.example.org/images".parse().unwrap();
        assert_eq!(
            base.join("images/debian/20251124_05:24/root.squashfs")
                .as_deref(),
            Some("https://mirror.example.org/images/images/debian/20251124_05%3A24/root.squashfs")
        );
        for bad in [
            "",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a/./b",
            "a//b",
            "https://example.net/a",
            "//example.net/a",
            "a?b",
            "a#b",
            "a%2e%2e/b",
            "a\\b",
            "a b",
        ] {
            assert_eq!(base.join(bad), None, "{bad}");
        }
    }
}
