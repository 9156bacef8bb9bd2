//! A registry of container images in memory, and a client that pushes images to a registry.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::container::Image;

/// The clients that a registry serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// All clients.
    None,
    /// Clients that send `user:secret`.
    Basic,
    /// Clients with a token, which they get for `user:secret`.
    Bearer,
}

/// The content of a registry, and the requests to it.
#[derive(Debug, Default)]
struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, Vec<u8>>,
    asked: Vec<String>,
    /// The bodies that the registry sends instead of the real content, by path.
    instead: BTreeMap<String, Vec<u8>>,
    /// The redirections, by path.
    elsewhere: BTreeMap<String, String>,
    /// The connections to break: by path, after this number of bytes of the body.
    cuts: BTreeMap<String, usize>,
}

/// A registry on this machine's loopback interface, which runs until the test ends.
#[derive(Clone, Debug)]
pub struct Registry {
    /// The address where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// The header's value for `user:secret`.
const BASIC: &str = "Basic dXNlcjpzZWNyZXQ=";
/// The media type of manifests, which other clients require.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const TOKEN: &str = "a.token.of-this-test";

impl Registry {
    /// Starts a registry in the network namespace of the calling thread.
    ///
    /// # Panics
    /// Fails if it cannot listen.
    #[must_use]
    pub fn start(guard: Guard) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let registry = Self {
            address: listener.local_addr().expect("an address"),
            state: Arc::default(),
        };
        let served = registry.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                std::thread::spawn(move || served.serve(stream, guard));
            }
        });
        registry
    }

    /// Serves the same content over TLS to all clients, on another port, which it returns.
    ///
    /// # Panics
    /// Fails if the files are not a chain of certificates and its key, or if it cannot listen.
    #[must_use]
    pub fn serve_tls(&self, certificates: &Path, key: &Path) -> SocketAddr {
        let chain = CertificateDer::pem_file_iter(certificates).expect("certificates");
        let chain = chain.collect::<Result<_, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a key of the certificate");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let served = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (served, config) = (served.clone(), config.clone());
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).expect("a connection");
                    served.serve(StreamOwned::new(connection, stream), Guard::None);
                });
            }
        });
        address
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requests since the last call, without those that were answered with 401.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().asked)
    }

    /// Sends `bytes` instead of the content for paths that end with `path`. Later pushes do not
    /// change this.
    pub fn instead(&self, path: &str, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => self.state().instead.insert(path.to_owned(), bytes),
            None => self.state().instead.remove(path),
        };
    }

    /// Breaks the next connection for a path that ends with `path` after `bytes` of the body. The
    /// registry sends the rest to a client that asks for it.
    pub fn cut(&self, path: &str, bytes: usize) {
        self.state().cuts.insert(path.to_owned(), bytes);
    }

    /// Returns the number of bytes of the body for a request that is to be cut.
    fn cut_of(&self, path: &str) -> Option<usize> {
        let mut state = self.state();
        let end = state.cuts.keys().find(|end| path.ends_with(*end)).cloned();
        end.and_then(|end| state.cuts.remove(&end))
    }

    /// Redirects clients from paths that end with `path` to another address.
    pub fn send_to(&self, path: &str, place: Option<&str>) {
        match place {
            Some(place) => self
                .state()
                .elsewhere
                .insert(path.to_owned(), place.to_owned()),
            None => self.state().elsewhere.remove(path),
        };
    }

    fn serve(&self, stream: impl Read + Write, guard: Guard) {
        let mut reader = BufReader::new(stream);
        loop {
            let Some((method, path, headers)) = read_head(&mut reader) else {
                return;
            };
            let length = headers.get("content-length");
            let length = length.and_then(|text| text.parse().ok()).unwrap_or(0);
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            let (mut status, mut extra, mut answer) =
                self.answer(guard, &method, &path, &headers, body);
            let from = headers.get("range").and_then(|text| {
                let text = text.strip_prefix("bytes=")?.strip_suffix('-')?;
                text.parse::<usize>().ok()
            });
            if let (Some(from), 200) = (from.filter(|from| *from <= answer.len()), status) {
                let whole = answer.len();
                let last = whole.saturating_sub(1);
                extra.push_str(&format!("Content-Range: bytes {from}-{last}/{whole}\r\n"));
                answer.drain(..from);
                status = 206;
                self.state().asked.push(format!("from {from}"));
            }
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{extra}\r\n",
                answer.len()
            );
            let out = reader.get_mut();
            let mut body = if method == "HEAD" { &[][..] } else { &answer };
            if let Some(bytes) = self.cut_of(&path) {
                body = &body[..bytes.min(body.len())];
                let _ = out
                    .write_all(head.as_bytes())
                    .and_then(|()| out.write_all(body));
                let _ = out.flush();
                return;
            }
            if out.write_all(head.as_bytes()).is_err() || out.write_all(body).is_err() {
                return;
            }
        }
    }

    fn answer(
        &self,
        guard: Guard,
        method: &str,
        path: &str,
        headers: &BTreeMap<String, String>,
        body: Vec<u8>,
    ) -> (u16, String, Vec<u8>) {
        let shown = headers.get("authorization").map(String::as_str);
        if path.starts_with("/token") {
            return match shown {
                Some(BASIC) => (
                    200,
                    String::new(),
                    format!(r#"{{"token":"{TOKEN}"}}"#).into_bytes(),
                ),
                _ => (401, String::new(), Vec::new()),
            };
        }
        let bearer = format!("Bearer {TOKEN}");
        let wanted = match guard {
            Guard::None => None,
            Guard::Basic => Some(BASIC),
            Guard::Bearer => Some(bearer.as_str()),
        };
        if wanted.is_some() && shown != wanted {
            let challenge = match guard {
                Guard::Bearer => format!(
                    "Bearer realm=\"http://{}/token\",service=\"test\"",
                    self.address
                ),
                _ => "Basic realm=\"test\"".to_owned(),
            };
            return (
                401,
                format!("WWW-Authenticate: {challenge}\r\n"),
                Vec::new(),
            );
        }
        if path == "/v2/" {
            // Other clients first ask whether this server is a registry.
            return (200, String::new(), Vec::new());
        }
        let mut state = self.state();
        state.asked.push(format!("{method} {path}"));
        let found = |all: &BTreeMap<String, Vec<u8>>| {
            all.iter()
                .find(|(end, _)| path.ends_with(*end))
                .map(|(_, bytes)| bytes.clone())
        };
        if let Some((_, place)) = state.elsewhere.iter().find(|(end, _)| path.ends_with(*end)) {
            return (307, format!("Location: {place}\r\n"), Vec::new());
        }
        if let (Some(bytes), "GET") = (found(&state.instead), method) {
            return (200, String::new(), bytes);
        }
        let last = path.rsplit('/').next().unwrap_or_default().to_owned();
        match method {
            "POST" => (202, "Location: /v2/upload/1\r\n".to_owned(), Vec::new()),
            "PUT" if path.contains("/manifests/") => {
                let digest = oci::Digest::of(&body).to_string();
                state.manifests.insert(digest, body.clone());
                state.manifests.insert(last, body);
                (201, String::new(), Vec::new())
            }
            "PUT" => {
                let digest = path
                    .split("digest=")
                    .nth(1)
                    .unwrap_or_default()
                    .replace("%3A", ":");
                if oci::Digest::of(&body).to_string() != digest {
                    return (400, String::new(), Vec::new());
                }
                state.blobs.insert(digest, body);
                (201, String::new(), Vec::new())
            }
            _ => {
                let all = if path.contains("/manifests/") {
                    &state.manifests
                } else {
                    &state.blobs
                };
                let kind = format!("Content-Type: {MANIFEST}\r\n");
                match all.get(&last) {
                    Some(bytes) if path.contains("/manifests/") => (200, kind, bytes.clone()),
                    Some(bytes) => (200, String::new(), bytes.clone()),
                    None => (404, String::new(), Vec::new()),
                }
            }
        }
    }
}

