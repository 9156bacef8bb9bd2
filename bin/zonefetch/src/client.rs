//! Requests to a registry: the allowed addresses, and the credentials.
//!
//! Plain HTTP is used only for this machine itself, whatever a registry answers, and not for a
//! registry that speaks TLS; a redirection or a place to get tokens that says otherwise is refused.
//! The password goes to the registry and to where it says tokens are given out; a token goes to the
//! registry alone.

use std::cell::RefCell;
use std::io::Read;
use std::time::Duration;

use oci::auth::{Challenge, Credentials};
use oci::{Reference, shown};
use serde::Deserialize;
use ureq::http::{Response, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};
use ureq::{Agent, Body};

use crate::probe::Wire;
use crate::tls::TlsConnector;
use crate::trust;

/// Maximum number of redirections that are followed.
pub const MAX_REDIRECTIONS: usize = 5;

/// Timeout between two pieces of a server's answer.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a token server's answer, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// The client of a registry for one image.
pub struct Client {
    pub reference: Reference,
    wire: Wire,
    credentials: Option<Credentials>,
    agent: Agent,
    /// The authorization header; `None` until the registry asks for it.
    authorization: RefCell<Option<String>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

/// Returns an HTTP client that follows no redirections by itself. `is_loopback` is true if the
/// server is on this machine.
pub fn agent(is_loopback: bool, wire: Wire) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(SERVER_TIMEOUT))
        .timeout_per_read(Some(SERVER_TIMEOUT))
        .user_agent(concat!("zonefetch/", env!("CARGO_PKG_VERSION")));
    if is_loopback {
        // Connections to this machine itself use no proxy.
        config = config.proxy(None);
    }
    let connector = ConnectProxyConnector::default().chain(TcpConnector::default());
    let resolver = DefaultResolver::default();
    Ok(match wire {
        Wire::Plain => Agent::with_parts(config.build(), connector, resolver),
        Wire::Tls => Agent::with_parts(
            config.https_only(true).build(),
            connector.chain(TlsConnector(trust::config()?)),
            resolver,
        ),
    })
}

impl Client {
    pub fn new(
        reference: Reference,
        wire: Wire,
        credentials: Option<Credentials>,
    ) -> Result<Self, String> {
        let agent = agent(reference.is_loopback(), wire)?;
        Ok(Self {
            reference,
            wire,
            credentials,
            agent,
            authorization: RefCell::new(None),
        })
    }

    /// Requests `path` of the image's repository. Returns a successful answer.
    pub fn get(&self, path: &str, accept: &str) -> Result<Response<Body>, String> {
        let scheme = match self.wire {
            Wire::Tls => "https",
            Wire::Plain => "http",
        };
        let (host, name) = (self.reference.endpoint(), &self.reference.repository);
        let begin = format!("{scheme}://{host}/v2/{name}/{path}");
        let mut asked = false;
        let mut url = self.allow(&begin)?;
        let home = url.authority().map(ToString::to_string);
        let mut redirections = 0;
        loop {
            let mut request = self.agent.get(&url).header("Accept", accept);
            let at_home = url.authority().map(ToString::to_string) == home;
            if let (true, Some(authorization)) = (at_home, &*self.authorization.borrow()) {
                request = request.header("Authorization", authorization);
            }
            let answer = request.call().map_err(|error| self.fail(&url, &error))?;
            let header = |name: &str| {
                let value = answer.headers().get(name)?;
                value.to_str().ok().map(str::to_owned)
            };
            match answer.status().as_u16() {
                200 => return Ok(answer),
                401 if at_home && !asked => {
                    asked = true;
                    let all = answer.headers().get_all("WWW-Authenticate").iter();
                    let challenge = all
                        .filter_map(|value| value.to_str().ok())
                        .find_map(Challenge::read);
                    self.authenticate(challenge)?;
                }
                401 | 403 => return Err(self.denied()),
                404 => {
                    return Err(format!(
                        "{}: the registry has no such image, or shows it to others only",
                        self.reference
                    ));
                }
                301 | 302 | 303 | 307 | 308 => {
                    redirections += 1;
                    let to = header("Location").unwrap_or_default();
                    if redirections > MAX_REDIRECTIONS || to.is_empty() {
                        return Err(format!(
                            "{}: the registry sends from place to place",
                            self.reference
                        ));
                    }
                    let whole = match to.starts_with('/') && !to.starts_with("//") {
                        true => format!(
                            "{}://{}{to}",
                            url.scheme_str().unwrap_or("https"),
                            url.authority().map(ToString::to_string).unwrap_or_default()
                        ),
                        false => to,
                    };
                    url = self.allow(&whole)?;
                }
                429 => {
                    return Err(format!(
                        "{}: the registry has had enough requests from here; try again later",
                        self.reference
                    ));
                }
                status => return Err(format!("{}: the registry answers {status}", self.reference)),
            }
        }
    }

