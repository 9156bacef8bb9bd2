//! Tests the state of the host's network: it is read at each use, repaired, and shared by the zones
//! of every ZONES_ROOT.

use e2e::frames::hex;
use e2e::lan::{face, rules, settings};
use e2e::peer::PORT;
use e2e::run::run;
use e2e::{At, Host, World};

const AUTO: &str = "set ip-type=exclusive; add anet; end";
const PEER: &str = include_str!("../src/peer.pl");

/// Returns the IPv4 address of a zone's link to the pool.
#[track_caller]
fn pool_address(host: &Host, zone: &str) -> String {
    let text = host.on(zone, &["links", "-j"]).ok().out;
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let addresses = rows[0]["addresses"].as_array().expect("addresses");
    let mut texts = addresses.iter().filter_map(|one| one.as_str());
    let address = texts.find(|one| one.starts_with("10.")).expect("of IPv4");
    address.split('/').next().unwrap_or(address).to_owned()
}

/// Returns the answer of the server at an address to a zone of any host.
#[track_caller]
fn ask(host: &Host, zone: &str, address: &str) -> String {
    let line = format!("perl - ask {address} {PORT}");
    let ran = run(&mut host.command("zlogin", &[zone, &line]), PEER.as_bytes());
    ran.ok().text().to_owned()
}

/// Boots a zone of another root on the same network.
fn boot(host: &Host, zone: &str, links: &str) {
    host.configure(zone, links);
    host.on(zone, &["clone", "master"]).quiet();
    host.boot(zone);
}

#[test]
fn an_address_that_left_the_host_comes_back_with_the_next_zone() {
    let Some(world) = World::new() else { return };
    let before = (face(), settings());
    world.boot("web", AUTO);
    world.install("db", AUTO);
    let own = pool_address(&world.host, "web");
    let _server = world.serve(At::Client, "client");
    let _web = world.serve(At::Zone("web"), "web");
    for address in ["10.208.0.1/32", "fd7a:6f6e:6573::1/128"] {
        let line = format!("ip addr del {address} dev lo");
        world.run(At::Global, &line, "").quiet();
    }
    world.host.boot("db");
    // The repair also works for the zone that ran before.
    for zone in ["db", "web"] {
        for (address, seen) in [("203.0.113.7", "10.0.0.9"), ("2001:db8:1::7", "fd00::9")] {
            let said = world.ask(At::Zone(zone), address);
            assert_eq!(said, format!("client sees {seen}"), "{zone}");
        }
    }
    assert_eq!(world.ask(At::Global, &own), "web sees 10.208.0.1");
    let said = world.ask(At::Zone("db"), &own);
    assert!(said.starts_with("web sees 10.208."), "{said}");
    world.host.halt("web");
    world.host.halt("db");
    world.wait_for_face(&before.0);
    world.wait_for_settings(&before.1);
}

#[test]
fn rules_that_somebody_took_out_of_our_table_come_back_with_the_next_zone() {
    let Some(world) = World::new() else { return };
    world.boot("web", AUTO);
    world.install("db", AUTO);
    let ours = rules();
    let line = "nft flush table inet zones";
    world.run(At::Global, line, "").quiet();
    world.host.boot("db");
    assert_eq!(rules(), ours);
    let _server = world.serve(At::Client, "client");
    for zone in ["web", "db"] {
        let said = world.ask(At::Zone(zone), "203.0.113.7");
        assert_eq!(said, "client sees 10.0.0.9");
    }
}

