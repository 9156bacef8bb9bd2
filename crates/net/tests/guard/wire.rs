//! Tests guards on links that carry the traffic of a kernel.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use model::plan::network::{Mac, Subnet};
use net::guard::{Guard, Reason, Verdict, counts, load, load_inbound};
use net::netlink::Request;
use net::{Netlink, ends, request};
use sys::process::ns;

/// Timeout for an answer that must arrive.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which no frame may arrive.
const SILENCE: Duration = Duration::from_millis(100);
const MTU: u32 = 65_535;

/// A network namespace for a test.
struct Place {
    namespace: OwnedFd,
    netlink: Netlink,
}

impl Place {
    /// Returns `None` if no namespace can be made, and prints "skipped", which ./check counts.
    fn new() -> Option<Self> {
        let made = thread::spawn(|| -> std::io::Result<Self> {
            sys::namespace::unshare(ns::NET)?;
            sys::link::loopback_up()?;
            Ok(Self {
                namespace: ends::here()?,
                netlink: Netlink::open()?,
            })
        });
        match made.join().unwrap() {
            Ok(place) => Some(place),
            Err(error) => {
                println!("skipped: a network namespace: {error}");
                None
            }
        }
    }

    fn do_all(&self, requests: impl Into<Vec<Request>>) {
        if let Err(error) = self.netlink.change(requests.into()) {
            panic!("{error}: {:?}", std::error::Error::source(&error));
        }
    }

    fn index(&self, link: &str) -> u32 {
        self.netlink.link(link).unwrap().unwrap().index
    }

    /// Makes a pair of links that are up, one link in this namespace and one in `other`.
    fn pair(&self, name: &str, mac: [u8; 6], peer: &str, other: &Self) {
        let [.., last] = mac;
        let pair = request::Pair {
            name,
            peer,
            peer_namespace: other.namespace.as_fd(),
            peer_alias: "",
            mac: Mac(mac),
            peer_mac: Mac([2, 8, 0x20, 0, 0xff, last]),
            mtu: MTU,
            big: true,
        };
        self.do_all(vec![request::pair(&pair)]);
        self.do_all(vec![request::up(name)]);
        other.do_all(vec![request::up(peer)]);
    }

    fn address(&self, link: &str, address: &str, prefix: u8) {
        let subnet = Subnet {
            ip: address.parse().unwrap(),
            prefix,
        };
        self.do_all(vec![request::address(self.index(link), &subnet, true)]);
    }

    /// Attaches a guard; returns the id of the map with its counters.
    fn guard(&self, link: &str, guard: &Guard) -> u32 {
        let loaded = load(guard).unwrap();
        self.do_all(request::filter(self.index(link), loaded.program.as_fd()));
        loaded.map_id
    }

    fn inbound(&self, link: &str, vlan: Option<u16>, to: &str) {
        let program = load_inbound(vlan, self.index(to)).unwrap();
        self.do_all(request::filter(self.index(link), program.as_fd()));
    }

    fn within<T>(&self, action: impl FnOnce() -> T) -> T {
        ends::within(self.namespace.as_fd(), action).unwrap()
    }

    fn udp(&self, address: &str) -> UdpSocket {
        let address: IpAddr = address.parse().unwrap();
        let socket = self.within(|| UdpSocket::bind((address, 9)).unwrap());
        socket.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        socket
    }
}

