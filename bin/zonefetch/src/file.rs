//! Downloads one file of a catalogue over HTTPS.
//!
//! The caller gives the maximum size, or the exact size with the digest. A file with a digest is
//! downloaded further after a break of the connection, if the server can send a part of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oci::{Digest, Hasher, shown};
use ureq::http::{Response, Uri};
use ureq::{Agent, Body};

use crate::client::{MAX_REDIRECTIONS, agent};
use crate::probe::Wire;
use crate::pull::{PROGRESS_INTERVAL, check_space, say};
use crate::trust;

/// Maximum number of attempts in a row that bring no byte.
const MAX_ATTEMPTS: u64 = 3;

/// A file to download.
pub struct Wanted {
    /// The address, which begins with `https://`.
    pub url: String,
    /// The path of the new file.
    pub into: PathBuf,
    /// The maximum size in bytes; with a digest, the exact size.
    pub size: u64,
    /// The required digest.
    pub digest: Option<Digest>,
}

/// The reason why a file was not downloaded. Each reason has an exit status.
#[derive(Debug)]
pub enum Failed {
    /// The server has sent content that is not acceptable, or the file cannot be written.
    Final(String),
    /// The server cannot be reached, or cannot answer now.
    Away(String),
    /// The server has no such file.
    Missing(String),
}

/// The result of one request.
enum Part {
    Whole,
    /// The connection broke.
    Broken(String),
}

/// A file that is being downloaded.
struct Download<'w> {
    wanted: &'w Wanted,
    agent: Agent,
    file: File,
    hasher: Hasher,
    have: u64,
}

