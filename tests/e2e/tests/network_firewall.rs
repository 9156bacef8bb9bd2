//! Tests the rules and settings of the host in addition to those of zones.

use std::path::Path;

use e2e::firewall::{advice, has, reaches, type_in};
use e2e::lan::{face, rules, set_rules, settings};
use e2e::{At, Host, World, wait_for};
use sys::process::ns;

/// Rules of another program that allow everything, in every form that nft prints.
const FOREIGN: &str = "
table ip nat {
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 172.17.0.0/16 oifname != \"docker0\" masquerade
  }
}
table inet foreign {
  set admins { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 } }
  chain input {
    type filter hook input priority filter; policy accept;
    ip saddr @admins tcp dport 22 accept comment \"ours\"
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
  }
}
table ip6 other {
}
";

/// A firewall that drops all forwarded packets, as on hosts with Docker.
const CLOSED: &str = "
table ip filter {
  chain FORWARD {
    type filter hook forward priority filter; policy drop;
  }
}
";

const AUTO: &str = "set ip-type=exclusive; add anet; end";
const SHARED: &str = "add net; set physical=eth0; set address=10.0.0.101/24; end; \
     add net; set physical=eth0; set address=fd00::101/64; end";

#[test]
fn everything_is_as_before_when_the_last_zone_is_gone() {
    let Some(world) = World::new() else { return };
    set_rules(FOREIGN);
    // The ports that the host itself forwards and listens on.
    for (name, value) in [
        ("ipv4/conf/eth1/forwarding", "1"),
        ("ipv6/conf/eth1/forwarding", "1"),
        ("ipv6/conf/eth0/proxy_ndp", "0"),
        ("ipv6/conf/eth0/accept_ra", "1"),
    ] {
        std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
    }
    let before = (rules(), settings());
    let links = face();
    world.install("web", AUTO);
    world.install("db", AUTO);
    world.install("mail", SHARED);
    for zone in ["mail", "web", "db"] {
        world.host.boot(zone);
    }
    let now = rules();
    // Our rules are there, and the rules of the other program have not changed.
    assert!(now.contains("table inet zones"), "{now}");
    for line in before.0.lines() {
        assert!(now.contains(line), "{line:?} is not in {now}");
    }
    let _server = world.serve(At::Client, "client");
    assert_eq!(
        world.ask(At::Zone("web"), "203.0.113.7"),
        "client sees 10.0.0.9"
    );
    // The table stays as long as one zone needs it.
    for zone in ["web", "mail"] {
        world.host.halt(zone);
    }
    assert_eq!(
        world.ask(At::Zone("db"), "203.0.113.7"),
        "client sees 10.0.0.9"
    );
    world.host.halt("db");
    world.wait_for_face(&links);
    assert_eq!(rules(), before.0);
    world.wait_for_settings(&before.1);
    world.assert_no_records();
}

#[test]
fn a_firewall_that_routes_nothing_is_named() {
    let Some(world) = World::new() else { return };
    set_rules(CLOSED);
    let before = rules();
    world.install("web", AUTO);
    world.host.on("web", &["boot"]).mentions(
        0,
        "the host's firewall (table ip filter, chain FORWARD) drops what is routed",
    );
    // The advice in the message works, whoever follows it.
    set_rules(
        "add rule ip filter FORWARD iifname \"zone*\" accept\n\
         add rule ip filter FORWARD oifname \"zone*\" accept\n",
    );
    let admitting = rules();
    let _server = world.serve(At::Client, "client");
    assert_eq!(
        world.ask(At::Zone("web"), "203.0.113.7"),
        "client sees 10.0.0.9"
    );
    world.host.halt("web");
    let ours = admitting.find("table inet zones").expect("our table");
    let end = admitting[ours..].find("\n}\n").expect("its end") + ours + 3;
    assert_eq!(
        rules(),
        [&admitting[..ours], &admitting[end..]].concat(),
        "before: {before}"
    );
}

#[test]
fn rules_that_somebody_flushed_come_back_with_the_next_zone() {
    let Some(world) = World::new() else { return };
    world.boot("web", AUTO);
    world.install("db", AUTO);
    world.run(At::Global, "nft flush ruleset", "").quiet();
    world.host.boot("db");
    let _server = world.serve(At::Client, "client");
    for zone in ["web", "db"] {
        assert_eq!(
            world.ask(At::Zone(zone), "203.0.113.7"),
            "client sees 10.0.0.9"
        );
    }
    world.run(At::Global, "nft flush ruleset", "").quiet();
    world.host.halt("web");
    world.host.halt("db");
    assert_eq!(rules(), "");
}

/// The rules that Docker's daemon makes on its start, without those of its bridge.
const DOCKER: &str = "
iptables -P FORWARD DROP
iptables -N DOCKER
iptables -N DOCKER-ISOLATION-STAGE-1
iptables -N DOCKER-ISOLATION-STAGE-2
iptables -N DOCKER-USER
iptables -A DOCKER-USER -j RETURN
iptables -A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
iptables -A DOCKER-ISOLATION-STAGE-1 -j RETURN
iptables -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
iptables -A DOCKER-ISOLATION-STAGE-2 -j RETURN
iptables -A FORWARD -j DOCKER-USER
iptables -A FORWARD -j DOCKER-ISOLATION-STAGE-1
iptables -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
iptables -A FORWARD -o docker0 -j DOCKER
iptables -A FORWARD -i docker0 ! -o docker0 -j ACCEPT
iptables -A FORWARD -i docker0 -o docker0 -j ACCEPT
iptables -t nat -N DOCKER
iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
iptables -t nat -A DOCKER -i docker0 -j RETURN
";

