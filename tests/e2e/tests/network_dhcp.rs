//! Tests a host with a DHCP server that announces itself as a router.

use e2e::lan::{difference, is_installed, settings};
use e2e::{At, Helper, World, skip};

/// Starts a DHCP server and router at `source`. Returns `None`, after a line on standard output, if
/// the program is not installed.
fn source(world: &World) -> Option<Helper> {
    for program in ["dnsmasq", "busybox"] {
        if !is_installed(program) {
            skip(&format!("there is no program {program}"));
            return None;
        }
    }
    let leases = world.host.root().join("leases");
    let line = format!(
        "dnsmasq --no-daemon --conf-file=/dev/null --user=root --pid-file= --port=0 \
         --interface=lan0 --dhcp-authoritative --log-dhcp --log-facility=- \
         --dhcp-leasefile={} --dhcp-range=10.0.0.200,10.0.0.220,1h \
         --dhcp-option=option:router,10.0.0.1 --dhcp-range=fd00::,ra-only \
         --enable-ra --ra-param=lan0,high,4",
        leases.display()
    );
    let helper = world.start(At::Source, &line, "");
    let _ = helper.until("started");
    Some(helper)
}

/// The script that udhcpc runs when the server answers.
const SCRIPT: &str = "#!/bin/sh
case $1 in
deconfig) ip link set $interface up ;;
bound) ip addr add $ip/$mask dev $interface; ip route add default via $router ;;
esac
";

fn asks_for_addresses(lower: &str, protection: &str) {
    let Some(world) = World::new() else { return };
    let Some(_source) = source(&world) else {
        return;
    };
    let lines: &[&str] = match lower {
        "br0" => &[
            "ip link add br0 type bridge mcast_snooping 0",
            "ip link set br0 up",
            "ip link set eth1 master br0 up",
        ],
        _ => &["ip link set eth1 up"],
    };
    for line in lines {
        world.run(At::Global, line, "").quiet();
    }
    let zone = format!(
        "set ip-type=exclusive; add anet; set lower-link={lower}; \
         set link-protection={protection}; end"
    );
    world.install("web", &zone);
    world.host.put_program("web", "etc/udhcpc", SCRIPT);
    world.host.boot("web");
    let line = "busybox udhcpc -i net0 -f -q -t 200 -T 1 -s /etc/udhcpc";
    let _ = world.run(At::Zone("web"), line, "").ok();
    let _ = world.wait_for_text(At::Zone("web"), "ip -4 addr show net0", "inet 10.0.0.2");
    let _server = world.serve(At::Client, "client");
    let said = world.ask(At::Zone("web"), "203.0.113.7");
    assert!(said.starts_with("client sees 10.0.0.2"), "{said}");
    // The address comes by router advertisement. The zone uses it only after the test for
    // duplicates.
    let known = "ip -6 addr show dev net0 scope global -tentative";
    let _ = world.wait_for_text(At::Zone("web"), known, "inet6 fd00:");
    let _ = world.wait_for_text(At::Zone("web"), "ip -6 route", "default via fe80:");
    let _server = world.serve(At::Source, "source");
    let said = world.ask(At::Zone("web"), "fd00::2");
    assert!(said.starts_with("source sees fd00::"), "{said}");
}

#[test]
fn a_zone_on_a_nic_asks_for_its_addresses() {
    asks_for_addresses("eth1", "mac-nospoof,dhcp-nospoof,restricted");
}

#[test]
fn a_zone_on_a_bridge_asks_for_its_addresses() {
    asks_for_addresses("br0", "mac-nospoof");
}

#[test]
fn a_zone_is_no_other_client_than_it_may() {
    let Some(world) = World::new() else { return };
    let Some(_source) = source(&world) else {
        return;
    };
    world.run(At::Global, "ip link set eth1 up", "").quiet();
    let zone = "set ip-type=exclusive; add anet; set lower-link=eth1; \
         set allowed-dhcp-cids=web1,3.1.2:0:0:0:0:9; end";
    world.install("web", zone);
    world.host.put_program("web", "etc/udhcpc", SCRIPT);
    world.host.boot("web");
    let before = world.dropped("web", "net0");
    let ask = |id: &str, rest: &str| {
        let line = format!("busybox udhcpc -i net0 -f -q {id} {rest} -s /etc/udhcpc");
        world.run(At::Zone("web"), &line, "")
    };
    // Another client asks for the address that the zone got.
    let lie = format!("-C -x 0x3d:{}", e2e::frames::hex("web2"));
    let ran = ask(&lie, "-n -t 3 -T 1");
    assert_ne!(ran.code(), Some(0), "{ran:?}");
    world.wait_for_drops("web", "net0", &before, &[("dhcp", 3)].into());
    let truth = format!("-C -x 0x3d:{}", e2e::frames::hex("web1"));
    for id in [truth.as_str(), ""] {
        let _ = ask(id, "-t 200 -T 1").ok();
        let _ = world.wait_for_text(At::Zone("web"), "ip -4 addr show net0", "inet 10.0.0.2");
        world.host.sh("web", "ip addr flush dev net0 scope global");
    }
    let after = world.dropped("web", "net0");
    assert!(after["dhcp"] >= before["dhcp"] + 3, "{after:?}");
}

#[test]
fn the_host_still_listens_to_routers_while_it_forwards() {
    let Some(world) = World::new() else { return };
    for line in [
        "ip -6 route del default",
        "ip -6 addr del fd00::9/64 dev eth0",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    let before = settings();
    world.boot("web", "set ip-type=exclusive; add anet; end");
    let Some(_source) = source(&world) else {
        return;
    };
    let _ = world.wait_for_text(At::Global, "ip -6 route", "default via fe80:");
    let _ = world.wait_for_text(At::Global, "ip -6 addr show eth0", "inet6 fd00:");
    world.host.halt("web");
    let mut changed = difference(&before, &settings());
    // The test sends everything that a router may announce, to links of the zone that are about to
    // be removed.
    changed.retain(|line| !line.contains("/zone"));
    changed.retain(|line| !line.contains("hop_limit") && !line.contains("/neigh/"));
    assert!(changed.is_empty(), "{changed:?}");
}