/// A host and a second ZONES_ROOT on it, whose zones have the same names, slots and numbers.
#[test]
fn zones_of_a_second_root_take_nothing_away_from_those_of_the_first() {
    let Some(world) = World::new() else { return };
    let Some(second) = Host::with_master() else {
        return;
    };
    let _ = world.run(At::Global, "ip link set eth1 up", "").ok();
    let before = (face(), rules(), settings());
    world.boot("web", AUTO);
    let alone = (face(), rules(), settings());
    boot(&second, "web", AUTO);
    let (ours, theirs) = (
        pool_address(&world.host, "web"),
        pool_address(&second, "web"),
    );
    assert_ne!(ours, theirs);
    let _client = world.serve(At::Client, "client");
    let _web = world.serve(At::Zone("web"), "web");
    for host in [&world.host, &second] {
        assert_eq!(ask(host, "web", "203.0.113.7"), "client sees 10.0.0.9");
    }
    let said = ask(&second, "web", &ours);
    assert_eq!(said, format!("web sees {theirs}"));
    // The last zone of one root is not the last zone of the host.
    second.halt("web");
    world.wait_for_face(&alone.0);
    assert_eq!(rules(), alone.1);
    world.wait_for_settings(&alone.2);
    assert_eq!(
        world.ask(At::Zone("web"), "203.0.113.7"),
        "client sees 10.0.0.9"
    );
    second.boot("web");
    assert_eq!(pool_address(&second, "web"), theirs, "it keeps its address");
    world.host.halt("web");
    assert_eq!(ask(&second, "web", "203.0.113.7"), "client sees 10.0.0.9");
    second.halt("web");
    world.wait_for_face(&before.0);
    assert_eq!(rules(), before.1);
    world.wait_for_settings(&before.2);
}

#[test]
fn addresses_routers_and_links_are_those_of_one_root() {
    let Some(world) = World::new() else { return };
    let Some(second) = Host::with_master() else {
        return;
    };
    let _ = world.run(At::Global, "ip link set eth1 up", "").ok();
    let shared = |last: u32| {
        format!(
            "add net; set physical=eth0; set address=10.0.0.{last}/24; \
             set defrouter=10.0.0.1; end"
        )
    };
    let wire = |last: u32| {
        format!(
            "set ip-type=exclusive; add anet; set lower-link=eth1; \
             set allowed-address=10.0.0.{last}/24; set defrouter=10.0.0.1; end"
        )
    };
    world.boot("web", &shared(101));
    world.boot("db", &wire(121));
    let alone = face();
    // Zones and links have the same numbers but different addresses.
    boot(&second, "web", &shared(102));
    boot(&second, "db", &wire(122));
    let _client = world.serve(At::Client, "client");
    for (host, web, db) in [(&world.host, 101, 121), (&second, 102, 122)] {
        for (zone, last) in [("web", web), ("db", db)] {
            let said = ask(host, zone, "203.0.113.7");
            assert_eq!(said, format!("client sees 10.0.0.{last}"));
        }
    }
    for zone in ["web", "db"] {
        second.halt(zone);
    }
    world.wait_for_face(&alone);
    // An address of a zone in the first root cannot be used by a zone of the other root, whatever
    // its name.
    second.configure("web2", &shared(101));
    second.on("web2", &["clone", "master"]).quiet();
    let refused = second.on("web2", &["boot"]);
    let root = world.host.root().display().to_string();
    refused.mentions(
        1,
        &format!("10.0.0.101 is in use by zone 'web' of ZONES_ROOT {root}"),
    );
    world.wait_for_face(&alone);
    assert_eq!(
        world.ask(At::Zone("web"), "203.0.113.7"),
        "client sees 10.0.0.101"
    );
    let said = world.peer(At::Router, "ping 10.0.0.101");
    assert_eq!(said, "answer of 10.0.0.101");
}

/// Zones with the same name in two roots must have different control groups. Otherwise the end of
/// one zone would kill the other.
#[test]
fn roots_have_control_groups_of_their_own() {
    let Some(one) = Host::with_web() else { return };
    let Some(other) = Host::with_web() else {
        return;
    };
    let groups = |host: &Host| -> Vec<String> {
        let mut command = host.command("zoneadm", &["-z", "web", "boot", "-n"]);
        let plan = run(command.env_remove("ZONES_CGROUP"), b"").ok().out;
        let words = plan.split([' ', ',', '\n']);
        let groups = words.filter(|word| word.contains("/zones") && word.ends_with("/web"));
        let groups = groups.filter(|word| word.contains("cgroup"));
        groups.map(str::to_owned).collect()
    };
    let (ours, theirs) = (groups(&one), groups(&other));
    assert!(!ours.is_empty() && ours.len() == theirs.len(), "{ours:?}");
    for group in &ours {
        assert!(!theirs.contains(group), "{group}");
    }
}

