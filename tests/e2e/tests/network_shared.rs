//! Tests shared IP: the zone has its addresses, and no other access to the network.

use std::collections::BTreeMap;

use e2e::frames::{hex, packet4, udp};
use e2e::inside::all_fail;
use e2e::{At, World};

fn net(last: u32) -> String {
    format!(
        "add net; set physical=eth0; set address=10.0.0.{last}/24; end; \
         add net; set physical=eth0; set address=fd00::{last}/64; end"
    )
}

#[test]
fn root_of_a_zone_cannot_administer_a_shared_network() {
    let Some(world) = World::new() else { return };
    world.boot("web", &net(101));
    let face = world.host.sh("web", "ip addr; ip route; ip -6 route");
    all_fail(
        &world.host,
        "web",
        &[
            "ip addr add 10.0.0.77/24 dev eth0",
            "ip addr del 10.0.0.101/24 dev eth0",
            "ip -6 addr add fd00::77/64 dev eth0",
            "ip link set eth0 down",
            "ip link set eth0 address 02:00:00:00:00:66",
            "ip link set eth0 promisc on",
            "ip link set eth0 mtu 1400",
            "ip link set lo down",
            "ip link add d0 type bridge",
            "ip link add v0 type veth peer name v1",
            "ip tuntap add dev t0 mode tun",
            "ip route add 192.0.2.0/24 via 169.254.0.1 dev eth0 onlink",
            "ip route del default",
            "ip rule add from all lookup 7",
            "ip neigh add 10.0.0.1 lladdr 02:00:00:00:00:66 dev eth0",
            "nft add table ip t",
            "tc qdisc add dev eth0 root pfifo",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start",
        ],
    );
    assert_eq!(world.host.sh("web", "ip addr; ip route; ip -6 route"), face);
    neither_makes_packets_up_nor_sees_others(&world, "web");
}

