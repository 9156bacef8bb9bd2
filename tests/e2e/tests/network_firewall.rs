//! Tests the rules and settings of the host in addition to those of zones.

use e2e::lan::{face, rules, set_rules, settings};
use e2e::{At, World};

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
