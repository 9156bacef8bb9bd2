//! The kinds of property values: what each accepts and its canonical form.

use crate::brands;
use crate::name::{ZoneName, is_well_formed};

/// Longest value of any property in bytes.
pub const MAX_VALUE: usize = 2048;

/// Longest path in bytes (PATH_MAX less the terminating NUL and room for a
/// name below the zone's root).
pub const MAX_PATH: usize = 1023;

/// What values a property takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// An absolute path without `.` and `..`.
    Path,
    /// An absolute path that is not `/`.
    ZonePath,
    /// A whole number within these bounds, both included.
    Int {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// Bytes, with an optional suffix K, M, G or T (powers of 1024).
    Size,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// A list of texts.
    List,
    /// A list of complex values, each with these fields.
    Complex(&'static [&'static str]),
    /// A zone name.
    ZoneName,
    /// A brand name.
    Brand,
    /// A host id: hexadecimal, 0 to fffffffe, `0x` optional.
    HostId,
    /// A file system type: a word without `/`.
    FsType,
    /// The name of an attr resource.
    AttrName,
}

/// A value that its property does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// Not one of the few words that are allowed.
    #[error("{property} value must be {choices}.")]
    Choice {
        /// The property.
        property: String,
        /// The words, quoted and joined.
        choices: String,
    },
    /// Anything else.
    #[error("{property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The property.
        property: String,
        /// The value, shortened when it is very long.
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

impl BadValue {
    pub(crate) fn new(property: &str, value: &str, why: impl Into<String>) -> Self {
        let mut shown: String = value.chars().take(80).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        Self::Invalid {
            property: property.to_owned(),
            value: shown.escape_debug().to_string(),
            why: why.into(),
        }
    }
}

impl Kind {
    /// Checks a simple value, or one element of a list of texts, of `property`
    /// and gives it in canonical form.
    pub fn check(self, property: &str, value: &str) -> Result<String, BadValue> {
        let bad = |why: &str| Err(BadValue::new(property, value, why));
        if value.len() > MAX_VALUE {
            return bad(&format!("is longer than {MAX_VALUE} bytes"));
        }
        // The language has no escape for these, so export could not write them.
        if value.chars().any(|c| c.is_control() || c == '"') {
            return bad("has a control character or a double quote");
        }
        match self {
            Self::Text | Self::List => {}
            Self::Bool => return choice(property, value, &["true", "false"]),
            Self::Enum(words) => return choice(property, value, words),
            Self::Path | Self::ZonePath => {
                return check_path(value, self == Self::ZonePath).or_else(bad);
            }
            Self::Int { min, max } => {
                let number = value.parse::<u64>().ok();
                let in_range = number.filter(|number| (min..=max).contains(number));
                return in_range.map_or_else(
                    || bad(&format!("is not a whole number from {min} to {max}")),
                    |number| Ok(number.to_string()),
                );
            }
            Self::Size => {
                if parse_size(value).is_none() {
                    return bad("is not a number of bytes, with K, M, G or T after it");
                }
            }
            Self::Complex(_) => return bad("is not a complex value (name=value,...)"),
            Self::ZoneName => {
                if let Err(error) = value.parse::<ZoneName>() {
                    return bad(&format!("is a bogus zone name: {error}"));
                }
            }
            Self::Brand => {
                if brands::find(value).is_none() {
                    return bad("is not a known brand");
                }
            }
            Self::HostId => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                let legal = (1..=8).contains(&digits.len())
                    && digits.bytes().all(|b| b.is_ascii_hexdigit())
                    && u32::from_str_radix(digits, 16).is_ok_and(|id| id != u32::MAX);
                if !legal {
                    return bad("is not hexadecimal from 0 to fffffffe");
                }
            }
            Self::FsType => {
                let legal = (1..=15).contains(&value.len())
                    && value.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
                if !legal {
                    return bad("is not a file system type");
                }
            }
            Self::AttrName => {
                let legal = is_well_formed(value) && !value.starts_with("zone");
                if !legal {
                    return bad(
                        "is not an attribute name: letters, digits, '-', '_' and '.', a letter or digit first, and no name that begins with zone",
                    );
                }
            }
        }
        Ok(value.to_owned())
    }
}

fn choice(property: &str, value: &str, words: &[&str]) -> Result<String, BadValue> {
    if words.contains(&value) {
        return Ok(value.to_owned());
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let choices = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    Err(BadValue::Choice {
        property: property.to_owned(),
        choices,
    })
}

/// The path without doubled and trailing slashes, so that equal paths are equal.
fn check_path(value: &str, zonepath: bool) -> Result<String, &'static str> {
    if value.len() > MAX_PATH {
        return Err("is too long for a path");
    }
    if !value.starts_with('/') {
        return Err("is not an absolute path");
    }
    let mut path = String::with_capacity(value.len());
    for part in value.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." {
            return Err("has a '.' or '..' in it");
        }
        path.push('/');
        path.push_str(part);
    }
    match (path.is_empty(), zonepath) {
        (true, true) => Err("is not allowed as a zonepath"),
        (true, false) => Ok("/".to_owned()),
        (false, _) => Ok(path),
    }
}