/// The zone's processes have the capability net_raw, because without it the kernel refuses to
/// execute Debian's ping. The capability has no effect on the network, which belongs to the host.
fn neither_makes_packets_up_nor_sees_others(world: &World, zone: &str) {
    let status = world.host.sh(zone, "cat /proc/self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective.expect("a set").trim(), 16).unwrap();
    assert_ne!(effective & 1 << 13, 0, "no net_raw in {effective:x}");
    let packet = packet4("10.0.0.77", "10.0.0.1", 17, &udp(9, 9, "lie"));
    let source = include_str!("../src/peer.pl");
    for before in ["", "unshare --user --map-root-user "] {
        for words in [
            format!("raw 10.0.0.1 {}", hex(&packet)),
            "frames eth0 00".to_owned(),
            "listen".to_owned(),
        ] {
            let line = format!("{before}perl - {words}");
            let ran = world.run(At::Zone(zone), &line, source);
            assert_eq!(
                ran.ok().text(),
                "error: socket: Operation not permitted",
                "{line}"
            );
        }
        // The test tries what else the kernel allows with net_raw: IP_TRANSPARENT,
        // IPV6_TRANSPARENT, SO_MARK, SO_PRIORITY, and the IPv6 options for every hop.
        for (family, level, option, value) in [
            (2, 0, 19, "pack(q(l),1)"),
            (10, 41, 75, "pack(q(l),1)"),
            (2, 1, 36, "pack(q(l),1)"),
            (2, 1, 12, "pack(q(l),7)"),
            (10, 41, 54, "pack(q(C*),0,0,1,4,0,0,0,0)"),
        ] {
            let script = format!(
                "socket(S, {family}, 2, 0) or die; \
                 print setsockopt(S, {level}, {option}, {value}) ? qq(set) : qq($!)"
            );
            let line = format!("{before}perl -e '{script}'");
            let ran = world.run(At::Zone(zone), &line, "").ok();
            assert_eq!(ran.out, "Operation not permitted", "{line}");
        }
    }
}

#[test]
fn raw_access_is_admitted_and_gives_nothing_over_the_hosts_network() {
    let Some(world) = World::new() else { return };
    let zone = format!("set limitpriv=default,net_rawaccess; {}", net(101));
    world.install("web", &zone);
    world.host.on("web", &["verify"]).mentions(
        0,
        "net_rawaccess has no effect here: the network of a shared-IP zone is the host's",
    );
    world.host.boot("web");
    neither_makes_packets_up_nor_sees_others(&world, "web");
}

/// Debian's ping has the file capability cap_net_raw.
#[test]
fn the_distributions_ping_works_for_root_and_everybody() {
    let Some(world) = World::new() else { return };
    if !e2e::lan::is_installed("ping") {
        e2e::skip("there is no program ping");
        return;
    }
    world.boot("web", &net(101));
    // This is the default of a zone: no link.
    for (zone, links) in [("db", ""), ("mail", "set ip-type=exclusive")] {
        world.boot(zone, links);
    }
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
    for who in ["", nobody] {
        for zone in ["web", "db", "mail"] {
            for address in ["127.0.0.1", "::1"] {
                let line = format!("{who}ping -c 1 {address}");
                let ran = world.run(At::Zone(zone), &line, "").ok();
                assert!(ran.out.contains("1 received"), "{zone}: {ran:?}");
            }
        }
        for address in ["10.0.0.1", "fd00::1", "10.0.0.101"] {
            let line = format!("{who}ping -c 1 {address}");
            let ran = world.run(At::Zone("web"), &line, "").ok();
            assert!(ran.out.contains("1 received"), "{ran:?}");
        }
    }
    // Like a raw socket, ping cannot use an address of another zone as its source.
    let lie = world.run(At::Zone("web"), "ping -c 1 -W 1 -I 10.0.0.77 10.0.0.1", "");
    assert_ne!(lie.code(), Some(0), "{lie:?}");
    // A copy of ping with its file capability, as images contain it.
    let copy = "cp /usr/bin/ping /root/ping && setcap cap_net_raw=ep /root/ping";
    if e2e::lan::is_installed("setcap") {
        world.host.sh("web", copy);
        let line = format!("{nobody}/root/ping -c 1 10.0.0.1");
        let _ = world.host.sh("web", "chmod 755 /root");
        let ran = world.run(At::Zone("web"), &line, "").ok();
        assert!(ran.out.contains("1 received"), "{ran:?}");
    }
}

/// Without net_icmpaccess no program of the zone can open ICMP sockets.
#[test]
fn a_zone_without_the_privilege_does_not_ping() {
    let Some(world) = World::new() else { return };
    let zone = format!("set limitpriv=default,!net_icmpaccess; {}", net(101));
    world.boot("web", &zone);
    let said = world.peer(At::Zone("web"), "ping 10.0.0.1");
    assert!(said.starts_with("error: socket: "), "{said}");
}

#[test]
fn sources_that_are_not_its_own_never_leave_it() {
    let Some(world) = World::new() else { return };
    world.boot("web", &net(101));
    world.boot("db", &net(102));
    let ears = world.listen();
    let before = world.dropped("web", "eth0");
    // Sockets are bound with IP_FREEBIND, which every user may set, to four addresses: an unused
    // one, the other zone's, the router's and the host's. They send to the wire, the other zone and
    // the host.
    let lies = [
        ("10.0.0.77", "10.0.0.1"),
        ("10.0.0.102", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.102"),
        ("10.0.0.9", "10.0.0.102"),
        ("10.0.0.77", "10.0.0.9"),
        ("8.8.8.8", "203.0.113.7"),
    ];
    let lies6 = [
        ("fd00::77", "fd00::1"),
        ("fd00::102", "fd00::1"),
        ("fd00::1", "fd00::102"),
        ("fd00::9", "fd00::102"),
        ("fd00::77", "fd00::9"),
        ("2001:db8::8", "2001:db8:1::7"),
    ];
    for (source, target) in lies.iter().chain(&lies6) {
        let words = format!("udp {source} {target} lie-{source}");
        let said = world.peer(At::Zone("web"), &words);
        // The kernel itself sends only IPv6 messages.
        match source.contains(':') {
            true => assert_eq!(said, "sent", "{words}"),
            false => assert_eq!(said, "error: send: Network is unreachable", "{words}"),
        }
    }
    for source in ["10.0.0.101", "fd00::101"] {
        let target = if source.contains(':') {
            "fd00::1"
        } else {
            "10.0.0.1"
        };
        let words = format!("udp {source} {target} truth-{source}");
        assert_eq!(world.peer(At::Zone("web"), &words), "sent", "{words}");
        let heard = ears.until(&hex(format!("truth-{source}")));
        let lie = hex("lie-");
        assert!(!heard.iter().any(|line| line.contains(&lie)), "{heard:#?}");
    }
    let sums = BTreeMap::from([("source6", lies6.len() as u64)]);
    world.wait_for_drops("web", "eth0", &before, &sums);
    let other = world.dropped("db", "eth0");
    assert!(other.keys().eq(before.keys()), "{other:?}");
    assert!(other.values().all(|count| *count == 0), "{other:?}");
}

#[test]
fn two_zones_listen_on_the_same_ports() {
    let Some(world) = World::new() else { return };
    world.boot("web", &net(101));
    world.boot("db", &net(102));
    let mut servers = Vec::new();
    for zone in ["web", "db"] {
        servers.push(world.serve_on(At::Zone(zone), zone, "0.0.0.0", "80"));
        let inner = format!("{zone}-inside");
        servers.push(world.serve_on(At::Zone(zone), &inner, "127.0.0.1", "5432"));
    }
    servers.push(world.serve_on(At::Global, "global", "10.0.0.9", "80"));
    for (zone, address) in [
        ("web", "10.0.0.101"),
        ("db", "10.0.0.102"),
        ("global", "10.0.0.9"),
    ] {
        let said = world.peer(At::Router, &format!("ask {address} 80"));
        assert_eq!(said, format!("{zone} sees 10.0.0.1"));
    }
    for zone in ["web", "db"] {
        let said = world.peer(At::Zone(zone), "ask 127.0.0.1 5432");
        assert_eq!(said, format!("{zone}-inside sees 127.0.0.1"));
    }
    let said = world.peer(At::Global, "ask 127.0.0.1 5432");
    assert_eq!(said, "error: connect: Connection refused");
}

#[test]
fn root_binds_low_ports_and_everybody_pings() {
    let Some(world) = World::new() else { return };
    world.boot("web", &net(101));
    let as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups perl -";
    let source = include_str!("../src/peer.pl");
    let ran = world.run(
        At::Zone("web"),
        &format!("{as_nobody} serve web 0.0.0.0 80"),
        source,
    );
    assert_eq!(ran.ok().text(), "error: bind: Permission denied");
    for address in ["10.0.0.1", "fd00::1", "10.0.0.101", "127.0.0.1"] {
        let ran = world.run(
            At::Zone("web"),
            &format!("{as_nobody} ping {address}"),
            source,
        );
        assert_eq!(ran.ok().text(), format!("answer of {address}"));
    }
    let _server = world.serve_on(At::Zone("web"), "web", "0.0.0.0", "80");
    let said = world.peer(At::Router, "ask 10.0.0.101 80");
    assert_eq!(said, "web sees 10.0.0.1");
}

#[test]
fn abstract_sockets_are_its_own() {
    let Some(world) = World::new() else { return };
    world.boot("web", &net(101));
    let listen = |name: &str| {
        format!(
            "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); \
             print bind(S, pack_sockaddr_un(qq(\\0{name}))) ? 1 : 0; \
             print connect(S, pack_sockaddr_un(qq(\\0{name}))) ? 1 : 0'"
        )
    };
    let name = format!("zones-{}", world.host.cgroup());
    let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    assert_eq!(world.host.sh("web", &listen(&name)), "10");
    let here = world.run(At::Global, &listen(&name), "").ok();
    assert_eq!(here.out, "01");
}