#[test]
fn an_address_that_is_not_to_be_configured_is_told_of() {
    let Some(world) = World::new() else { return };
    let net = "add net; set physical=eth0; set address=10.0.0.101/24; \
         set configure-allowed-address=false; end";
    world.install("web", net);
    let text = "net: configure-allowed-address has no effect with ip-type=shared";
    world.host.on("web", &["verify"]).mentions(0, text);
}

/// Makes a second network of the host, on its second link, with one neighbour.
fn second_network(world: &World) {
    for line in [
        "ip link set eth1 up",
        "ip addr add 10.0.1.9/24 dev eth1",
        "ip addr add fd01::9/64 dev eth1 nodad",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    for line in [
        "ip addr add 10.0.1.2/24 dev lan0",
        "ip addr add fd01::2/64 dev lan0 nodad",
    ] {
        world.run(At::Source, line, "").quiet();
    }
    // Each link answers only for its own addresses, as if it had a switch of its own.
    for name in ["arp_ignore", "arp_announce"] {
        std::fs::write(format!("/proc/sys/net/ipv4/conf/all/{name}"), "2").unwrap();
    }
}

#[test]
fn zones_of_the_pool_reach_every_network_of_the_host() {
    let Some(world) = World::new() else { return };
    second_network(&world);
    let before = (face(), settings());
    world.boot("web", AUTO);
    let _source = world.serve(At::Source, "source");
    for (address, seen) in [
        ("10.0.1.2", "10.0.1.9"),
        ("fd01::2", "fd01::9"),
        ("10.0.0.2", "10.0.0.9"),
    ] {
        let said = world.ask(At::Zone("web"), address);
        assert_eq!(said, format!("source sees {seen}"));
    }
    world.host.halt("web");
    world.wait_for_face(&before.0);
    world.wait_for_settings(&before.1);
}

/// Zones do not turn a host into a router between its networks, and do not stop a host from being
/// one.
#[test]
fn the_host_routes_between_its_networks_only_where_its_administrator_says_so() {
    let Some(world) = World::new() else { return };
    second_network(&world);
    let line = "ip route add 10.0.1.0/24 via 10.0.0.9";
    world.run(At::Router, line, "").quiet();
    world.boot("web", AUTO);
    world.install("db", AUTO);
    let ears = world.listen();
    let from = hex(own_mac("eth1"));
    let sends = |text: &str| {
        let words = format!("udp 10.0.0.1 10.0.1.2 {text}");
        assert_eq!(world.peer(At::Router, &words), "sent");
        // The second answer comes after the first one, from the same link.
        let words = format!("udp 10.0.1.9 10.0.1.2 after-{text}");
        assert_eq!(world.peer(At::Global, &words), "sent");
        let heard = ears.until(&hex(format!("after-{text}")));
        let text = hex(text);
        heard
            .iter()
            .any(|line| line.contains(&text) && line.get(12..24) == Some(from.as_str()))
    };
    assert!(!sends("transit"), "the host routed it");
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    world.host.boot("db");
    assert!(sends("wanted"), "the host did not route it");
    let _source = world.serve(At::Source, "source");
    let said = world.ask(At::Zone("db"), "10.0.1.2");
    assert_eq!(said, "source sees 10.0.1.9");
}

/// Returns the Ethernet address of a link of the host.
fn own_mac(link: &str) -> [u8; 6] {
    let kernel = std::process::Command::new("ip")
        .args(["-o", "link", "show", link])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&kernel.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "link/ether").unwrap();
    let mut bytes = words[at + 1].split(':');
    std::array::from_fn(|_| u8::from_str_radix(bytes.next().unwrap(), 16).unwrap())
}

/// Addresses that only the host and its zones can reach. Some of them may be addresses of the pool
/// by chance.
#[test]
fn a_zone_with_addresses_on_the_loopback_is_reached_by_host_and_zones() {
    let Some(world) = World::new() else { return };
    let before = face();
    let net = |link: &str, address: &str| {
        format!("add net; set physical={link}; set address={address}; end")
    };
    world.boot("web", &net("lo0", "10.213.7.1"));
    let both = [net("lo", "192.168.7.2"), net("lo", "fd07::2/128")].join("; ");
    world.boot("db", &both);
    let _web = world.serve(At::Zone("web"), "web");
    let _db = world.serve(At::Zone("db"), "db");
    let said = world.ask(At::Zone("db"), "10.213.7.1");
    assert_eq!(said, "web sees 192.168.7.2");
    let said = world.ask(At::Zone("web"), "192.168.7.2");
    assert_eq!(said, "db sees 10.213.7.1");
    for (address, zone) in [
        ("10.213.7.1", "web"),
        ("192.168.7.2", "db"),
        ("fd07::2", "db"),
    ] {
        let said = world.ask(At::Global, address);
        assert!(said.starts_with(&format!("{zone} sees ")), "{said}");
    }
    world.host.halt("web");
    world.host.halt("db");
    world.wait_for_face(&before);
}

