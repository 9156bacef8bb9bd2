//! Credentials for registries, and the challenges of registries.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::{Error, Reference, shown};

/// Maximum size of a file of credentials, in bytes.
pub const MAX_FILE: u64 = 1 << 20;

/// The names under which a file of credentials lists Docker's own registry.
const DOCKER: [&str; 3] = [
    "https://index.docker.io/v1/",
    "index.docker.io",
    "registry-1.docker.io",
];

/// A user name and a password for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name.
    pub user: String,
    /// The password of the user.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// The value of an `Authorization` header for HTTP's basic authentication.
    #[must_use]
    pub fn basic(&self) -> String {
        format!(
            "Basic {}",
            encode(format!("{}:{}", self.user, self.password).as_bytes())
        )
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<String>,
}

/// Returns the credentials for a reference from a file in the format of containers-auth.json(5),
/// which Docker, Podman and others write. The most exact entry of `host/name/part`, `host/name` and
/// `host` counts.
///
/// # Errors
/// Fails if the file does not have this format.
pub fn find(what: &str, text: &[u8], reference: &Reference) -> Result<Option<Credentials>, Error> {
    let file: File = serde_json::from_slice(text)
        .map_err(|error| Error::bad(what, format!("not a file of credentials: {error}")))?;
    let mut keys = Vec::new();
    let mut name = reference.repository.as_str();
    loop {
        keys.push(format!("{}/{name}", reference.host));
        match name.rsplit_once('/') {
            Some((shorter, _)) => name = shorter,
            None => break,
        }
    }
    keys.push(reference.host.clone());
    keys.push(format!("https://{}", reference.host));
    if reference.host == "docker.io" {
        keys.extend(DOCKER.iter().map(|key| (*key).to_owned()));
    }
    let Some((key, entry)) = keys
        .iter()
        .find_map(|key| Some((key, file.auths.get(key)?)))
    else {
        return Ok(None);
    };
    let Some(auth) = entry.auth.as_deref().filter(|auth| !auth.is_empty()) else {
        return Ok(None);
    };
    let pair = decode(auth)
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| {
            let (user, password) = text.split_once(':')?;
            Some(Credentials {
                user: user.to_owned(),
                password: password.to_owned(),
            })
        });
    match pair {
        Some(pair) => Ok(Some(pair)),
        None => Err(Error::bad(
            what,
            format!("the entry of {} is no base64 of user:password", shown(key)),
        )),
    }
}

/// The authentication that a registry demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// The registry asks for a user name and a password.
    Basic,
    /// The registry asks for a token from another server.
    Bearer {
        /// The URL of the server that issues tokens.
        realm: String,
        /// The service for which the token is valid.
        service: Option<String>,
        /// The actions that the token allows.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads a `WWW-Authenticate` header. Returns `None` for an unknown kind of authentication.
    #[must_use]
    pub fn read(header: &str) -> Option<Self> {
        let (kind, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if kind.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !kind.eq_ignore_ascii_case("bearer") || header.len() > 8192 {
            return None;
        }
        let mut all = parameters(rest)?;
        let mut take = |name: &str| all.remove(name).filter(|value: &String| !value.is_empty());
        Some(Self::Bearer {
            realm: take("realm")?,
            service: take("service"),
            scope: take("scope"),
        })
    }
}

/// Reads a list `name="value",name=value`, the syntax of HTTP's parameters.
fn parameters(text: &str) -> Option<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let mut value = String::new();
        match after.strip_prefix('"') {
            Some(quoted) => {
                let mut chars = quoted.char_indices();
                let mut end = None;
                while let Some((at, char)) = chars.next() {
                    match char {
                        '"' => {
                            end = Some(at + 1);
                            break;
                        }
                        '\\' => value.push(chars.next()?.1),
                        other => value.push(other),
                    }
                }
                rest = &quoted[end?..];
            }
            None => {
                let end = after.find(',').unwrap_or(after.len());
                value.push_str(after[..end].trim());
                rest = &after[end..];
            }
        }
        all.entry(name.trim().to_ascii_lowercase()).or_insert(value);
        rest = rest.trim_start().trim_start_matches(',').trim_start();
    }
    Some(all)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns bytes as base64 text.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let at = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let digit = (bits >> (18 - 6 * n)) & 63;
            match n <= group.len() {
                true => text.push(char::from(DIGITS[digit as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

/// Returns the bytes of base64 text.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for byte in group {
            let digit = DIGITS.iter().position(|digit| digit == byte)?;
            bits = bits << 6 | u32::try_from(digit).ok()?;
        }
        let count = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn base64_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_header_is_read_without_a_panic(text in ".{0,80}") {
            let _ = Challenge::read(&text);
            let _ = Challenge::read(&format!("Bearer {text}"));
        }
    }

    #[test]
    fn base64_is_that_of_others() {
        assert_eq!(encode(b"user:secret"), "dXNlcjpzZWNyZXQ=");
        assert_eq!(decode("dXNlcjpzZWNyZXQ="), Some(b"user:secret".to_vec()));
        assert_eq!(decode("!"), None);
    }

    #[test]
    fn the_most_exact_entry_counts() {
        let entry =
            |key: &str, pair: &str| format!(r#""{key}":{{"auth":"{}"}}"#, encode(pair.as_bytes()));
        let text = format!(
            r#"{{"auths":{{{},{},{},"empty.org":{{}}}}}}"#,
            entry("reg.org", "all:1"),
            entry("reg.org/team", "team:2"),
            entry("https://index.docker.io/v1/", "docker:3:4")
        );
        let user = |name: &str| {
            let reference = name.parse().unwrap();
            find("f", text.as_bytes(), &reference)
                .unwrap()
                .map(|pair| pair.user + " " + &pair.password)
        };
        assert_eq!(user("docker://reg.org/team/app").as_deref(), Some("team 2"));
        assert_eq!(user("docker://reg.org/teams/app").as_deref(), Some("all 1"));
        assert_eq!(user("docker://debian").as_deref(), Some("docker 3:4"));
        assert_eq!(user("docker://other.org/a"), None);
        assert_eq!(user("docker://empty.org/a"), None);
        let reference = "docker://reg.org/a".parse().unwrap();
        let bad = br#"{"auths":{"reg.org":{"auth":"?"}}}"#;
        assert!(find("f", bad, &reference).is_err());
        assert!(find("f", b"[", &reference).is_err());
    }

    #[test]
    fn challenges_are_read() {
        let header = r#"Bearer realm="https://auth.org/token",service="reg, \"x\"",scope="repository:a/b:pull""#;
        assert_eq!(
            Challenge::read(header),
            Some(Challenge::Bearer {
                realm: "https://auth.org/token".into(),
                service: Some("reg, \"x\"".into()),
                scope: Some("repository:a/b:pull".into()),
            })
        );
        assert_eq!(Challenge::read("Basic realm=x"), Some(Challenge::Basic));
        for none in [
            "",
            "Digest realm=x",
            "Bearer",
            "Bearer realm=\"x",
            "Bearer service=\"x\"",
        ] {
            assert_eq!(Challenge::read(none), None, "{none}");
        }
    }
}
