//! Tests that hosts around the global zone reach zones of every kind by their addresses, and that
//! zones reach those hosts, with IPv4 and IPv6.

use e2e::{At, Helper, World};

/// The zone's addresses on the switch, for shared IP.
const SHARED: &str = "add net; set physical=eth0; set address=10.0.0.101/24; end; \
     add net; set physical=eth0; set address=fd00::101/64; end";

/// The network resource on a lower-link of the host, behind the same router.
fn anet(lower: &str, last: u32) -> String {
    let both = |line: &str| line.replace('N', &last.to_string());
    format!(
        "set ip-type=exclusive; add anet; set lower-link={lower}; \
         set allowed-address={}; set defrouter=10.0.0.1; end",
        both("10.0.0.N/24,fd00::N/64")
    )
}

/// Connects from every host to a server in the zone with the address `number`, and the other way
/// round, with both address families. The server keeps running.
fn talks_with_everybody(world: &World, zone: &str, number: u32, others: &[At<'_>]) -> Helper {
    let addresses = [format!("10.0.0.{number}"), format!("fd00::{number}")];
    let own = |from: At<'_>, v6: bool| match (from, v6) {
        (At::Global, false) => "10.0.0.9",
        (At::Global, true) => "fd00::9",
        (At::Router, false) => "10.0.0.1",
        (At::Router, true) => "fd00::1",
        (At::Source, false) => "10.0.0.2",
        (At::Source, true) => "fd00::2",
        (At::Client, false) => "203.0.113.7",
        _ => "2001:db8:1::7",
    };
    let server = world.serve(At::Zone(zone), zone);
    for other in others {
        for (address, v6) in addresses.iter().zip([false, true]) {
            let seen = own(*other, v6);
            assert_eq!(
                world.ask(*other, address),
                format!("{zone} sees {seen}"),
                "{other:?}"
            );
        }
        let _server = world.serve(*other, "host");
        for (address, v6) in addresses.iter().zip([false, true]) {
            assert_eq!(
                world.ask(At::Zone(zone), own(*other, v6)),
                format!("host sees {address}"),
                "{other:?}"
            );
        }
    }
    server
}

#[test]
fn shared_ip_is_reached_from_the_wire_the_host_and_other_zones() {
    let Some(world) = World::new() else { return };
    world.boot("web", SHARED);
    let other = SHARED.replace("101", "102");
    world.boot("db", &other);
    let everybody = [At::Global, At::Router, At::Source, At::Client];
    let _server = talks_with_everybody(&world, "web", 101, &everybody);
    for (to, from) in [("10.0.0.101", "10.0.0.102"), ("fd00::101", "fd00::102")] {
        let said = world.ask(At::Zone("db"), to);
        assert_eq!(said, format!("web sees {from}"));
    }
    for address in [
        "10.0.0.1",
        "fd00::1",
        "203.0.113.7",
        "2001:db8:1::7",
        "10.0.0.9",
        "10.0.0.102",
    ] {
        let said = world.peer(At::Zone("web"), &format!("ping {address}"));
        assert_eq!(said, format!("answer of {address}"));
    }
    assert_eq!(
        world.peer(At::Client, "ping 10.0.0.101"),
        "answer of 10.0.0.101"
    );
}

#[test]
fn shared_ip_with_a_router_of_its_own() {
    let Some(world) = World::new() else { return };
    // The host sends nothing to the outside, and the zone has its own route.
    let _ = world.run(At::Global, "ip route del default", "").ok();
    let net = "add net; set physical=eth0; set address=10.0.0.101/24; set defrouter=10.0.0.1; end";
    let before = e2e::lan::face();
    world.boot("web", net);
    let _server = world.serve(At::Client, "client");
    assert_eq!(
        world.ask(At::Zone("web"), "203.0.113.7"),
        "client sees 10.0.0.101"
    );
    world.host.halt("web");
    world.wait_for_face(&before);
}

#[test]
fn exclusive_ip_on_nothing_in_particular_goes_out_with_the_hosts_address() {
    let Some(world) = World::new() else { return };
    let auto = "set ip-type=exclusive; add anet; end";
    world.boot("web", auto);
    world.boot("db", auto);
    let addresses = |zone: &str| -> Vec<String> {
        let row = world.link(zone, "net0");
        let list = row["addresses"].as_array().expect("addresses");
        let text = list.iter().filter_map(|one| one.as_str());
        text.filter(|one| !one.starts_with("fe80"))
            .map(|one| one.split('/').next().unwrap_or(one).to_owned())
            .collect()
    };
    let (web, db) = (addresses("web"), addresses("db"));
    assert_eq!((web.len(), db.len()), (2, 2), "{web:?} {db:?}");
    let _at_client = world.serve(At::Client, "client");
    let _at_host = world.serve(At::Global, "host");
    let _at_web = world.serve(At::Zone("web"), "web");
    for (to, host) in [("203.0.113.7", "10.0.0.9"), ("2001:db8:1::7", "fd00::9")] {
        let said = world.ask(At::Zone("web"), to);
        assert_eq!(said, format!("client sees {host}"));
    }
    for v6 in [false, true] {
        let of = |list: &[String]| {
            let found = list.iter().find(|one| one.contains(':') == v6);
            found.expect("an address").clone()
        };
        let (web, db) = (of(&web), of(&db));
        assert_eq!(world.ask(At::Zone("db"), &web), format!("web sees {db}"));
        let own = if v6 {
            "fd7a:6f6e:6573::1"
        } else {
            "10.208.0.1"
        };
        assert_eq!(world.ask(At::Global, &web), format!("web sees {own}"));
        assert_eq!(world.ask(At::Zone("web"), own), format!("host sees {web}"));
    }
    // The host's address on the wire belongs to the host itself.
    let said = world.ask(At::Zone("web"), "10.0.0.9");
    assert!(said.starts_with("host sees 10."), "{said}");
}

