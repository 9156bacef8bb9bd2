//! Tests published ports: ports of the host that lead to zones, see docs/network.md.

use e2e::lan::{Lan, rules, set_rules, settings};
use e2e::{At, Host, World, guest, machine, wait_for};

/// A zone of the pool whose TCP port 4321 is published as port 8080 of the host.
const WEB: &str = "set ip-type=exclusive; add anet; end; \
     add publish; set host-port=8080; set zone-port=4321; end";

/// The addresses of the host, of the client behind the router, and of the pool.
const HOST4: &str = "10.0.0.9";
const HOST6: &str = "fd00::9";
const CLIENT4: &str = "203.0.113.7";
const CLIENT6: &str = "2001:db8:1::7";

/// Clients of a published port: the location of the client, the address to which it connects, and
/// the client's address that the zone sees.
const ASKED: [(At<'static>, &str, &str); 7] = [
    (At::Client, HOST4, CLIENT4),
    (At::Client, HOST6, CLIENT6),
    (At::Source, HOST4, "10.0.0.2"),
    (At::Global, HOST4, HOST4),
    (At::Global, HOST6, HOST6),
    (At::Global, "127.0.0.1", "10.208.0.1"),
    (At::Global, "::1", "fd7a:6f6e:6573::1"),
];

/// Returns the answer of the server at a published port.
fn ask(world: &World, at: At<'_>, address: &str, port: u16) -> String {
    world.peer(at, &format!("ask {address} {port}"))
}

#[test]
fn a_published_port_is_reached_from_everywhere_and_clients_keep_their_address() {
    let Some(world) = World::new() else { return };
    world.boot("web", WEB);
    let _server = world.serve(At::Zone("web"), "web");
    for (at, address, seen) in ASKED {
        let answer = ask(&world, at, address, 8080);
        assert_eq!(answer, format!("web sees {seen}"), "{at:?} {address}");
    }
    // The connections come from the zone itself, and from another zone.
    world.boot("db", "set ip-type=exclusive; add anet; end");
    for zone in ["web", "db"] {
        for address in [HOST4, HOST6] {
            let answer = ask(&world, At::Zone(zone), address, 8080);
            assert!(
                answer.starts_with("web sees "),
                "{zone} {address}: {answer}"
            );
        }
    }
}

#[test]
fn a_published_udp_port_answers_from_the_address_that_was_asked() {
    let Some(world) = World::new() else { return };
    world.boot(
        "web",
        "set ip-type=exclusive; add anet; end; \
         add publish; set protocol=udp; set host-port=8080; set zone-port=4321; end",
    );
    let _echo = world.echo(At::Zone("web"), "web");
    let query = |at, address| world.peer(at, &format!("query {address} 8080 text"));
    for (at, address, seen) in ASKED {
        let answer = format!("web sees {seen}: text");
        assert_eq!(query(at, address), answer, "{at:?} {address}");
    }
    // The TCP port with the same number is not published.
    let _server = world.serve(At::Zone("web"), "web");
    let refused = ask(&world, At::Client, HOST4, 8080);
    assert!(refused.starts_with("error: connect"), "{refused}");
}

/// Commands that an administrator types in the guest (docs/kernel-zones.md), and a server that
/// answers each client with the client's address.
const IN_GUEST: &str = "\
ip link set eth0 arp off up && ip addr add OWN/32 dev eth0
ip route add 169.254.0.1 dev eth0 && ip route add default via 169.254.0.1
cat >/run/server <<'END'
#!/bin/sh
set -- $(netstat -tn | grep ':4321 .*ESTABLISHED')
address=${5%:*}
echo \"guest sees ${address#::ffff:}\"
END
chmod +x /run/server
setsid nc -ll -p 4321 -e /run/server >/dev/null 2>&1 </dev/null &
";

#[test]
fn a_published_port_leads_to_a_running_kernel_zone() {
    let Some(host) = Host::new() else { return };
    // This must run while the host's network is available, because the guest's kernel may have to
    // be downloaded.
    if machine::guest(&host).is_none() {
        return;
    }
    let Some(lan) = Lan::new() else { return };
    let world = World { host, lan };
    let before = (rules(), settings());
    let publish = "add publish; set host-port=8080; set zone-port=4321; end";
    if !guest::boot_machine(&world.host, &format!("add anet; end; {publish}")) {
        return;
    }
    let row = world.link("k1", "net0");
    let addresses = row["addresses"].as_array().unwrap().iter();
    let own = addresses
        .filter_map(|one| one.as_str()?.split('/').next())
        .find(|one| one.starts_with("10.208."))
        .expect("an IPv4 address of the pool");
    let _ = guest::in_guest(&world.host, &IN_GUEST.replace("OWN", own)).ok();
    wait_for("a server in the guest", || {
        let answer = ask(&world, At::Global, HOST4, 8080);
        answer.starts_with("guest sees ").then_some(())
    });
    let reached = |port| {
        for (at, address, seen) in [
            (At::Client, HOST4, CLIENT4),
            (At::Source, HOST4, "10.0.0.2"),
            (At::Global, HOST4, HOST4),
            (At::Global, "127.0.0.1", "10.208.0.1"),
        ] {
            let answer = ask(&world, at, address, port);
            assert_eq!(answer, format!("guest sees {seen}"), "{at:?} {address}");
        }
    };
    reached(8080);
    let change = |line: &str| {
        let _ = world.host.zonecfg(&["-z", "k1", "-r", line]).ok();
    };
    change("add publish; set host-port=9000; set zone-port=4321; end");
    reached(9000);
    reached(8080);
    change("remove publish host-port=8080");
    let refused = ask(&world, At::Client, HOST4, 8080);
    assert!(refused.starts_with("error: connect"), "{refused}");
    reached(9000);
    world.host.halt("k1");
    assert_eq!(rules(), before.0);
    world.wait_for_settings(&before.1);
    world.assert_no_records();
}

#[test]
fn a_zone_reaches_no_service_on_the_loopback_of_the_host() {
    let Some(world) = World::new() else { return };
    world.boot("web", WEB);
    // Counts packets of the zone before any other rule.
    set_rules(
        "table ip test {
  chain prerouting {
    type filter hook prerouting priority raw; policy accept;
    iifname \"zone*\" ip daddr 127.0.0.1 counter
    iifname \"zone*\" ip daddr 10.208.0.1 counter
  }
}
",
    );
    // The zone's root sends packets for 127.0.0.1 over its link to the host.
    let script = "ip route del local 127.0.0.1 dev lo table local
ip route del local 127.0.0.0/8 dev lo table local
ip route add 127.0.0.1 via 169.254.0.1 dev net0 onlink
ip route get 127.0.0.1
";
    let told = world.run(At::Zone("web"), "sh", script);
    assert!(told.out.contains("dev net0"), "{}{}", told.out, told.err);
    for address in ["127.0.0.1", "10.208.0.1"] {
        let sent = world.peer(At::Zone("web"), &format!("udp 0.0.0.0 {address} text"));
        assert_eq!(sent, "sent");
    }
    let counted = world.wait_for_text(
        At::Global,
        "nft list table ip test",
        "10.208.0.1 counter packets 1",
    );
    assert!(counted.contains("127.0.0.1 counter packets 0"), "{counted}");
}

