//! References to images in registries.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::digest::Digest;

/// The prefix that marks a reference to a registry on a command line.
pub const SCHEME: &str = "docker://";

/// The registry that is used if a reference names none, and the host name of its server.
const DEFAULT: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// Maximum length of the name of a repository, in bytes.
const MAX_NAME: usize = 255;

/// A reference to an image in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name or address of the registry, with its port: `localhost:5000`.
    pub host: String,
    /// The name of the repository: `library/debian`.
    pub repository: String,
    /// The tag; `latest` if the reference has neither a tag nor a digest.
    pub tag: Option<String>,
    /// The required digest of the manifest.
    pub digest: Option<Digest>,
}

/// The text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {problem}; expected docker://host[:port]/name[:tag][@sha256:digest]",
    crate::shown(text)
)]
pub struct BadReference {
    text: String,
    problem: &'static str,
}

impl Reference {
    /// Returns the name with which to request the manifest: the digest if there is one, else the
    /// tag.
    #[must_use]
    pub fn target(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// Returns the host name of the registry's API.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        match self.host.as_str() {
            name if name == DEFAULT.0 => DEFAULT.1,
            name => name,
        }
    }

    /// Returns true if the registry is on this machine. Only then plain HTTP is allowed.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

/// Returns true if `host`, with or without a port, is a loopback address or `localhost`.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost"
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let bad = |problem| BadReference {
            text: text.to_owned(),
            problem,
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad("not a reference to a registry"))?;
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digits)) => {
                let digest = digits.parse().map_err(|_| bad("not a sha256 digest"))?;
                (rest, Some(digest))
            }
        };
        let is_host = |word: &str| word == "localhost" || word.contains(['.', ':', '[']);
        let (host, rest) = match rest.split_once('/') {
            Some((host, rest)) if is_host(host) => (host, rest),
            _ => (DEFAULT.0, rest),
        };
        if !is_authority(host) {
            return Err(bad("not the name of a registry"));
        }
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("not a tag"));
        }
        if name.len() > MAX_NAME || !name.split('/').all(is_component) {
            return Err(bad("not the name of a repository"));
        }
        let repository = match host == DEFAULT.0 && !name.contains('/') {
            true => format!("library/{name}"),
            false => name.to_owned(),
        };
        let tag = match (tag, digest) {
            (Some(tag), _) => Some(tag.to_owned()),
            (None, None) => Some("latest".to_owned()),
            (None, Some(_)) => None,
        };
        Ok(Self {
            host: host.to_owned(),
            repository,
            tag,
            digest,
        })
    }
}

/// Returns true for a host name or an address with an optional port. Every other character is
/// refused, because the text becomes part of a URL.
#[must_use]
pub fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, rest)) => {
                if address.parse::<std::net::Ipv6Addr>().is_err() {
                    return false;
                }
                match rest.strip_prefix(':') {
                    Some(port) => ("v6", Some(port)),
                    None if rest.is_empty() => ("v6", None),
                    None => return false,
                }
            }
            None => return false,
        },
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_port = |port: &str| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    host.len() <= 253 && host.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

/// Returns true for lower case words with one separator between two words: `.`, `_`, `__` or
/// dashes.
fn is_component(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    if !ends.iter().all(|end| end.is_some_and(|b| is_word(*b))) {
        return false;
    }
    text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .filter(|between| !between.is_empty())
        .all(|between| matches!(between, "." | "_" | "__") || between.bytes().all(|b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, String, String)> {
        let read: Reference = text.parse().ok()?;
        Some((read.host.clone(), read.repository.clone(), read.target()))
    }

    #[test]
    fn references_are_read() {
        let pin = format!("sha256:{}", "ab".repeat(32));
        for (text, host, name, target) in [
            ("docker://debian", "docker.io", "library/debian", "latest"),
            ("docker://debian:12", "docker.io", "library/debian", "12"),
            (
                "docker://user/app:v1.2-3_x",
                "docker.io",
                "user/app",
                "v1.2-3_x",
            ),
            ("docker://ghcr.io/a/b/c", "ghcr.io", "a/b/c", "latest"),
            ("docker://localhost/a", "localhost", "a", "latest"),
            ("docker://localhost:5000/a:b", "localhost:5000", "a", "b"),
            ("docker://127.0.0.1:5000/a", "127.0.0.1:5000", "a", "latest"),
            (
                "docker://[::1]:5000/a__b/c--d",
                "[::1]:5000",
                "a__b/c--d",
                "latest",
            ),
            (&format!("docker://quay.io/a:x@{pin}"), "quay.io", "a", &pin),
            (&format!("docker://quay.io/a@{pin}"), "quay.io", "a", &pin),
        ] {
            let wanted = (host.to_owned(), name.to_owned(), target.to_owned());
            assert_eq!(read(text), Some(wanted), "{text}");
        }
        for bad in [
            "",
            "debian",
            "docker://",
            "docker:///a",
            "docker://a/",
            "docker://A",
            "docker://a b",
            "docker://a/../b",
            "docker://a/./b",
            "docker://a:",
            "docker://a:.x",
            "docker://a@sha256:12",
            "docker://a@md5:12",
            "docker://user:pw@host.org/a",
            "docker://host.org:0/a",
            "docker://host.org:99999/a",
            "docker://-host.org/a",
            "docker://host.org/a?b",
            "docker://host.org/a#b",
            "docker://host.org/a%2fb",
            "docker://[::g]/a",
            "docker://a___b",
            "docker://a._b",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn printed_references_read_back() {
        for text in ["docker://debian", "docker://localhost:5000/a:b"] {
            let read: Reference = text.parse().unwrap();
            assert_eq!(read.to_string().parse(), Ok(read));
        }
    }

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for host in [
            "localhost",
            "localhost:5000",
            "127.0.0.1",
            "127.3.2.1:80",
            "[::1]:5000",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "127.0.0.1.example.org",
            "10.0.0.1",
            "localhost.example.org",
            "[::2]",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
