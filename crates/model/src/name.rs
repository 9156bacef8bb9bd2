//! Zone names and their rules (zonecfg(8)).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a zone name in bytes.
pub const MAX_LEN: usize = 63;

/// The name of the global zone, which is the host itself.
pub const GLOBAL: &str = "global";

/// A legal name of a zone. Only [`ZoneName::global`] makes the name of the global zone; parsing
/// never returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ZoneName(String);

/// The error for a text that is not a legal zone name. The message has no control characters: the text
/// may come from a damaged file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: Bogus zone name: use up to {MAX_LEN} letters, digits, '_', '-' and '.', a letter or digit first, not '{GLOBAL}' and not SUNW... or SYS...",
    .0.replace(char::is_control, "?")
)]
pub struct BadName(pub String);

impl ZoneName {
    /// Returns the name of the global zone, for its configuration.
    #[must_use]
    pub fn global() -> Self {
        Self(GLOBAL.to_owned())
    }

    /// Returns true if this is the name of the global zone.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.0 == GLOBAL
    }

    /// Returns the name of a template, for its configuration, or `None` if the text cannot be the
    /// name of a template. Parsing never returns the name of a template.
    #[must_use]
    pub fn template(text: &str) -> Option<Self> {
        (is_well_formed(text) && is_reserved(text)).then(|| Self(text.to_owned()))
    }

    /// Returns true if the name is that of a template.
    #[must_use]
    pub fn is_template(&self) -> bool {
        is_reserved(&self.0)
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true if `text` has the characters and length of a zone or template name.
#[must_use]
pub fn is_well_formed(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && text.len() <= MAX_LEN
}

/// Returns true if `text` begins like the name of a template (`SUNW...`, `SYS...`).
#[must_use]
pub fn is_reserved(text: &str) -> bool {
    text.starts_with("SUNW") || text.starts_with("SYS")
}

impl FromStr for ZoneName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if is_well_formed(text) && !is_reserved(text) && text != GLOBAL {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ZoneName {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<ZoneName> for String {
    fn from(name: ZoneName) -> Self {
        name.0
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for ZoneName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_safe_for_a_terminal() {
        let error = "web\u{1b}[2J\n".parse::<ZoneName>().unwrap_err();
        assert!(error.to_string().starts_with("web?[2J?: Bogus"), "{error}");
    }

    #[test]
    fn accepts_what_zonecfg_accepts() {
        for good in ["a", "web1", "9lives", "db-1.prod_x", &"x".repeat(63)] {
            assert!(good.parse::<ZoneName>().is_ok(), "{good}");
        }
    }

    #[test]
    fn the_global_zone_is_never_read() {
        assert!(ZoneName::global().is_global());
        assert!(ZoneName::try_from("global".to_owned()).is_err());
    }

    #[test]
    fn templates_have_names_of_their_own() {
        assert!(ZoneName::template("SYSdefault").is_some_and(|name| name.is_template()));
        for no in ["web1", "global", "SYS/x", ""] {
            assert_eq!(ZoneName::template(no), None, "{no}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for bad in [
            "",
            "-a",
            ".a",
            "_a",
            "a b",
            "a/b",
            "..",
            "é",
            "global",
            "SUNWx",
            "SYSdefault",
            &"x".repeat(64),
        ] {
            assert!(bad.parse::<ZoneName>().is_err(), "{bad}");
        }
    }
}