#[test]
fn published_ports_of_a_running_zone_change_without_a_new_link() {
    let Some(world) = World::new() else { return };
    world.boot("web", WEB);
    let _server = world.serve(At::Zone("web"), "web");
    let mac = world.mac("web", "net0");
    let link = world.link("web", "net0")["host"].clone();
    let change = |line: &str| {
        let _ = world.host.zonecfg(&["-z", "web", "-r", line]).ok();
    };
    change("add publish; set host-port=9000; set zone-port=4321; set host-address=10.0.0.9; end");
    assert_eq!(
        ask(&world, At::Client, HOST4, 9000),
        format!("web sees {CLIENT4}")
    );
    assert_eq!(
        ask(&world, At::Client, HOST4, 8080),
        format!("web sees {CLIENT4}")
    );
    change("remove publish host-port=8080");
    let refused = ask(&world, At::Client, HOST4, 8080);
    assert!(refused.starts_with("error: connect"), "{refused}");
    assert_eq!(world.mac("web", "net0"), mac);
    assert_eq!(world.link("web", "net0")["host"], link);
    change("remove publish host-port=9000");
    assert!(!rules().contains("dnat"), "{}", rules());
}

#[test]
fn a_port_in_use_is_refused_with_the_name_of_its_owner() {
    let Some(world) = World::new() else { return };
    world.boot("web", WEB);
    world.install("db", WEB);
    let refused = world.host.on("db", &["boot"]);
    refused.mentions(1, "port 8080/tcp of the host is in use by zone 'web'");
    // A port of a zone that has ended is free again.
    world.host.halt("web");
    world.host.boot("db");
    world.host.halt("db");
    let _server = world.serve_on(At::Global, "host", "0.0.0.0", "8080");
    let refused = world.host.on("web", &["boot"]);
    refused.mentions(1, "port 8080/tcp of the host is in use by perl (process ");
}