/// Downloads a file. The file exists only if its size and its digest are right.
pub fn fetch(wanted: &Wanted) -> Result<(), Failed> {
    let uri = allowed(&wanted.url).map_err(Failed::Final)?;
    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
    if wanted.digest.is_some() {
        let folder = wanted.into.parent().unwrap_or(Path::new("."));
        check_space(folder, wanted.size, "the file has").map_err(Failed::Final)?;
    }
    let part = wanted.into.with_extension("part");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)
        .map_err(|error| cannot_write(&part, &error))?;
    let mut download = Download {
        wanted,
        agent: agent(oci::is_loopback(&host), Wire::Tls).map_err(Failed::Final)?,
        file,
        hasher: Hasher::default(),
        have: 0,
    };
    download.all(&uri)?;
    fs::rename(&part, &wanted.into).map_err(|error| cannot_write(&wanted.into, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failed {
    Failed::Final(format!("cannot write {}: {error}", path.display()))
}

/// Parses an address and refuses every protocol but HTTPS, and addresses with a password.
fn allowed(text: &str) -> Result<Uri, String> {
    let bad = |problem: &str| Err(format!("{}: {problem}", shown(text)));
    let Ok(uri) = text.parse::<Uri>() else {
        return bad("not an address");
    };
    match (uri.scheme_str(), uri.authority()) {
        (Some("https"), Some(authority)) if !authority.as_str().contains('@') => Ok(uri),
        _ => bad("expected https://host/path without a password"),
    }
}

impl Download<'_> {
    fn all(&mut self, uri: &Uri) -> Result<(), Failed> {
        let mut without_progress = 0;
        loop {
            let before = self.have;
            match self.part(uri)? {
                Part::Whole => break,
                Part::Broken(problem) => {
                    without_progress = match self.have > before {
                        true => 0,
                        false => without_progress + 1,
                    };
                    let can_continue = self.wanted.digest.is_some();
                    if without_progress == MAX_ATTEMPTS || !can_continue {
                        return Err(Failed::Away(self.what(&problem)));
                    }
                    let have = self.have >> 10;
                    self.tell(&format!("  {problem}; goes on after {have} KiB"))?;
                    std::thread::sleep(Duration::from_secs(without_progress));
                }
            }
        }
        let found = std::mem::take(&mut self.hasher).finish();
        let Some(digest) = self.wanted.digest else {
            return Ok(());
        };
        match found == digest {
            true => Ok(()),
            false => Err(Failed::Final(
                self.what(&format!("expected {digest}, the server sent {found}")),
            )),
        }
    }

    /// Downloads the rest of the file, as far as the connection lasts.
    fn part(&mut self, uri: &Uri) -> Result<Part, Failed> {
        let mut answer = match self.ask(uri)? {
            Ok(answer) => answer,
            Err(problem) => return Ok(Part::Broken(problem)),
        };
        if answer.status().as_u16() == 200 && self.have > 0 {
            // The server cannot send a part of a file.
            self.file
                .set_len(0)
                .and_then(|()| io::Seek::rewind(&mut self.file))
                .map_err(|error| cannot_write(&self.wanted.into, &error))?;
            (self.have, self.hasher) = (0, Hasher::default());
        }
        let body = answer.body_mut().with_config().limit(u64::MAX).reader();
        // One byte more than the limit is read, to detect a file that is too long.
        let mut body = body.take(self.wanted.size - self.have + 1);
        let mut buffer = vec![0; 128 << 10];
        let mut ticked = Instant::now();
        loop {
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Part::Broken(error.to_string())),
            };
            if self.have + read as u64 > self.wanted.size {
                let size = self.wanted.size;
                let problem = match self.wanted.digest {
                    Some(_) => format!("longer than the {size} bytes that it should have"),
                    None => format!("more than {size} bytes"),
                };
                return Err(Failed::Final(self.what(&problem)));
            }
            self.hasher.update(&buffer[..read]);
            self.file
                .write_all(&buffer[..read])
                .map_err(|error| cannot_write(&self.wanted.into, &error))?;
            self.have += read as u64;
            if self.wanted.digest.is_some() && ticked.elapsed() >= PROGRESS_INTERVAL {
                ticked = Instant::now();
                let line = format!("  {} of {} MiB", self.have >> 20, self.wanted.size >> 20);
                self.tell(&line)?;
            }
        }
        let (have, size) = (self.have, self.wanted.size);
        if self.wanted.digest.is_some() && have < size {
            return Ok(match answer.status().as_u16() {
                206 => Part::Broken(format!("ended after {have} of {size} bytes")),
                // A complete answer that is too short does not become longer.
                _ if self.is_whole(&answer) => {
                    let problem = format!("ended after {have} of {size} bytes");
                    return Err(Failed::Final(self.what(&problem)));
                }
                _ => Part::Broken(format!("ended after {have} of {size} bytes")),
            });
        }
        Ok(Part::Whole)
    }

    /// Returns true if the answer says that it had no more bytes than were read.
    fn is_whole(&self, answer: &Response<Body>) -> bool {
        let length = answer.headers().get("Content-Length");
        let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        length == Some(self.have)
    }

    /// Sends the request, and follows redirections to other HTTPS servers. Returns the text of an
    /// error after which another attempt may succeed.
    fn ask(&self, uri: &Uri) -> Result<Result<Response<Body>, String>, Failed> {
        let mut uri = uri.clone();
        for _ in 0..=MAX_REDIRECTIONS {
            let mut request = self.agent.get(&uri).header("Accept", "*/*");
            if self.have > 0 {
                request = request.header("Range", &format!("bytes={}-", self.have));
            }
            let answer = match request.call() {
                Ok(answer) => answer,
                Err(error) if is_away(&error) => {
                    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
                    return Ok(Err(format!("{}: {error}", shown(&host))));
                }
                Err(error) => {
                    let remedy = match trust::is_unknown(&error) {
                        true => {
                            "; add its certificate, or that of its authority, to those that the host trusts"
                        }
                        false => "",
                    };
                    return Err(Failed::Final(self.what(&format!("{error}{remedy}"))));
                }
            };
            match answer.status().as_u16() {
                200 => return Ok(Ok(answer)),
                206 if self.starts_here(&answer) => return Ok(Ok(answer)),
                301 | 302 | 303 | 307 | 308 => {
                    let to = answer.headers().get("Location");
                    let to = to.and_then(|value| value.to_str().ok()).unwrap_or_default();
                    let whole = match to.starts_with('/') && !to.starts_with("//") {
                        true => format!(
                            "https://{}{to}",
                            uri.authority().map(ToString::to_string).unwrap_or_default()
                        ),
                        false => to.to_owned(),
                    };
                    uri = allowed(&whole).map_err(|error| Failed::Final(self.what(&error)))?;
                }
                404 | 410 => return Err(Failed::Missing(self.what("the server has no such file"))),
                status @ (408 | 429 | 500..=599) => {
                    return Ok(Err(format!("the server answers {status}")));
                }
                status => {
                    let problem = format!("the server answers {status}");
                    return Err(Failed::Final(self.what(&problem)));
                }
            }
        }
        Err(Failed::Final(
            self.what("the server sends from place to place"),
        ))
    }

    /// Returns true if a part of the file begins at the byte that is missing.
    fn starts_here(&self, answer: &Response<Body>) -> bool {
        let range = answer.headers().get("Content-Range");
        let range = range
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        range.starts_with(&format!("bytes {}-", self.have))
    }

    fn tell(&self, line: &str) -> Result<(), Failed> {
        say(line).map_err(Failed::Final)
    }

    fn what(&self, problem: &str) -> String {
        format!("{}: {problem}", shown(&self.wanted.url))
    }
}

/// Returns true if the server cannot be reached. A server with a certificate that is not trusted can
/// be reached: this error is final.
fn is_away(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Timeout(_) => true,
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::NotConnected
                | ErrorKind::TimedOut
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_without_a_password_is_requested() {
        for (url, is_allowed) in [
            ("https://example.org/x", true),
            ("https://[::1]:1/x", true),
            ("http://example.org/x", false),
            ("http://localhost/x", false),
            ("https://user:pw@example.org/x", false),
            ("file:///etc/passwd", false),
            ("//example.org/x", false),
            ("", false),
        ] {
            assert_eq!(allowed(url).is_ok(), is_allowed, "{url}");
        }
    }

    #[test]
    fn a_refused_certificate_is_not_an_absent_server() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error = io::Error::new(ErrorKind::InvalidData, unknown);
        assert!(!is_away(&ureq::Error::Io(error)));
        assert!(is_away(&ureq::Error::Io(
            ErrorKind::ConnectionRefused.into()
        )));
        assert!(is_away(&ureq::Error::HostNotFound));
    }
}