    /// Parses an address and refuses an address that the client must not contact.
    fn allow(&self, text: &str) -> Result<Uri, String> {
        let bad = |problem: &str| Err(format!("{}: {}: {problem}", self.reference, shown(text)));
        let Ok(url) = text.parse::<Uri>() else {
            return bad("not an address");
        };
        let Some(authority) = url.authority() else {
            return bad("not a whole address");
        };
        if authority.as_str().contains('@') {
            return bad("an address with a password");
        }
        match (url.scheme_str(), self.wire) {
            (Some("https"), Wire::Tls) => Ok(url),
            (Some("http"), Wire::Plain) if oci::is_loopback(authority.as_str()) => Ok(url),
            (Some("http"), Wire::Plain) => bad("plain HTTP, which is spoken to this machine only"),
            (Some("http"), Wire::Tls) => bad("plain HTTP, from a registry with TLS"),
            _ => bad("neither HTTP nor HTTPS from a registry that speaks the same"),
        }
    }

    fn denied(&self) -> String {
        let name = &self.reference;
        match &self.credentials {
            Some(pair) => format!(
                "{name}: the registry does not show it to {}",
                shown(&pair.user)
            ),
            None => format!(
                "{name}: the registry wants a user and a password (or has no such image); see /etc/zones/registries.json"
            ),
        }
    }

    /// Gets the authorization header for the registry.
    fn authenticate(&self, challenge: Option<Challenge>) -> Result<(), String> {
        let authorization = match (challenge, &self.credentials) {
            (Some(Challenge::Basic), Some(pair)) => pair.basic(),
            (Some(Challenge::Basic), None) => return Err(self.denied()),
            (
                Some(Challenge::Bearer {
                    realm,
                    service,
                    scope,
                }),
                _,
            ) => {
                format!("Bearer {}", self.token(&realm, service, scope)?)
            }
            (None, _) => {
                let name = &self.reference;
                return Err(format!(
                    "{name}: the registry wants proof of a kind that is not known"
                ));
            }
        };
        *self.authorization.borrow_mut() = Some(authorization);
        Ok(())
    }

    fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
    ) -> Result<String, String> {
        let own = format!("repository:{}:pull", self.reference.repository);
        let mut url = realm.to_owned();
        for (name, value) in [("service", service), ("scope", Some(scope.unwrap_or(own)))] {
            let Some(value) = value else { continue };
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&format!("{name}={}", escaped(&value)));
        }
        let url = self.allow(&url)?;
        let mut request = self.agent.get(&url);
        if let Some(pair) = &self.credentials {
            request = request.header("Authorization", pair.basic());
        }
        let mut answer = request.call().map_err(|error| self.fail(&url, &error))?;
        match answer.status().as_u16() {
            200 => {}
            400 | 401 | 403 => return Err(self.denied()),
            status => return Err(format!("{}: no token: {status}", self.reference)),
        }
        let text = read_all(&mut answer, MAX_TOKEN)
            .map_err(|error| format!("{}: no token: {error}", self.reference))?;
        let token: Token = serde_json::from_slice(&text)
            .map_err(|_| format!("{}: the answer has no token in it", self.reference))?;
        let token = if token.token.is_empty() {
            token.access_token
        } else {
            token.token
        };
        match token.is_empty() || token.bytes().any(|b| !b.is_ascii_graphic()) {
            true => Err(format!("{}: the answer has no token in it", self.reference)),
            false => Ok(token),
        }
    }

    fn fail(&self, url: &Uri, error: &ureq::Error) -> String {
        let host = url.authority().map(ToString::to_string).unwrap_or_default();
        let remedy = match trust::is_unknown(error) {
            true => {
                "; add its certificate, or that of its authority, to those that the host trusts"
            }
            false => "",
        };
        format!("{}: {}: {error}{remedy}", self.reference, shown(&host))
    }
}

/// Reads an answer of at most `most` bytes.
pub fn read_all(answer: &mut Response<Body>, most: u64) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let reader = answer.body_mut().with_config().limit(u64::MAX).reader();
    let read = reader.take(most + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    match text.len() as u64 > most {
        true => Err(format!("more than {most} bytes")),
        false => Ok(text),
    }
}

/// Percent-encodes a value for a URL.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::disallowed_macros)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_spoken_to_this_machine_only() {
        let reference: Reference = "docker://localhost:5000/a".parse().unwrap();
        let local = Client::new(reference.clone(), Wire::Plain, None).unwrap();
        for (url, allowed) in [
            ("http://localhost:5000/v2/", true),
            ("http://127.0.0.1:80/x", true),
            ("http://[::1]/x", true),
            ("http://example.org/x", false),
            ("http://127.0.0.1.example.org/x", false),
            ("http://user:pw@127.0.0.1/x", false),
            ("file:///etc/passwd", false),
            ("//127.0.0.1/x", false),
            ("", false),
        ] {
            assert_eq!(local.allow(url).is_ok(), allowed, "{url}");
        }
        // A registry on loopback that speaks TLS is as strict as one elsewhere.
        for reference in ["docker://example.org/a".parse().unwrap(), reference] {
            let Ok(remote) = Client::new(reference, Wire::Tls, None) else {
                println!("skipped: this host trusts nobody");
                return;
            };
            for (url, allowed) in [
                ("https://example.org/x", true),
                ("https://cdn.example.net/x?y=z", true),
                ("http://example.org/x", false),
                ("http://localhost:5000/v2/", false),
                ("https://user:pw@example.org/x", false),
            ] {
                assert_eq!(remote.allow(url).is_ok(), allowed, "{url}");
            }
        }
    }

    #[test]
    fn values_are_escaped() {
        assert_eq!(
            escaped("repository:a/b:pull &x=1"),
            "repository%3Aa%2Fb%3Apull%20%26x%3D1"
        );
    }
}