/// A neighbour that still has the address of another host in its cache must learn the new one at
/// once.
#[test]
fn neighbours_are_told_of_a_zones_addresses_when_it_boots() {
    let Some(world) = World::new() else { return };
    for line in [
        "ip link set eth1 up",
        "ip link add br0 type bridge mcast_snooping 0",
        "ip link set br0 up",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    let old = "02:00:00:00:00:66";
    let known = |last: u32| {
        for address in [format!("10.0.0.{last}"), format!("fd00::{last}")] {
            let line = format!("ip neigh replace {address} lladdr {old} dev lan0 nud reachable");
            world.run(At::Source, &line, "").quiet();
        }
    };
    let is_told = |last: u32, mac: &str| {
        for address in [format!("10.0.0.{last}"), format!("fd00::{last}")] {
            let line = format!("ip neigh show {address}");
            let _ = world.wait_for_text(At::Source, &line, mac);
        }
    };
    known(101);
    world.boot(
        "web",
        "add net; set physical=eth0; set address=10.0.0.101/24; end; \
         add net; set physical=eth0; set address=fd00::101/64; end",
    );
    let eth0 = own_mac("eth0").map(|byte| format!("{byte:02x}")).join(":");
    is_told(101, &eth0);
    // These links have Ethernet addresses of their own.
    for (zone, lower, last) in [("db", "eth1", 121), ("mail", "br0", 122)] {
        if lower == "br0" {
            world.host.halt("db");
            world
                .run(At::Global, "ip link set eth1 master br0", "")
                .quiet();
        }
        known(last);
        world.boot(
            zone,
            &format!(
                "set ip-type=exclusive; add anet; set lower-link={lower}; \
                 set allowed-address=10.0.0.{last}/24,fd00::{last}/64; end"
            ),
        );
        let mac = world
            .mac(zone, "net0")
            .map(|byte| format!("{byte:02x}"))
            .join(":");
        is_told(last, &mac);
    }
}

/// While a kernel zone is suspended, no other host may answer for its address: a router behind the
/// host's default route would reset the connections of the zone.
#[test]
fn a_suspended_zone_keeps_its_addresses_from_the_default_route() {
    // The guest comes from a package, and this network has no route to the package server.
    let Some(host) = Host::new() else { return };
    if e2e::machine::guest(&host).is_none() {
        return;
    }
    drop(host);
    let Some(_lan) = e2e::Lan::new() else { return };
    let Some(host) = Host::new() else { return };
    if !e2e::guest::boot_machine(&host, "add anet; end") {
        return;
    }
    let before = face_of_lo();
    let address = pool_address(&host, "k1");
    let way = || {
        let line = format!("exec ip route get {address}");
        let ran = run(std::process::Command::new("sh").args(["-c", &line]), b"");
        format!("{}{}", ran.out, ran.err)
    };
    let direct = format!("{address} dev zone");
    assert!(way().starts_with(&direct), "{}", way());
    // The kernel removes a link some time after the last process of its network namespace.
    // A link that goes while ip asks for its name is printed by its number, as "if4".
    let way_without_link = || {
        e2e::wait_for("the end of the zone's link", || {
            Some(way()).filter(|way| !way.starts_with(&direct) && !way.contains(" dev if"))
        })
    };
    e2e::machine::done(host.on("k1", &["suspend"]));
    assert_eq!(host.state("k1"), "installed");
    let kept = way_without_link();
    assert!(kept.contains("No route to host"), "{kept}");
    // A command that cleans up after zones does not remove this route.
    let _ = host.zoneadm(&["list", "-cv"]).ok();
    assert!(way().contains("No route to host"), "{}", way());
    let network = host.zoneadm(&["network"]).ok().out;
    assert!(network.contains("address 10.208.0.1\n"), "{network}");
    assert!(!network.contains("lost"), "{network}");
    e2e::machine::done(host.on("k1", &["boot"]));
    let _ = e2e::guest::wait_for_guest(&host);
    assert!(way().starts_with(&direct), "{}", way());
    assert_eq!(face_of_lo(), before);
    // A zone whose image is discarded holds no address.
    e2e::machine::done(host.on("k1", &["suspend"]));
    e2e::machine::done(host.on("k1", &["uninstall", "-F"]));
    let open = way_without_link();
    assert!(open.contains("via 10.0.0.1"), "{open}");
}

/// Returns the addresses of the loopback link, and the routes that reject packets.
fn face_of_lo() -> String {
    let script =
        "ip -o addr show lo; ip route show type unreachable; ip -6 route show type unreachable";
    run(std::process::Command::new("sh").args(["-c", script]), b"")
        .ok()
        .out
}

/// Earlier programs kept the network state in each ZONES_ROOT. The zones that they booted keep
/// their network.
#[test]
fn the_state_that_older_programs_wrote_is_taken_over() {
    let Some(world) = World::new() else { return };
    let before = (face(), rules(), settings());
    world.boot("web", AUTO);
    world.install("db", AUTO);
    let root = world.host.root().to_owned();
    let of_root = |folder: &std::path::Path| {
        let zones = std::fs::read_dir(folder.join("zones"))
            .into_iter()
            .flatten();
        let mut links = zones
            .flatten()
            .filter_map(|one| std::fs::read_link(one.path()).ok());
        links.any(|record| record.starts_with(&root))
    };
    let folders = std::fs::read_dir("/run/zones-network").unwrap().flatten();
    let mut folders = folders.map(|entry| entry.path());
    let common = folders.find(|folder| of_root(folder)).expect("a folder");
    // Restores the former format: one file in the root, and no files about its zones.
    let own = world.host.path("/run/zones/network/.host.json");
    std::fs::rename(common.join("settings.json"), own).unwrap();
    for kind in ["zones", "addresses", "tables", "names"] {
        for entry in std::fs::read_dir(common.join(kind)).unwrap().flatten() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    world.host.boot("db");
    world.host.halt("db");
    let _client = world.serve(At::Client, "client");
    let said = world.ask(At::Zone("web"), "203.0.113.7");
    assert_eq!(said, "client sees 10.0.0.9");
    world.host.halt("web");
    world.wait_for_face(&before.0);
    assert_eq!(rules(), before.1);
    world.wait_for_settings(&before.2);
    world.assert_no_records();
}

/// An address that a running zone gets belongs to that zone, and an address that is removed from it
/// is free for others.
#[test]
fn addresses_change_hands_while_zones_run() {
    let Some(world) = World::new() else { return };
    let before = face();
    let net = |last: u32| format!("add net; set physical=eth0; set address=10.0.0.{last}/24; end");
    world.boot("web", &net(101));
    world.install("db", &net(102));
    let change = format!("remove net address=10.0.0.101/24; {}", net(103));
    let ran = world.host.zonecfg(&["-z", "web", "-r", &change]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let said = world.peer(At::Router, "ping 10.0.0.103");
    assert_eq!(said, "answer of 10.0.0.103");
    let both = format!("remove net address=10.0.0.102/24; {}", net(101));
    world.host.zonecfg(&["-z", "db", &both]).quiet();
    world.host.boot("db");
    let said = world.peer(At::Router, "ping 10.0.0.101");
    assert_eq!(said, "answer of 10.0.0.101");
    // No other zone can use an address that a running zone got.
    let Some(second) = Host::with_master() else {
        return;
    };
    second.configure("web", &net(103));
    second.on("web", &["clone", "master"]).quiet();
    let root = world.host.root().display().to_string();
    let why = format!("10.0.0.103 is in use by zone 'web' of ZONES_ROOT {root}");
    second.on("web", &["boot"]).mentions(1, &why);
    world.host.halt("web");
    second.boot("web");
    let said = world.peer(At::Router, "ping 10.0.0.103");
    assert_eq!(said, "answer of 10.0.0.103");
    second.halt("web");
    world.host.halt("db");
    world.wait_for_face(&before);
}