#[test]
fn rules_that_another_program_flushes_come_back_without_a_command() {
    let Some(world) = World::new() else { return };
    world.boot("web", WEB);
    let _server = world.serve(At::Zone("web"), "web");
    let before = rules();
    assert!(before.contains("dnat"), "{before}");
    world.run(At::Global, "nft flush ruleset", "").quiet();
    wait_for("the rules", || (rules() == before).then_some(()));
    assert_eq!(
        ask(&world, At::Client, HOST4, 8080),
        format!("web sees {CLIENT4}")
    );
}

#[test]
fn network_shows_lost_parts_of_the_host_and_restores_them() {
    let Some(world) = World::new() else { return };
    let show = |options: &[&str]| {
        let words = [&["network"], options].concat();
        world.host.zoneadm(&words)
    };
    let unused = "The host routes for no running zone.\n";
    assert_eq!(show(&[]).ok().out, unused);
    world.boot("web", "set ip-type=exclusive; add anet; end");
    let before = (rules(), settings());
    let whole = show(&[]).ok().out;
    for part in ["table inet zones", "address 10.208.0.1", "/forwarding"] {
        let line = whole.lines().find(|line| line.ends_with(part));
        let line = line.unwrap_or_else(|| panic!("{part}: {whole}"));
        assert!(line.starts_with("set "), "{line}");
    }
    world
        .run(At::Global, "ip addr del 10.208.0.1/32 dev lo", "")
        .quiet();
    let lost = show(&[]);
    assert_eq!(lost.code(), Some(1), "{lost:?}");
    let mut lines = lost.out.lines();
    let line = lines.find(|line| line.ends_with("address 10.208.0.1"));
    assert!(
        line.is_some_and(|line| line.starts_with("lost ")),
        "{lost:?}"
    );
    let restored = show(&["-r", "-j"]).ok().out;
    let restored: serde_json::Value = serde_json::from_str(&restored).unwrap();
    let parts = restored["parts"].as_array().unwrap();
    assert!(parts.len() > 3, "{restored}");
    let mut states = parts.iter();
    assert!(states.all(|part| part["state"] == "set"), "{restored}");
    assert_eq!(restored["links"][0]["zone"], "web");
    assert_eq!((rules(), settings()), before);
    world.host.halt("web");
    assert_eq!(show(&[]).ok().out, unused);
}

#[test]
fn nothing_is_left_of_published_ports_when_the_zone_is_gone() {
    let Some(world) = World::new() else { return };
    let before = (rules(), settings());
    world.boot("web", WEB);
    world.host.on("web", &["reboot"]).quiet();
    let _server = world.serve(At::Zone("web"), "web");
    assert_eq!(
        ask(&world, At::Client, HOST4, 8080),
        format!("web sees {CLIENT4}")
    );
    world.host.halt("web");
    assert_eq!(rules(), before.0);
    world.wait_for_settings(&before.1);
    world.assert_no_records();
}
