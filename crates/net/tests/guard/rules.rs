//! Tests every rule of a guard on crafted frames.

mod addresses;
mod dhcp;
mod frames;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use net::client_id;
use net::guard::{Clients, Guard, Reason, Verdict};

use crate::frames::*;
use crate::reference::{self, Outcome};
use crate::{MAC, OTHER_MAC, Subject};
use Outcome::{Dropped, Passes, Vanishes};

const OURS: &str = "10.0.0.5";
const OURS6: &str = "fd00::5";

fn six(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn four(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn own_link_local() -> Ipv6Addr {
    six("fe80::8:20ff:feaa:bbcc")
}

fn sources(texts: &[(&str, u8)]) -> Option<Vec<(IpAddr, u8)>> {
    let parse = |&(text, length): &(&str, u8)| (text.parse().unwrap(), length);
    Some(texts.iter().map(parse).collect())
}

/// Returns a guard with all protections of a link that has neighbours.
fn protected() -> Guard {
    Guard {
        mac: Some(MAC),
        sources: sources(&[
            (OURS, 32),
            ("192.0.2.64", 26),
            (OURS6, 128),
            ("2001:db8:7::", 52),
        ]),
        dhcp: true,
        restricted: true,
        ..Guard::default()
    }
}

/// Runs a guard on frames; the reference implementation must also return the expected outcome.
fn check(guard: &Guard, table: &[(&str, Vec<u8>, Outcome)]) {
    for to in [Verdict::Host, Verdict::Device(1)] {
        let guard = Guard {
            to,
            ..guard.clone()
        };
        let Some(subject) = Subject::new(guard) else {
            return;
        };
        for (what, frame, expected) in table {
            assert_eq!(subject.outcome(frame), *expected, "{what}");
            let described = reference::outcome(&subject.guard, frame);
            assert_eq!(described, *expected, "{what}");
        }
    }
}

fn v4(source: &str, protocol: u8, payload: Vec<u8>) -> Vec<u8> {
    ethernet(MAC, 0x0800, &Ipv4::new(source, protocol, payload).bytes())
}

fn v6(source: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(MAC, 0x86dd, &ipv6(source, next, payload))
}
