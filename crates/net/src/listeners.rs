//! Finds programs of the host that listen on a port that a zone publishes.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use model::plan::network::{Published, Transport};

/// State of a TCP socket that listens, in `/proc/net/tcp` (net/tcp_states.h).
const TCP_LISTEN: u8 = 0x0a;

/// State of a UDP socket that is not connected, in `/proc/net/udp`.
const UDP_UNCONNECTED: u8 = 0x07;

/// A socket that receives packets for a port from any sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// Returns the program of the host that listens on one of these ports, as `sshd (process 812)`,
/// with the port; `None` if no program listens. The caller must be in the host's network namespace.
///
/// # Errors
/// Fails with the error of reading `/proc/thread-self/net`.
pub fn on(published: &Published) -> io::Result<Option<(u16, String)>> {
    let names = match published.protocol {
        Transport::Tcp => ["tcp", "tcp6"],
        Transport::Udp => ["udp", "udp6"],
    };
    for name in names {
        let text = match fs::read_to_string(format!("/proc/thread-self/net/{name}")) {
            Ok(text) => text,
            // The file does not exist in a kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut listeners = listeners(&text, published.protocol);
        if let Some(one) = listeners.find(|one| is_in_the_way(one, published)) {
            let owner = owner_of(one.inode);
            let owner = owner.unwrap_or_else(|| "a process that has ended meanwhile".to_owned());
            return Ok(Some((one.port, owner)));
        }
    }
    Ok(None)
}

fn is_in_the_way(listener: &Listener, published: &Published) -> bool {
    let is_same_address = match published.address {
        Some(address) if !listener.address.is_unspecified() => listener.address == address,
        _ => true,
    };
    is_same_address && (published.first..=published.last).contains(&listener.port)
}

/// Returns the listeners in a file such as `/proc/net/tcp`. Lines of another form are skipped.
fn listeners(text: &str, protocol: Transport) -> impl Iterator<Item = Listener> {
    let wanted = match protocol {
        Transport::Tcp => TCP_LISTEN,
        Transport::Udp => UDP_UNCONNECTED,
    };
    let of_line = move |line: &str| {
        // sl, local address, remote address, state, queues, timer, retransmits, uid,
        // timeout, inode
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        if u8::from_str_radix(state, 16).ok()? != wanted {
            return None;
        }
        let (address, port) = local.split_once(':')?;
        Some(Listener {
            address: address_of(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
            inode: inode.parse().ok()?,
        })
    };
    text.lines().skip(1).filter_map(of_line)
}

/// Reads an address: 32-bit words in hexadecimal, each in the byte order of the host.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// Returns the process that has a socket open.
fn owner_of(inode: u64) -> Option<String> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let open = fs::read_dir(format!("/proc/{number}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(&wanted)))
    };
    let number = numbers.find(has)?;
    let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
    Some(format!("{} (process {number})", name.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:8CA0 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 20 4 30 10 -1
   damaged
";

    fn port(address: Option<&str>, first: u16, last: u16) -> Published {
        Published {
            protocol: Transport::Tcp,
            address: address.map(|text| text.parse().unwrap()),
            first,
            last,
            inside: first,
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn only_sockets_that_listen_are_found() {
        let found: Vec<Listener> = listeners(TCP, Transport::Tcp).collect();
        let listener = |address: &str, port, inode| Listener {
            address: address.parse().unwrap(),
            port,
            inode,
        };
        assert_eq!(
            found,
            [
                listener("127.0.0.1", 8080, 4711),
                listener("0.0.0.0", 22, 4712)
            ]
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_listener_is_in_the_way_of_its_own_address_and_of_all_addresses() {
        let found: Vec<Listener> = listeners(TCP, Transport::Tcp).collect();
        let first = |published: Published| found.iter().find(|one| is_in_the_way(one, &published));
        assert_eq!(
            first(port(None, 8000, 8100)).map(|one| one.inode),
            Some(4711)
        );
        assert_eq!(first(port(Some("192.0.2.1"), 8080, 8080)), None);
        assert_eq!(
            first(port(Some("192.0.2.1"), 22, 22)).map(|one| one.inode),
            Some(4712)
        );
        assert_eq!(first(port(None, 8081, 8090)), None);
    }

    #[test]
    fn the_process_of_a_socket_is_named() {
        let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let number = socket.local_addr().unwrap().port();
        let (port, owner) = on(&port(None, number, number)).unwrap().unwrap();
        assert_eq!(port, number);
        let own = format!("(process {})", std::process::id());
        assert!(owner.ends_with(&own), "{owner}");
    }
}
