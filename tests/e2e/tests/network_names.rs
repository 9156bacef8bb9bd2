//! Tests the names of zones: the resolver that the zones of a host share, see docs/network.md.

use std::fs;
use std::path::Path;

use e2e::frames::{ipv4, udp};
use e2e::lan::{Lan, face, rules, set_rules, settings};
use e2e::{At, Host, World, wait_for};
use sys::process::ns;

const AUTO: &str = "set ip-type=exclusive; add anet; end";

/// Sends a query for `zones.internal` to 10.208.0.1, and prints `answer` or `silence`.
const QUERY: &str = "use IO::Socket::INET; \
     my $s = IO::Socket::INET->new(PeerAddr => '10.208.0.1', PeerPort => 53, Proto => 'udp'); \
     $s->send(\"zn\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x05zones\\x08internal\\0\\0\\x01\\0\\x01\"); \
     my $r = ''; vec($r, fileno($s), 1) = 1; \
     print select($r, undef, undef, 1) && sysread($s, my $a, 512) ? 'answer' : 'silence';";

/// Returns the addresses of a name as a zone resolves it, sorted.
#[track_caller]
fn lookup(host: &Host, zone: &str, name: &str) -> Vec<String> {
    let ran = host.zlogin(&[zone, &format!("getent ahosts {name}")]);
    let mut found: Vec<String> = ran
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the addresses of a zone's link to the pool, sorted.
#[track_caller]
fn addresses(host: &Host, zone: &str) -> Vec<String> {
    let text = host.on(zone, &["links", "-j"]).ok().out;
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let list = rows[0]["addresses"].as_array().expect("addresses").iter();
    let plain = |one: &str| one.split('/').next().unwrap_or(one).to_owned();
    let mut list: Vec<String> = list.filter_map(|one| one.as_str().map(plain)).collect();
    list.sort();
    list
}

/// Returns the search domain of a zone's resolv.conf(5).
#[track_caller]
fn domain(host: &Host, zone: &str) -> String {
    let text = host.sh(zone, "cat /etc/resolv.conf");
    let line = text.lines().find_map(|line| line.strip_prefix("search "));
    let line = line.unwrap_or_else(|| panic!("no search domain in {text}"));
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the process of the resolver, and its control group.
fn resolver() -> Option<(i32, String)> {
    let cookie = sys::link::network_cookie().expect("a network namespace");
    let link = format!("/run/zones-network/{cookie}/resolver");
    let group = fs::read_link(link).ok()?;
    let text = fs::read_to_string(group.join("cgroup.procs")).ok()?;
    let pid = text.lines().next()?.parse().ok()?;
    Some((pid, group.display().to_string()))
}

/// Gives the test a mount namespace of its own, in which `content` covers a file.
fn cover(path: &str, content: &Path) {
    sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
    sys::mount::make_private_recursive().expect("private mounts");
    let mount = sys::mount::open_tree(rustix::fs::CWD, content, sys::mount::Extent::One);
    sys::mount::attach(mount.expect("a file"), rustix::fs::CWD, Path::new(path)).expect("a mount");
}

/// Returns false, with a message, if this machine has no dnsmasq.
fn has_dnsmasq() -> bool {
    let there = e2e::lan::is_installed("dnsmasq");
    if !there {
        e2e::skip("there is no program dnsmasq");
    }
    there
}

#[test]
fn zones_find_each_other_by_name_until_they_halt() {
    if !has_dnsmasq() {
        return;
    }
    let Some(world) = World::new() else { return };
    let before = (face(), rules(), settings());
    world.boot("web", AUTO);
    world.boot("db", AUTO);
    let host = &world.host;
    let own = addresses(host, "web");
    assert_eq!(own.len(), 2, "{own:?}");
    let full = format!("web.{}", domain(host, "db"));
    assert!(full.ends_with(".zones.internal"), "{full}");
    for name in ["web", &full] {
        assert_eq!(lookup(host, "db", name), own, "{name}");
    }
    let ping = world.run(At::Zone("db"), "ping -c 1 -W 5 web", "").ok().out;
    assert!(ping.contains("1 received"), "{ping}");
    let v4 = own.iter().find(|one| one.contains('.')).unwrap();
    let named = host.sh("db", &format!("getent hosts {v4}"));
    assert!(named.contains(&full), "{named}");
    let listed = host.zoneadm(&["network"]).ok().out;
    assert!(
        listed.contains("set   -      resolver of zones.internal"),
        "{listed}"
    );
    // The name of a zone that has ended leads nowhere.
    host.halt("web");
    let gone: [&str; 0] = [];
    assert_eq!(lookup(host, "db", &full), gone);
    host.boot("web");
    assert_eq!(lookup(host, "db", "web"), own);
    // The last zone ends the resolver.
    let (_, group) = resolver().expect("a resolver");
    host.halt("web");
    host.halt("db");
    assert!(!Path::new(&group).exists(), "{group}");
    world.wait_for_face(&before.0);
    assert_eq!(rules(), before.1);
    world.wait_for_settings(&before.2);
    world.assert_no_records();
}

#[test]
fn a_killed_resolver_comes_back_without_a_command() {
    if !has_dnsmasq() {
        return;
    }
    let Some(world) = World::new() else { return };
    world.boot("web", AUTO);
    let (pid, _) = resolver().expect("a resolver");
    world.host.kill(pid);
    let again = wait_for("a new resolver", || {
        resolver().filter(|(new, _)| *new != pid)
    });
    assert_ne!(again.0, pid);
    let own = addresses(&world.host, "web");
    let full = format!("web.{}", domain(&world.host, "web"));
    assert_eq!(lookup(&world.host, "web", &full), own);
    let log = world.host.path("/var/log/zones/web.messages");
    wait_for("a message", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.contains("the resolver of zones had ended")
            .then_some(())
    });
}

#[test]
fn a_resolver_that_ended_unseen_comes_back() {
    if !has_dnsmasq() {
        return;
    }
    let Some(world) = World::new() else { return };
    world.boot("web", AUTO);
    let host = &world.host;
    let (pid, _) = resolver().expect("a resolver");
    // Without a zoneadmd, no process waits for the end of the resolver.
    host.kill(host.zoneadmd("web").expect("a zoneadmd"));
    host.kill(pid);
    wait_for("another zoneadmd", || {
        let _ = host.rows();
        host.zoneadmd("web")
    });
    wait_for("a new resolver", || {
        resolver().filter(|(new, _)| *new != pid)
    });
}

#[test]
fn a_zone_reads_the_names_of_its_own_root_and_other_names_from_the_host() {
    if !has_dnsmasq() {
        return;
    }
    let Some(world) = World::new() else { return };
    let Some(second) = Host::with_master() else {
        return;
    };
    let file = world.host.path("/resolv.conf");
    fs::write(&file, "nameserver 203.0.113.7\nsearch corp.example\n").unwrap();
    cover("/etc/resolv.conf", &file);
    let line = "dnsmasq --no-daemon --conf-file=/dev/null --no-hosts --no-resolv \
         --bind-interfaces --listen-address=203.0.113.7 --user=root --log-facility=- \
         --host-record=outside.corp.example,203.0.113.99";
    let upstream = world.start(At::Client, line, "");
    let _ = upstream.until("started");
    world.boot("web", AUTO);
    world.boot("db", AUTO);
    second.configure("web", AUTO);
    second.on("web", &["clone", "master"]).quiet();
    second.boot("web");
    second.configure("Odd_one", AUTO);
    second.on("Odd_one", &["clone", "master"]).quiet();
    second.boot("Odd_one");
    let (ours, theirs) = (addresses(&world.host, "web"), addresses(&second, "web"));
    assert_ne!(ours, theirs);
    for (host, zone, own, other) in [
        (&world.host, "db", &ours, &second),
        (&second, "Odd_one", &theirs, &world.host),
    ] {
        assert_eq!(&lookup(host, zone, "web"), own);
        let foreign = format!("web.{}", domain(other, "web"));
        assert_eq!(lookup(host, zone, &foreign), addresses(other, "web"));
        for name in ["outside", "outside.corp.example"] {
            assert_eq!(lookup(host, zone, name), ["203.0.113.99"], "{name}");
        }
    }
    // A name that is no label of a host name is no name, in either case.
    let none: [&str; 0] = [];
    for name in ["Odd_one", "odd_one"] {
        let full = format!("{name}.{}", domain(&second, "web"));
        assert_eq!(lookup(&second, "web", &full), none);
    }
    // A file of the zone's own stays.
    let own = "nameserver 192.0.2.1";
    let _ = world
        .host
        .sh("web", &format!("echo {own} >/etc/resolv.conf"));
    world.host.on("web", &["reboot"]).quiet();
    assert_eq!(world.host.sh("web", "cat /etc/resolv.conf"), own);
}

#[test]
fn only_zones_reach_the_resolver_and_no_zone_asks_with_the_hosts_address() {
    if !has_dnsmasq() {
        return;
    }
    let Some(world) = World::new() else { return };
    world.boot("web", AUTO);
    let ask = |at| world.run(at, "perl -", QUERY).ok().out;
    assert_eq!(ask(At::Zone("web")), "answer");
    assert_eq!(ask(At::Global), "answer");
    let route = "ip route add 10.208.0.1 via 10.0.0.9";
    world.run(At::Source, route, "").quiet();
    assert_eq!(ask(At::Source), "silence");
    // The rule keeps it out, nothing else. A stopped zoneadmd does not restore the rule.
    let daemon = world.host.zoneadmd("web").expect("a zoneadmd");
    let signal = |name| {
        let line = format!("sh -c 'kill -{name} {daemon}'");
        world.run(At::Global, &line, "").quiet();
    };
    signal("STOP");
    set_rules("flush chain inet zones input");
    let open = ask(At::Source);
    signal("CONT");
    assert_eq!(open, "answer");
    wait_for("the rule", || rules().contains("th dport 53").then_some(()));
    assert_eq!(ask(At::Source), "silence");
    let before = world.dropped("web", "net0");
    let mac = world.mac("web", "net0");
    let query = ipv4(mac, "10.208.0.1", "10.208.0.1", 17, &udp(5353, 53, "lie-1"));
    world.send("web", "net0", &[query]);
    world.wait_for_drops("web", "net0", &before, &[("source4", 1)].into());
}

#[test]
fn a_zone_asks_the_name_servers_of_the_host_if_the_firewall_keeps_it_from_the_resolver() {
    if !has_dnsmasq() {
        return;
    }
    let Some(world) = World::new() else { return };
    let file = world.host.path("/resolv.conf");
    fs::write(&file, "nameserver 203.0.113.7\n").unwrap();
    cover("/etc/resolv.conf", &file);
    set_rules(
        "table ip filter {\n chain INPUT {\n type filter hook input priority filter; policy drop;\n \
         iif lo accept\n }\n}\n",
    );
    world.install("web", AUTO);
    let said = "keeps zones from the resolver of the host";
    world.host.on("web", &["boot"]).mentions(0, said);
    let text = world.host.sh("web", "cat /etc/resolv.conf");
    assert!(text.ends_with("nameserver 203.0.113.7"), "{text}");
    set_rules("add rule ip filter INPUT iifname \"zone*\" udp dport 53 accept");
    world.host.on("web", &["reboot"]).quiet();
    let text = world.host.sh("web", "cat /etc/resolv.conf");
    assert!(text.contains("nameserver 10.208.0.1"), "{text}");
}

#[test]
fn without_dnsmasq_the_first_zone_names_the_package_and_zones_boot() {
    let Some(lan) = Lan::new() else { return };
    let Some(host) = Host::with_master() else {
        return;
    };
    let world = World { host, lan };
    if has_dnsmasq() {
        cover("/usr/sbin/dnsmasq", Path::new("/dev/null"));
    }
    world.install("web", AUTO);
    world.install("db", AUTO);
    let advice = "zones have no names: install dnsmasq (package dnsmasq-base of Debian)";
    world.host.on("web", &["boot"]).mentions(0, advice);
    world.host.on("db", &["boot"]).quiet();
    let text = world.host.zoneadm(&["network"]).ok().out;
    assert!(text.contains(advice), "{text}");
    let text = world.host.sh("web", "cat /etc/resolv.conf");
    assert!(!text.contains("10.208.0.1"), "{text}");
}
