//! Tests that neighbours learn the new MAC address when an address is announced again.

use std::process::Command;

use model::plan::network::Subnet;
use net::netlink::Netlink;
use net::record::{Held, Record};
use sys::process::ns;

/// Runs ip(8) and returns its output.
fn ip(line: &str) -> Option<String> {
    let output = Command::new("ip").args(line.split(' ')).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Makes two hosts on one wire, in one network namespace: `here` is the uplink, `there` a
/// neighbour.
fn wire() -> Option<()> {
    sys::namespace::unshare(ns::NET).ok()?;
    for line in [
        "link add here address 02:00:00:00:00:01 type veth peer name there",
        "link set here up",
        "link set there up",
        "addr add 10.9.0.1/24 dev there",
    ] {
        ip(line)?;
    }
    Some(())
}

#[test]
fn neighbours_follow_an_address_that_is_announced_again() {
    if wire().is_none() {
        println!("skipped: neighbours_follow_an_address: no network namespace with ip(8)");
        return;
    }
    // The MAC address of the host on which the guest ran before.
    let known = "neigh add 10.9.0.5 lladdr 02:00:00:00:00:99 dev there nud stale";
    ip(known).expect("a neighbour");
    let record = Record {
        links: vec![
            Held {
                uplink: Some("here".to_owned()),
                addresses: vec![Subnet {
                    ip: [10, 9, 0, 5].into(),
                    prefix: 32,
                }],
                ..Held::default()
            },
            Held {
                uplink: Some("gone".to_owned()),
                ..Held::default()
            },
        ],
        ..Record::default()
    };
    let kernel = Netlink::open().expect("a socket");
    net::make::announce_again(&kernel, &record).expect("an announcement");
    let mut shown = String::new();
    for _ in 0..1000 {
        shown = ip("neigh show 10.9.0.5 dev there").expect("a neighbour");
        if shown.contains("02:00:00:00:00:01") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it is still elsewhere: {shown}");
}