/// Makes the namespaces of a host and of two zones.
fn places() -> Option<[Place; 3]> {
    let places = [Place::new()?, Place::new()?, Place::new()?];
    let lo = places[0].index("lo");
    let refused = match load(&Guard::default()) {
        Ok(loaded) => places[1]
            .netlink
            .change(request::filter(lo, loaded.program.as_fd()).into())
            .err()
            .map(|refused| format!("{refused}: {}", refused.source)),
        Err(error) => Some(format!("bpf(2): {error}")),
    };
    match refused {
        None => Some(places),
        Some(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

const A: [u8; 6] = [2, 8, 0x20, 0, 0, 1];
const B: [u8; 6] = [2, 8, 0x20, 0, 0, 2];

fn protected(mac: [u8; 6], sources: &[&str]) -> Guard {
    let parse = |text: &&str| {
        let ip: IpAddr = text.parse().unwrap();
        (ip, if ip.is_ipv4() { 32 } else { 128 })
    };
    Guard {
        mac: Some(mac),
        sources: Some(sources.iter().map(parse).collect()),
        dhcp: true,
        restricted: true,
        ..Guard::default()
    }
}

fn dropped(map: u32) -> Vec<(Reason, u64)> {
    let counts = counts(map).unwrap();
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Waits until the expected frames were dropped.
fn counted(map: u32, enough: impl Fn(&[(Reason, u64)]) -> bool) {
    for _ in 0..REPLY_TIMEOUT.as_millis() / SILENCE.as_millis() {
        if enough(&dropped(map)) {
            return;
        }
        thread::sleep(SILENCE);
    }
    panic!("{:?}", dropped(map));
}

/// Sends until a packet arrives: the first packets may be lost while links come up.
fn reaches(from: &UdpSocket, to: &UdpSocket, text: &[u8]) {
    let mut buffer = [0; 100];
    to.set_read_timeout(Some(SILENCE)).unwrap();
    for _ in 0..REPLY_TIMEOUT.as_millis() / SILENCE.as_millis() {
        from.send_to(text, to.local_addr().unwrap()).unwrap();
        if let Ok((length, sender)) = to.recv_from(&mut buffer) {
            assert_eq!(sender, from.local_addr().unwrap());
            assert_eq!(&buffer[..length], text);
            return;
        }
    }
    panic!("nothing came");
}

/// Sends this much over TCP, either way.
fn streams(server: &Place, address: &str, client: &Place) {
    const BYTES: u64 = 64 << 20;
    let address: IpAddr = address.parse().unwrap();
    let listener = server.within(|| TcpListener::bind((address, 0)).unwrap());
    let to: SocketAddr = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let (reader, mut writer) = (&stream, &stream);
        let got = std::io::copy(&mut reader.take(BYTES), &mut std::io::sink()).unwrap();
        writer.write_all(b"done").unwrap();
        got
    });
    let mut stream = client.within(|| TcpStream::connect_timeout(&to, REPLY_TIMEOUT).unwrap());
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(REPLY_TIMEOUT)).unwrap();
    let piece = vec![7; 1 << 20];
    for _ in 0..BYTES >> 20 {
        stream.write_all(&piece).unwrap();
    }
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(served.join().unwrap(), BYTES);
}

#[test]
fn an_honest_zone_is_never_stopped() {
    let Some([host, zone, _]) = places() else {
        return;
    };
    // A segment that the zone sends in one piece is longer than 64 KiB; in IPv6 an extension header
    // contains its length.
    zone.pair("net0", A, "host0", &host);
    let map = host.guard("host0", &protected(A, &["10.9.0.1", "fd09::1"]));
    zone.address("net0", "10.9.0.1", 24);
    zone.address("net0", "fd09::1", 64);
    host.address("host0", "10.9.0.254", 24);
    host.address("host0", "fd09::fe", 64);
    for (here, there) in [("10.9.0.1", "10.9.0.254"), ("fd09::1", "fd09::fe")] {
        reaches(&zone.udp(here), &host.udp(there), b"hello");
        streams(&host, there, &zone);
        streams(&zone, here, &host);
    }
    // The traffic also included neighbour discovery, the link-local address and its multicast
    // groups.
    assert_eq!(dropped(map), []);
}

#[test]
fn another_address_goes_nowhere() {
    let Some([host, zone, _]) = places() else {
        return;
    };
    zone.pair("net0", A, "host0", &host);
    let map = host.guard("host0", &protected(A, &["10.9.0.1", "fd09::1"]));
    for (own, other, network) in [("10.9.0.1", "10.9.0.2", 24), ("fd09::1", "fd09::2", 64)] {
        zone.address("net0", own, network);
        zone.address("net0", other, network);
    }
    host.address("host0", "10.9.0.254", 24);
    host.address("host0", "fd09::fe", 64);
    let both = [
        ("10.9.0.1", "10.9.0.2", "10.9.0.254", Reason::Source4),
        ("fd09::1", "fd09::2", "fd09::fe", Reason::Source6),
    ];
    for (own, other, there, reason) in both {
        let target = host.udp(there);
        let own = zone.udp(own);
        // From here on the zone knows its neighbour's MAC address.
        reaches(&own, &target, b"own");
        let other = zone.udp(other);
        for _ in 0..5 {
            other
                .send_to(b"other", target.local_addr().unwrap())
                .unwrap();
        }
        counted(map, |reasons| {
            reasons
                .iter()
                .any(|&(counted, count)| counted == reason && count >= 5)
        });
        own.send_to(b"last", target.local_addr().unwrap()).unwrap();
        target.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        let mut buffer = [0; 10];
        loop {
            let (length, sender) = target.recv_from(&mut buffer).unwrap();
            assert_eq!(sender, own.local_addr().unwrap());
            if &buffer[..length] == b"last" {
                break;
            }
        }
    }
}

/// Connects zone A to zone B by a wire; each zone has its own tag or none. Also returns the ids of
/// the maps with the counters of their guards.
fn wired(at_a: Option<u16>, at_b: Option<u16>) -> Option<([Place; 3], [u32; 2])> {
    let places = places()?;
    let [host, a, b] = &places;
    a.pair("net0", A, "host0", host);
    b.pair("net0", B, "host1", host);
    host.pair("wire0", [2, 8, 0x20, 1, 0, 1], "wire1", host);
    let out = |guard: Guard, vlan: Option<u16>, wire: &str| Guard {
        vlan,
        to: Verdict::Device(host.index(wire)),
        ..guard
    };
    let guard_a = out(protected(A, &["10.9.0.1", "fd09::1"]), at_a, "wire0");
    let guard_b = out(protected(B, &["10.9.0.2", "fd09::2"]), at_b, "wire1");
    let maps = [host.guard("host0", &guard_a), host.guard("host1", &guard_b)];
    host.inbound("wire0", at_a, "host0");
    host.inbound("wire1", at_b, "host1");
    for (place, four, six) in [(a, "10.9.0.1", "fd09::1"), (b, "10.9.0.2", "fd09::2")] {
        place.address("net0", four, 24);
        place.address("net0", six, 64);
    }
    Some((places, maps))
}

#[test]
fn tags_are_put_on_and_taken_off() {
    for tag in [Some(7), None] {
        let Some(([_host, a, b], maps)) = wired(tag, tag) else {
            return;
        };
        for (from, to) in [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")] {
            let (one, other) = (a.udp(from), b.udp(to));
            reaches(&one, &other, b"there");
            reaches(&other, &one, b"and back");
            streams(&b, to, &a);
        }
        assert_eq!(maps.map(dropped), [[], []], "{tag:?}");
    }
}

#[test]
fn another_tag_is_another_network() {
    for (at_a, at_b) in [(Some(7), Some(8)), (Some(7), None), (None, Some(7))] {
        let Some(([_host, a, b], _)) = wired(at_a, at_b) else {
            return;
        };
        let (one, other) = (a.udp("10.9.0.1"), b.udp("10.9.0.2"));
        other.set_read_timeout(Some(SILENCE)).unwrap();
        for _ in 0..3 {
            one.send_to(b"hello", "10.9.0.2:9").unwrap();
            let came = other.recv_from(&mut [0; 10]);
            assert!(came.is_err(), "{at_a:?} {at_b:?}: {came:?}");
        }
    }
}

#[test]
fn a_zone_sends_no_tags_of_its_own() {
    let Some([host, a, _]) = places() else {
        return;
    };
    a.pair("net0", A, "host0", &host);
    host.pair("wire0", [2, 8, 0x20, 1, 0, 1], "wire1", &host);
    // The frame is tagged before it reaches the guard, as if the zone had tagged it.
    let tagged = Guard {
        vlan: Some(7),
        to: Verdict::Device(host.index("wire0")),
        ..Guard::default()
    };
    host.guard("host0", &tagged);
    let map = host.guard("wire1", &protected(A, &["10.9.0.1"]));
    a.address("net0", "10.9.0.1", 24);
    // The first packet makes the zone ask for a neighbour.
    let socket = a.udp("10.9.0.1");
    let _ = socket.send_to(b"hello", "10.9.0.2:9");
    // The wire's own link also sends frames, from its own MAC address.
    counted(map, |reasons| {
        reasons
            .iter()
            .any(|&(reason, _)| reason == Reason::Protocol)
    });
}