#[test]
fn a_zone_with_the_default_link_reaches_the_outside_and_other_zones() {
    let Some(world) = World::new() else { return };
    let host = &world.host;
    let set = ["-z", "global", "set default-network=anet"];
    host.zonecfg(&set).quiet();
    world.boot("web", "");
    world.boot("db", "");
    let _at_client = world.serve(At::Client, "client");
    for (to, own) in [("203.0.113.7", "10.0.0.9"), ("2001:db8:1::7", "fd00::9")] {
        let said = world.ask(At::Zone("web"), to);
        assert_eq!(said, format!("client sees {own}"));
    }
    let row = world.link("db", "net0");
    let list = row["addresses"].as_array().expect("addresses");
    let address = list
        .iter()
        .filter_map(|one| one.as_str())
        .find(|one| one.starts_with("10."));
    let address = address
        .expect("an IPv4 address")
        .split('/')
        .next()
        .expect("a first part");
    let _at_db = world.serve(At::Zone("db"), "db");
    let said = world.ask(At::Zone("web"), address);
    assert!(said.starts_with("db sees 10."), "{said}");
}

#[test]
fn exclusive_ip_on_a_nic() {
    let Some(world) = World::new() else { return };
    let _ = world.run(At::Global, "ip link set eth1 up", "").ok();
    world.boot("web", &anet("eth1", 121));
    world.boot("db", &anet("eth1", 122));
    // The host is on the same switch, through its other link.
    let _server = talks_with_everybody(&world, "web", 121, &[At::Global, At::Router, At::Source]);
    assert_eq!(
        world.ask(At::Zone("db"), "10.0.0.121"),
        "web sees 10.0.0.122"
    );
    assert_eq!(world.ask(At::Zone("db"), "fd00::121"), "web sees fd00::122");
    assert_eq!(world.ask(At::Client, "10.0.0.121"), "web sees 203.0.113.7");
}

#[test]
fn exclusive_ip_on_a_bridge() {
    let Some(world) = World::new() else { return };
    for line in [
        "ip link add br0 type bridge mcast_snooping 0",
        "ip link set br0 up",
        "ip link set eth1 master br0 up",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    // The Ethernet address may begin like a generated one: then the host's end, whose address
    // begins in the same way, must still differ.
    let high = anet("br0", 121).replace("add anet;", "add anet; set mac-address=fe:0:0:0:0:1;");
    world.boot("web", &high);
    world.boot("db", &anet("br0", 122));
    let _server = talks_with_everybody(&world, "web", 121, &[At::Global, At::Router, At::Source]);
    assert_eq!(
        world.ask(At::Zone("db"), "10.0.0.121"),
        "web sees 10.0.0.122"
    );
    assert_eq!(world.ask(At::Zone("db"), "fd00::121"), "web sees fd00::122");
}

#[test]
fn exclusive_ip_on_a_nic_that_moves() {
    let Some(world) = World::new() else { return };
    let net = "set ip-type=exclusive; add net; set physical=eth1; \
         set allowed-address=10.0.0.131/24; set defrouter=10.0.0.1; end; \
         add net; set physical=eth1; set allowed-address=fd00::131/64; end";
    world.boot("web", net);
    let gone = world.run(At::Global, "ip link show eth1", "");
    assert_ne!(gone.code(), Some(0), "{gone:?}");
    let _in_zone = talks_with_everybody(&world, "web", 131, &[At::Global, At::Router, At::Source]);
    let _server = world.serve(At::Client, "client");
    assert_eq!(
        world.ask(At::Zone("web"), "203.0.113.7"),
        "client sees 10.0.0.131"
    );
}

/// docs/network.md explains this: macvlan links of one lower link reach each other, so the host
/// needs such a link, too.
#[test]
fn the_host_reaches_a_wire_on_its_own_link_over_one_beside_it() {
    let Some(world) = World::new() else { return };
    world.boot("web", &anet("eth0", 121));
    let zone = world.serve(At::Zone("web"), "web");
    for line in [
        "ip link add host0 link eth0 type macvlan mode bridge",
        "ip link set host0 up",
        "ip route add 10.0.0.121 dev host0 src 10.0.0.9",
        "ip addr add fd00::10/128 dev host0 nodad",
        "ip route add fd00::121 dev host0 src fd00::10",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    for (address, own) in [("10.0.0.121", "10.0.0.9"), ("fd00::121", "fd00::10")] {
        let said = world.ask(At::Global, address);
        assert_eq!(said, format!("web sees {own}"));
    }
    let _host = world.serve(At::Global, "host");
    for (address, own) in [("10.0.0.121", "10.0.0.9"), ("fd00::121", "fd00::10")] {
        let said = world.ask(At::Zone("web"), own);
        assert_eq!(said, format!("host sees {address}"));
    }
    drop(zone);
}

/// A new network namespace has the IPv4 settings of the machine, so this fails only on a machine that
/// forwards, if the zone keeps them.
#[test]
fn no_zone_routes_unless_its_administrator_says_so() {
    let Some(world) = World::new() else { return };
    world.boot("web", SHARED);
    world.boot("db", &anet("eth0", 102));
    let file = "/proc/sys/net/ipv4/ip_forward";
    for zone in ["web", "db"] {
        assert_eq!(world.host.sh(zone, &format!("cat {file}")), "0", "{zone}");
    }
    world.host.sh("db", &format!("echo 1 > {file}"));
    assert_eq!(world.host.sh("db", &format!("cat {file}")), "1");
}
