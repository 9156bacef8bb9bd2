//! The configuration of a remote: a server of images that the administrator has named.
//!
//! ```text
//! # format: 1
//! protocol: simplestreams
//! url: https://mirror.example.org/images
//! trust: keyring /etc/zones/keys/mirror.gpg
//! arch: arm64
//! ```
//!
//! `trust` is `keyring` and a path, or `tls-only`. `arch` may be absent: then it is the host's.

use std::fmt;
use std::path::PathBuf;

use oci::{Reference, shown};

use crate::architecture::canonical;
use crate::url::Base;

/// Newest format of the file.
pub const FORMAT: u64 = 1;

/// Maximum size of the file, in bytes.
pub const MAX_FILE: u64 = 16 << 10;

/// Maximum length of the name of a remote, in bytes.
const MAX_NAME: usize = 32;

/// Words that have another meaning before a colon.
const RESERVED: [&str; 6] = [
    "oci",
    "oci-archive",
    "docker",
    "docker-archive",
    "sha256",
    "https",
];

/// A server of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The name before the colon in `remote:name`.
    pub name: String,
    /// The protocol, with the address.
    pub protocol: Protocol,
    /// The proof that content is from the owner of the server.
    pub trust: Trust,
    /// The architecture of images, in Debian's words; `None` for the host's.
    pub architecture: Option<String>,
}

/// The protocol of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// Simple streams, as servers of Incus and LXD have them.
    SimpleStreams(Base),
    /// A registry of container images: the beginning of references, `docker://host/path`.
    Oci(String),
}

/// The proof that content is from the owner of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// A signature by a key in this file.
    Keyring(PathBuf),
    /// The certificate of the server alone.
    TlsOnly,
}

/// The configuration of a remote is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRemote {
    /// The name is not valid.
    #[error("{}: expected a name of up to 32 letters, digits, dots, dashes and underscores, and none of {}", shown(.0), RESERVED.join(", "))]
    Name(String),
    /// A line of the file is not valid.
    #[error("line {0}: {1}")]
    Line(usize, String),
    /// A line is missing.
    #[error("expected a line `{0}:`, found none")]
    Missing(&'static str),
    /// The address does not fit the protocol.
    #[error("{url}: {1}", url = shown(.0))]
    Url(String, &'static str),
    /// The protocol is unknown.
    #[error("{}: expected the protocol simplestreams or oci", shown(.0))]
    Protocol(String),
    /// The trust is unknown.
    #[error("{}: expected `keyring` and an absolute path, or `tls-only`", shown(.0))]
    Trust(String),
    /// Container images have no signature that these programs can check.
    #[error("signatures of container images are not checked: expected `tls-only` for protocol oci")]
    OciKeyring,
    /// The architecture is not a word.
    #[error("{}: expected the name of an architecture, such as arm64", shown(.0))]
    Architecture(String),
}

impl Protocol {
    /// Reads the address for a protocol. Without a protocol, `docker://` means `oci` and `https://`
    /// means `simplestreams`.
    ///
    /// # Errors
    /// Fails if the protocol is unknown or if the address does not fit it.
    pub fn new(protocol: Option<&str>, url: &str) -> Result<Self, BadRemote> {
        let is_docker = url.starts_with(oci_scheme());
        match (protocol, is_docker) {
            (Some("simplestreams") | None, false) => match url.parse() {
                Ok(base) => Ok(Self::SimpleStreams(base)),
                Err(_) => Err(BadRemote::Url(
                    url.to_owned(),
                    "expected https://host[:port][/path]",
                )),
            },
            (Some("simplestreams"), true) => Err(BadRemote::Url(
                url.to_owned(),
                "expected https:// for protocol simplestreams",
            )),
            (Some("oci"), _) | (None, true) => prefix(url).map(Self::Oci),
            (Some(other), _) => Err(BadRemote::Protocol(other.to_owned())),
        }
    }

    /// Returns the name of the protocol.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SimpleStreams(_) => "simplestreams",
            Self::Oci(_) => "oci",
        }
    }

    /// Returns the address.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::SimpleStreams(base) => base.to_string(),
            Self::Oci(prefix) => prefix.clone(),
        }
    }
}

const fn oci_scheme() -> &'static str {
    "docker://"
}

/// Returns the beginning of references to a registry.
fn prefix(url: &str) -> Result<String, BadRemote> {
    let bad = || BadRemote::Url(url.to_owned(), "expected docker://host[:port][/path]");
    let rest = url
        .strip_prefix(oci_scheme())
        .or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(bad)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let host = rest.split('/').next().unwrap_or_default();
    let begin = format!("{}{rest}", oci_scheme());
    // A name that is added makes a whole reference, and to this host.
    match format!("{begin}/name").parse::<Reference>() {
        Ok(reference) if reference.host == host => Ok(begin),
        _ => Err(bad()),
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring(path) => write!(f, "keyring {}", path.display()),
            Self::TlsOnly => f.write_str("tls-only"),
        }
    }
}

impl Trust {
    fn read(text: &str) -> Result<Self, BadRemote> {
        match text.split_once(' ') {
            None if text == "tls-only" => Ok(Self::TlsOnly),
            Some(("keyring", path)) if path.starts_with('/') => Ok(Self::Keyring(path.into())),
            _ => Err(BadRemote::Trust(text.to_owned())),
        }
    }
}

/// Returns true if a text can be the name of a remote.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().next().is_some_and(is_word)
        && name
            .bytes()
            .all(|byte| is_word(byte) || b"-._".contains(&byte))
        && !RESERVED.contains(&name)
}

