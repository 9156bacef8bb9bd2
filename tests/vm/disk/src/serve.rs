//! Serves the part of NBD that QEMU uses: the fixed newstyle handshake, and simple replies. See
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

use std::io::{self, Read, Write};

use crate::disk::Disk;

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client sent the command to disconnect.
    InOrder,
    /// The connection ended without this command.
    CutOff,
}

const MAGIC: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// Fixed newstyle, without zeros after the old request for the export.
const HANDSHAKE: u16 = 0b11;
/// The bits "has flags" and "send flush".
const EXPORT: u16 = 0b101;

const ABORT: u32 = 2;
const INFO: u32 = 6;
const GO: u32 = 7;

const ACK: u32 = 1;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = 0x8000_0001;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FAREWELL: u16 = 2;
const FLUSH: u16 = 3;

const FAILED: u32 = 5;
const UNKNOWN: u32 = 22;

/// Maximum size of a request's data, in bytes: QEMU sends no more.
const MOST: u32 = 32 * 1024 * 1024;

/// Serves a disk until the client disconnects or is killed. Before each write it calls `fails`: if
/// the power is cut, it waits for the end of the client.
pub fn serve<S>(stream: S, disk: &mut Disk, fails: &mut dyn FnMut() -> bool) -> io::Result<End>
where
    S: Copy + Read + Write,
{
    let end = handshake(stream, disk).and_then(|go| match go {
        true => requests(stream, disk, fails),
        false => Ok(End::InOrder),
    });
    match end {
        Err(error) if is_gone(&error) => Ok(End::CutOff),
        other => other,
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn bytes<const N: usize>(mut from: impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn data(mut from: impl Read, length: u32) -> io::Result<Vec<u8>> {
    if length > MOST {
        return Err(odd("a packet that is too long"));
    }
    let mut data = vec![0; length as usize];
    from.read_exact(&mut data)?;
    Ok(data)
}

/// Returns true if the client wants to use the disk.
fn handshake<S>(mut stream: S, disk: &Disk) -> io::Result<bool>
where
    S: Copy + Read + Write,
{
    stream.write_all(MAGIC)?;
    stream.write_all(&HANDSHAKE.to_be_bytes())?;
    let _flags: [u8; 4] = bytes(stream)?;
    loop {
        if u64::from_be_bytes(bytes(stream)?) != OPTION {
            return Err(odd("no option"));
        }
        let option = u32::from_be_bytes(bytes(stream)?);
        let length = u32::from_be_bytes(bytes(stream)?);
        // There is one export, under any name.
        data(stream, length)?;
        let answer = |mut stream: S, kind: u32, body: &[u8]| {
            let length = u32::try_from(body.len()).unwrap_or_default();
            let mut packet = OPTION_REPLY.to_be_bytes().to_vec();
            for word in [option, kind, length] {
                packet.extend_from_slice(&word.to_be_bytes());
            }
            packet.extend_from_slice(body);
            stream.write_all(&packet)
        };
        match option {
            INFO | GO => {
                let mut body = 0u16.to_be_bytes().to_vec();
                body.extend_from_slice(&disk.size().to_be_bytes());
                body.extend_from_slice(&EXPORT.to_be_bytes());
                answer(stream, INFORMATION, &body)?;
                answer(stream, ACK, &[])?;
                if option == GO {
                    return Ok(true);
                }
            }
            ABORT => {
                answer(stream, ACK, &[])?;
                return Ok(false);
            }
            _ => answer(stream, UNSUPPORTED, &[])?,
        }
    }
}

fn requests<S>(mut stream: S, disk: &mut Disk, fails: &mut dyn FnMut() -> bool) -> io::Result<End>
where
    S: Copy + Read + Write,
{
    loop {
        if u32::from_be_bytes(bytes(stream)?) != REQUEST {
            return Err(odd("no request"));
        }
        let _flags: [u8; 2] = bytes(stream)?;
        let kind = u16::from_be_bytes(bytes(stream)?);
        let cookie: [u8; 8] = bytes(stream)?;
        let at = u64::from_be_bytes(bytes(stream)?);
        let length = u32::from_be_bytes(bytes(stream)?);
        let mut body = Vec::new();
        let error = match kind {
            READ if length <= MOST => {
                body = vec![0; length as usize];
                match disk.read(at, &mut body) {
                    Ok(()) => 0,
                    Err(_) => {
                        body.clear();
                        FAILED
                    }
                }
            }
            WRITE if fails() => loop {
                data(stream, 1)?;
            },
            // A request that did not arrive completely is not written at all.
            WRITE => match disk.write(at, &data(stream, length)?) {
                Ok(()) => 0,
                Err(_) => FAILED,
            },
            FLUSH => {
                disk.flush();
                0
            }
            FAREWELL => return Ok(End::InOrder),
            _ => UNKNOWN,
        };
        let mut packet = REPLY.to_be_bytes().to_vec();
        packet.extend_from_slice(&u32::to_be_bytes(error));
        packet.extend_from_slice(&cookie);
        packet.append(&mut body);
        stream.write_all(&packet)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::disk::Fate;
    use crate::disk::tests::blank;

    /// Performs QEMU's side of the handshake until the disk can be used.
    fn greet(mut client: &UnixStream) {
        assert_eq!(&bytes::<16>(client).unwrap(), MAGIC);
        let _flags: [u8; 2] = bytes(client).unwrap();
        client.write_all(&3u32.to_be_bytes()).unwrap();
        // Structured replies, which the server refuses, then the export.
        for (option, body) in [(8u32, &b""[..]), (GO, b"\0\0\0\x01x\0\0")] {
            client.write_all(&OPTION.to_be_bytes()).unwrap();
            client.write_all(&option.to_be_bytes()).unwrap();
            let length = u32::try_from(body.len()).unwrap();
            client.write_all(&length.to_be_bytes()).unwrap();
            client.write_all(body).unwrap();
            let mut kinds = Vec::new();
            loop {
                assert_eq!(u64::from_be_bytes(bytes(client).unwrap()), OPTION_REPLY);
                assert_eq!(u32::from_be_bytes(bytes(client).unwrap()), option);
                let kind = u32::from_be_bytes(bytes(client).unwrap());
                let length = u32::from_be_bytes(bytes(client).unwrap());
                let body = data(client, length).unwrap();
                kinds.push(kind);
                if kind == INFORMATION {
                    assert_eq!(body[2..10], 32768u64.to_be_bytes());
                    continue;
                }
                break;
            }
            let expected = match option {
                GO => vec![INFORMATION, ACK],
                _ => vec![UNSUPPORTED],
            };
            assert_eq!(kinds, expected);
        }
    }

    fn ask(
        mut client: &UnixStream,
        kind: u16,
        at: u64,
        length: u32,
        body: &[u8],
    ) -> (u32, Vec<u8>) {
        let mut packet = REQUEST.to_be_bytes().to_vec();
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(&kind.to_be_bytes());
        packet.extend_from_slice(b"a cookie");
        packet.extend_from_slice(&at.to_be_bytes());
        packet.extend_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(body);
        client.write_all(&packet).unwrap();
        assert_eq!(u32::from_be_bytes(bytes(client).unwrap()), REPLY);
        let error = u32::from_be_bytes(bytes(client).unwrap());
        assert_eq!(&bytes::<8>(client).unwrap(), b"a cookie");
        let length = if kind == READ && error == 0 {
            length
        } else {
            0
        };
        (error, data(client, length).unwrap())
    }

    #[test]
    fn a_client_that_is_killed_loses_what_it_did_not_flush() {
        let (client, server) = UnixStream::pair().unwrap();
        let mut disk = blank();
        let end = std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let mut left = 2;
                let end = serve(&server, &mut disk, &mut || {
                    left -= 1;
                    left < 0
                });
                drop(server);
                end
            });
            greet(&client);
            assert_eq!(ask(&client, WRITE, 0, 512, &[1; 512]).0, 0);
            assert_eq!(ask(&client, FLUSH, 0, 0, &[]).0, 0);
            assert_eq!(ask(&client, WRITE, 0, 512, &[2; 512]).0, 0);
            assert_eq!(ask(&client, READ, 0, 4, &[]), (0, vec![2; 4]));
            assert_eq!(ask(&client, READ, 32768, 1, &[]).0, FAILED);
            assert_eq!(ask(&client, 6, 0, 512, &[]).0, UNKNOWN);
            // The server does not answer the third write.
            let mut third = REQUEST.to_be_bytes().to_vec();
            third.extend_from_slice(b"\0\0\0\x01a cookie\0\0\0\0\0\0\x02\0\0\0\x02\0");
            third.extend_from_slice(&[3; 512]);
            (&client).write_all(&third).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!((&client).read(&mut [0]).unwrap(), 0);
            drop(client);
            server.join().unwrap().unwrap()
        });
        assert_eq!(end, End::CutOff);
        assert_eq!(disk.cut_off(Fate::AllLost).unwrap(), (1, 0));
        let mut first = [0; 1];
        disk.read(0, &mut first).unwrap();
        assert_eq!(first, [1]);
    }
}