/// Bytes of a size such as `512`, `50m` or `4G`.
fn parse_size(value: &str) -> Option<u64> {
    let (digits, shift) = match value.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&value[..value.len() - 1], 10),
        b'M' => (&value[..value.len() - 1], 20),
        b'G' => (&value[..value.len() - 1], 30),
        b'T' => (&value[..value.len() - 1], 40),
        _ => (value, 0),
    };
    let legal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = legal.then(|| digits.parse::<u64>().ok()).flatten()?;
    number.checked_mul(1 << shift)
}

/// Replaces `%{zonename}` and `%%`; any other use of `%` is an error.
pub fn expand(property: &str, text: &str, zonename: &str) -> Result<String, BadValue> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix("{zonename}") {
            out.push_str(zonename);
            rest = after;
        } else if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
        } else {
            let why = "has an unknown token: use %{zonename}, or %% for a percent sign";
            return Err(BadValue::new(property, text, why));
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_canonicalises() {
        for (kind, given, canonical) in [
            (Kind::Text, "a b=c", "a b=c"),
            (Kind::Bool, "true", "true"),
            (Kind::Path, "/", "/"),
            (Kind::Path, "/a..b/.c", "/a..b/.c"),
            (Kind::Path, "//usr//local/", "/usr/local"),
            (Kind::ZonePath, "/zones/%{zonename}", "/zones/%{zonename}"),
            (Kind::Int { min: 1, max: 9 }, "007", "7"),
            (Kind::Size, "50m", "50m"),
            (Kind::Enum(&["x", "y"]), "y", "y"),
            (Kind::Brand, "ipkg", "ipkg"),
            (Kind::HostId, "0xFFFFFFFE", "0xFFFFFFFE"),
            (Kind::HostId, "0", "0"),
            (Kind::FsType, "fuse.sshfs", "fuse.sshfs"),
            (Kind::AttrName, "kernel-version", "kernel-version"),
        ] {
            assert_eq!(kind.check("p", given).as_deref(), Ok(canonical), "{given}");
        }
    }

    #[test]
    fn refuses_what_is_illegal() {
        let long = "x".repeat(MAX_VALUE + 1);
        let long_path = format!("/{}", "x".repeat(MAX_PATH));
        for (kind, given) in [
            (Kind::Text, long.as_str()),
            (Kind::Text, "a\nb"),
            (Kind::Text, "a\"b"),
            (Kind::Bool, "TRUE"),
            (Kind::Path, "usr"),
            (Kind::Path, ""),
            (Kind::Path, "/a/../b"),
            (Kind::Path, &long_path),
            (Kind::ZonePath, "//"),
            (Kind::Int { min: 1, max: 9 }, "10"),
            (Kind::Int { min: 1, max: 9 }, "-1"),
            (Kind::Size, "K"),
            (Kind::Size, "1.5G"),
            (Kind::Size, "99999999999T"),
            (Kind::Size, "5é"),
            (Kind::Enum(&["x"]), "z"),
            (Kind::ZoneName, "global"),
            (Kind::Brand, "hurd"),
            (Kind::HostId, "ffffffff"),
            (Kind::HostId, "0x"),
            (Kind::HostId, "+1"),
            (Kind::HostId, "123456789"),
            (Kind::FsType, "a/b"),
            (Kind::AttrName, "zonefoo"),
            (Kind::AttrName, "-x"),
        ] {
            assert!(kind.check("p", given).is_err(), "{kind:?} {given}");
        }
    }

    #[test]
    fn no_path_can_end_a_line_or_a_quote() {
        for kind in [Kind::Path, Kind::ZonePath, Kind::List, Kind::Text] {
            for bad in ["\n", "\r", "\t", "\0", "\u{7f}", "\u{85}", "\""] {
                let path = format!("/zones/a{bad}evil:installed:/etc");
                assert!(kind.check("zonepath", &path).is_err(), "{kind:?} {bad:?}");
            }
        }
    }

    #[test]
    fn names_the_choices() {
        let text = |words| {
            Kind::Enum(words)
                .check("p", "z")
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            text(&["a", "b", "c"]),
            Err("p value must be 'a', 'b' or 'c'.".to_owned())
        );
        assert_eq!(text(&["a"]), Err("p value must be 'a'.".to_owned()));
    }

    #[test]
    fn expands_tokens() {
        let expand = |text| expand("zonepath", text, "web1").ok();
        assert_eq!(expand("/z/%{zonename}/x"), Some("/z/web1/x".to_owned()));
        assert_eq!(expand("/100%%"), Some("/100%".to_owned()));
        assert_eq!(expand("/%%{zonename}"), Some("/%{zonename}".to_owned()));
        assert_eq!(expand("/%zonename"), None);
        assert_eq!(expand("/%{id}"), None);
        assert_eq!(expand("/%"), None);
    }
}