#[test]
fn two_roots_beside_docker_and_a_flushed_ruleset() {
    if !has("iptables") {
        return;
    }
    let Some(world) = World::new() else { return };
    let Some(second) = Host::with_master() else {
        return;
    };
    let _server = world.serve(At::Client, "client");
    type_in(DOCKER);
    world.install(
        "web",
        &format!("{AUTO}; add publish; set host-port=8080; set zone-port=4321; end"),
    );
    let said = world.host.on("web", &["boot"]).ok().err;
    second.configure("web", AUTO);
    second.on("web", &["clone", "master"]).quiet();
    second.boot("web");
    assert!(!reaches(&world.host, "web"), "Docker's policy drops it");
    let command = advice(&said, "chain FORWARD");
    assert!(
        command.starts_with("iptables -I DOCKER-USER -i zone+"),
        "{command}"
    );
    type_in(&command);
    let both = || reaches(&world.host, "web") && reaches(&second, "web");
    assert!(both(), "the advice works for both roots");
    let _web = world.serve(At::Zone("web"), "web");
    let published = || world.peer(At::Client, "ask 10.0.0.9 8080");
    assert_eq!(published(), "web sees 203.0.113.7");
    let text = world.host.zoneadm(&["network"]).ok().out;
    assert!(!text.contains("the host's firewall"), "{text}");
    // A flush takes Docker's rules and ours. Ours come back by themselves.
    type_in("nft flush ruleset");
    wait_for("the rules of zones", || {
        let back = world.host.zoneadm(&["network"]);
        (back.code() == Some(0)).then_some(())
    });
    assert!(both() && published() == "web sees 203.0.113.7");
    // Docker's daemon makes its rules again when it starts. Its own rules stay as they are.
    type_in(DOCKER);
    let text = world.host.zoneadm(&["network"]).ok().out;
    type_in(&advice(&text, "chain FORWARD"));
    assert!(both() && published() == "web sees 203.0.113.7");
    let kept = |text: String| -> Vec<String> {
        let docker = text.lines().filter(|line| line.contains("docker0"));
        docker.map(str::to_owned).collect()
    };
    let docker = kept(rules());
    world.host.halt("web");
    second.halt("web");
    assert_eq!(kept(rules()), docker);
    assert!(!rules().contains("table inet zones"));
}

/// Gives the test a mount namespace in which copies cover these files and folders.
fn copy_over(folder: &Path, paths: &[&str]) {
    sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
    type_in("mount --make-rprivate /");
    for (number, path) in paths.iter().enumerate() {
        let copy = folder.join(number.to_string()).display().to_string();
        type_in(&format!(
            "cp -a {path} {copy} && mount --bind {copy} {path}"
        ));
    }
}

#[test]
fn the_commands_for_ufw_let_zones_reach_the_outside_and_the_resolver() {
    if !has("ufw") || !has("dnsmasq") {
        return;
    }
    let Some(world) = World::new() else { return };
    let folder = world.host.path("/copies");
    std::fs::create_dir(&folder).unwrap();
    copy_over(&folder, &["/etc/ufw", "/etc/default/ufw"]);
    let _server = world.serve(At::Client, "client");
    type_in("ufw --force enable");
    world.install("web", AUTO);
    let said = world.host.on("web", &["boot"]).ok().err;
    assert!(!reaches(&world.host, "web"), "ufw drops it");
    let routed = advice(&said, "chain FORWARD");
    let (routed, _) = routed.split_once(';').expect("a second command");
    type_in(routed);
    type_in(&advice(&said, "chain INPUT"));
    assert!(reaches(&world.host, "web"));
    let text = world.host.zoneadm(&["network"]).ok().out;
    assert!(!text.contains("the host's firewall"), "{text}");
    world.host.on("web", &["reboot"]).quiet();
    let text = world.host.sh("web", "cat /etc/resolv.conf");
    assert!(text.contains("nameserver 10.208.0.1"), "{text}");
    type_in("ufw --force disable");
}

/// The chains of firewalld that decide about zones, without its other zones: it accepts by default
/// and rejects at the end.
const FIREWALLD: &str = "
table inet firewalld {
  chain filter_INPUT {
    type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    iifname \"lo\" accept
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_INPUT_ZONES {
  }
  chain filter_FORWARD_ZONES {
  }
}
";

/// The rules that its command adds for the interface `zone+` of its zone `trusted`.
const TRUSTED: &str = "
add rule inet firewalld filter_INPUT_ZONES iifname \"zone*\" accept
add rule inet firewalld filter_FORWARD_ZONES iifname \"zone*\" accept
";

#[test]
fn the_rules_of_firewalld_are_named_until_they_admit_zones() {
    if !has("dnsmasq") {
        return;
    }
    let Some(world) = World::new() else { return };
    let _server = world.serve(At::Client, "client");
    set_rules(FIREWALLD);
    world.install("web", AUTO);
    let said = world.host.on("web", &["boot"]).ok().err;
    let command = advice(&said, "table inet firewalld");
    assert!(command.starts_with("firewall-cmd --permanent"), "{command}");
    assert!(!reaches(&world.host, "web"), "firewalld rejects it");
    set_rules(TRUSTED);
    assert!(reaches(&world.host, "web"));
    let text = world.host.zoneadm(&["network"]).ok().out;
    assert!(!text.contains("the host's firewall"), "{text}");
    world.host.on("web", &["reboot"]).quiet();
    let text = world.host.sh("web", "cat /etc/resolv.conf");
    assert!(text.contains("nameserver 10.208.0.1"), "{text}");
}
