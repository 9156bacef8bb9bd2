//! Finds out whether a registry on this machine speaks TLS.
//!
//! Docker and Podman ask a registry on loopback with TLS first, and with plain HTTP if it does
//! not speak TLS. The decision is made from the first byte of the answer to a ClientHello,
//! never from an error of TLS: a server with a bad certificate is refused, not asked without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use oci::Reference;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::client::SERVER_TIMEOUT;
use crate::trust;

/// The protocol of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP over TLS.
    Tls,
    /// HTTP without TLS, which only a registry on loopback may use.
    Plain,
}

/// The port for TLS if the name of the registry has no port, as in URLs.
const HTTPS_PORT: u16 = 443;

/// First bytes of the two TLS record types that a server may send first: an alert or a handshake.
const RECORDS: [u8; 2] = [21, 22];

/// Bytes that follow the ClientHello. An HTTP server takes the ClientHello for a request head, and
/// these bytes end the head, so that it answers. They are shorter than the head of a TLS record (5
/// bytes), so a TLS server waits for more.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// Returns the protocol of the image's registry. Only a registry on loopback is asked.
pub fn wire(reference: &Reference) -> Result<Wire, String> {
    if !reference.is_loopback() {
        return Ok(Wire::Tls);
    }
    let host = reference.endpoint();
    let fail = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
            "{reference}: {host}: expected a registry, found a server that answers neither TLS nor HTTP within {} s; check the port",
            SERVER_TIMEOUT.as_secs()
        ),
        _ => format!("{reference}: {host}: {error}"),
    };
    let has_port = host
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .ends_with(':');
    let stream = if has_port {
        TcpStream::connect(host).map_err(fail)?
    } else {
        // A name without a port is probed on the TLS port, because plain HTTP has another default
        // port.
        match TcpStream::connect((host.trim_matches(['[', ']']), HTTPS_PORT)) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(Wire::Plain),
            Err(error) => return Err(fail(error)),
        }
    };
    ask(stream).map_err(fail)
}

/// Sends a ClientHello and checks the first byte of the answer.
fn ask(mut stream: TcpStream) -> io::Result<Wire> {
    stream.set_read_timeout(Some(SERVER_TIMEOUT))?;
    stream.set_write_timeout(Some(SERVER_TIMEOUT))?;
    let mut first = [0];
    let answered = stream
        .write_all(&hello()?)
        .and_then(|()| stream.read(&mut first));
    match answered {
        Ok(1) if RECORDS.contains(&first[0]) => Ok(Wire::Tls),
        Ok(_) => Ok(Wire::Plain),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(Wire::Plain),
            _ => Err(error),
        },
    }
}

/// Makes the first message of a TLS client, followed by bytes that make an HTTP server answer.
fn hello() -> io::Result<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(trust::provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes)?;
    }
    bytes.extend_from_slice(END_OF_HEAD);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Probes a server that reads all input and sends `answer`.
    fn answered(answer: &'static [u8]) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reference = format!("docker://{}/a", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(END_OF_HEAD) {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            stream.write_all(answer).unwrap();
            assert_eq!(asked[0], 22, "a handshake is asked for first");
        });
        let wire = wire(&reference.parse().unwrap()).unwrap();
        server.join().unwrap();
        wire
    }

    #[test]
    fn the_first_byte_tells_tls_from_http() {
        assert_eq!(answered(b"\x16\x03\x03"), Wire::Tls);
        // The answer is an alert: the server speaks TLS, though not with this client.
        assert_eq!(answered(b"\x15\x03\x01\x00\x02\x02\x28"), Wire::Tls);
        assert_eq!(answered(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wire::Plain);
        assert_eq!(answered(b""), Wire::Plain);
    }

    #[test]
    fn other_machines_are_spoken_to_with_tls_without_a_question() {
        let reference = "docker://registry.invalid/a".parse().unwrap();
        assert_eq!(wire(&reference), Ok(Wire::Tls));
    }
}