impl Remote {
    /// Makes a remote and checks its parts.
    ///
    /// # Errors
    /// Fails if the name or the architecture is not valid, or if the protocol cannot give the proof.
    pub fn new(
        name: &str,
        protocol: Protocol,
        trust: Trust,
        architecture: Option<&str>,
    ) -> Result<Self, BadRemote> {
        if !is_name(name) {
            return Err(BadRemote::Name(name.to_owned()));
        }
        if matches!((&protocol, &trust), (Protocol::Oci(_), Trust::Keyring(_))) {
            return Err(BadRemote::OciKeyring);
        }
        let is_word = |text: &str| {
            (1..=32).contains(&text.len())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        if let Some(bad) = architecture.filter(|text| !is_word(text)) {
            return Err(BadRemote::Architecture(bad.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            protocol,
            trust,
            architecture: architecture.map(|name| canonical(name).to_owned()),
        })
    }

    /// Reads the file of the remote `name`. Lines that begin with `#` are comments. An unknown line
    /// is an error: it could be a security property without effect.
    ///
    /// # Errors
    /// Fails with the first line that is not valid, or that is missing.
    pub fn read(name: &str, text: &str) -> Result<Self, BadRemote> {
        let mut values: [(&str, Option<&str>); 4] = [
            ("protocol", None),
            ("url", None),
            ("trust", None),
            ("arch", None),
        ];
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad =
                |problem: &str| BadRemote::Line(number + 1, format!("{}: {problem}", shown(line)));
            let (key, value) = line
                .split_once(':')
                .ok_or_else(|| bad("expected `name: value`"))?;
            let slot = values.iter_mut().find(|(known, _)| *known == key);
            let (_, slot) = slot.ok_or_else(|| bad("expected protocol, url, trust or arch"))?;
            if slot.replace(value.trim()).is_some() {
                return Err(bad("found twice"));
            }
        }
        let [(_, protocol), (_, url), (_, trust), (_, architecture)] = values;
        let protocol = protocol.ok_or(BadRemote::Missing("protocol"))?;
        let url = url.ok_or(BadRemote::Missing("url"))?;
        let trust = Trust::read(trust.ok_or(BadRemote::Missing("trust"))?)?;
        Self::new(
            name,
            Protocol::new(Some(protocol), url)?,
            trust,
            architecture,
        )
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "# format: {FORMAT}\nprotocol: {}\nurl: {}\ntrust: {}\n",
            self.protocol.name(),
            self.protocol.url(),
            self.trust
        );
        if let Some(name) = &self.architecture {
            text.push_str(&format!("arch: {name}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str, trust: Trust) -> Result<Remote, BadRemote> {
        Remote::new("images", Protocol::new(None, url)?, trust, Some("aarch64"))
    }

    #[test]
    fn a_remote_is_read_as_it_is_written() {
        for (url, trust) in [
            (
                "https://mirror.example.org/images",
                Trust::Keyring("/etc/zones/keys/m.gpg".into()),
            ),
            ("https://mirror.example.org:8443", Trust::TlsOnly),
            ("docker://registry.example.org/team", Trust::TlsOnly),
        ] {
            let written = remote(url, trust).unwrap();
            assert_eq!(Remote::read("images", &written.text()), Ok(written.clone()));
            assert_eq!(written.protocol.url(), url);
            assert_eq!(written.architecture.as_deref(), Some("arm64"));
        }
    }

    #[test]
    fn trust_is_never_assumed() {
        let text = "protocol: simplestreams\nurl: https://mirror.example.org\n";
        assert_eq!(Remote::read("m", text), Err(BadRemote::Missing("trust")));
        for trust in ["tls-onl", "keyring", "keyring relative", "none", ""] {
            let text = format!("{text}trust: {trust}\n");
            assert!(Remote::read("m", &text).is_err(), "{trust}");
        }
        assert_eq!(
            remote("docker://registry.example.org", Trust::Keyring("/k".into())),
            Err(BadRemote::OciKeyring)
        );
    }

    #[test]
    fn unknown_and_repeated_lines_are_refused() {
        let text = "protocol: simplestreams\nurl: https://mirror.example.org\ntrust: tls-only\n";
        assert!(Remote::read("m", text).is_ok());
        for (more, line) in [("keyring: /x", 4), ("trust: tls-only", 4), ("nonsense", 4)] {
            let error = Remote::read("m", &format!("{text}{more}\n")).unwrap_err();
            assert!(
                matches!(error, BadRemote::Line(number, _) if number == line),
                "{error}"
            );
        }
    }

    #[test]
    fn names_and_addresses_are_checked() {
        for name in ["", "a:b", "a/b", ".a", "docker", "oci", &"a".repeat(33)] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("images") && is_name("m-1.x_y"));
        for (protocol, url) in [
            (Some("simplestreams"), "http://mirror.example.org"),
            (Some("simplestreams"), "docker://mirror.example.org"),
            (Some("oci"), "docker://"),
            (Some("oci"), "docker://team"),
            (Some("oci"), "http://registry.example.org"),
            (Some("ftp"), "https://mirror.example.org"),
            (None, "mirror.example.org"),
        ] {
            assert!(Protocol::new(protocol, url).is_err(), "{url}");
        }
        assert_eq!(
            Protocol::new(Some("oci"), "https://registry.example.org/team/"),
            Ok(Protocol::Oci(
                "docker://registry.example.org/team".to_owned()
            ))
        );
    }
}