/// Returns the head of a request or an answer: the first two words, and the headers.
fn read_head(reader: &mut impl BufRead) -> Option<(String, String, BTreeMap<String, String>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (first, second) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_lowercase(), value.trim().to_owned());
            }
            None => return Some((first, second, headers)),
        }
    }
}

/// Sends a request. Returns the status and the address to which the answer redirects.
fn ask(address: SocketAddr, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the registry listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\nAuthorization: {BASIC}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("a request");
    stream.write_all(body).expect("a request");
    let (_, status, headers) = read_head(&mut BufReader::new(&stream)).expect("an answer");
    let place = headers.get("location").cloned().unwrap_or_default();
    (status.parse().expect("a status"), place)
}

/// Pushes an image, as the OCI distribution specification describes it.
///
/// # Panics
/// Fails if the registry refuses it.
pub fn push(address: SocketAddr, image: &Image, name: &str, tag: &str) {
    let mut manifest = Vec::new();
    for (digest, bytes) in image.blobs() {
        if digest == image.digest {
            manifest = bytes;
            continue;
        }
        let (status, place) = ask(
            address,
            "POST",
            &format!("/v2/{name}/blobs/uploads/"),
            "text/plain",
            b"",
        );
        assert_eq!(status, 202, "an upload begins");
        // A registry may send a complete URL or only a path.
        let place = place
            .strip_prefix(&format!("http://{address}"))
            .unwrap_or(&place)
            .to_owned();
        let mark = if place.contains('?') { '&' } else { '?' };
        let place = format!("{place}{mark}digest=sha256%3A{}", digest.hex());
        let (status, _) = ask(address, "PUT", &place, "application/octet-stream", &bytes);
        assert_eq!(status, 201, "a blob is pushed");
    }
    let (status, _) = ask(
        address,
        "PUT",
        &format!("/v2/{name}/manifests/{tag}"),
        MANIFEST,
        &manifest,
    );
    assert_eq!(status, 201, "the manifest is pushed");
}
