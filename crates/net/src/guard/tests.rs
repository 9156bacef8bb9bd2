//! Compares the instructions of the programs with files in `snapshots`, so that a developer reads
//! each change of a program before the program is loaded into a kernel.

use std::io::stdin;
use std::net::IpAddr;
use std::os::fd::AsFd;

use sys::bpf::listing::extended;

use model::plan::network::{MultilevelPort, Transport};

use super::label::{Addresses, arrivals};
use super::program::assemble;
use super::{Clients, Guard, Labeled, Verdict, inbound, program};

const MAC: [u8; 6] = [0x02, 0x08, 0x20, 0xaa, 0xbb, 0xcc];

/// Lists the program of a guard. The map can be any descriptor, because the listing leaves the
/// descriptor out.
fn listed(guard: &Guard) -> String {
    extended(&program(guard, stdin().as_fd()))
}

fn sources(addresses: &[(&str, u8)]) -> Option<Vec<(IpAddr, u8)>> {
    let parsed = addresses.iter();
    Some(
        parsed
            .map(|(text, length)| (text.parse().unwrap(), *length))
            .collect(),
    )
}

#[test]
fn a_guard_without_rules() {
    let text = listed(&Guard::default());
    insta::assert_snapshot!(text);
}

#[test]
fn a_guard_of_addresses() {
    let text = listed(&Guard {
        mac: Some(MAC),
        sources: sources(&[
            ("192.0.2.5", 32),
            ("198.51.100.0", 24),
            ("2001:db8::5", 128),
        ]),
        restricted: true,
        ..Guard::default()
    });
    insta::assert_snapshot!(text);
}

#[test]
fn a_guard_of_a_routed_link() {
    let text = listed(&Guard {
        mac: Some(MAC),
        sources: sources(&[("192.0.2.5", 32), ("2001:db8::", 64)]),
        dhcp: true,
        restricted: true,
        routed: true,
        ..Guard::default()
    });
    insta::assert_snapshot!(text);
}

#[test]
fn a_guard_against_servers_and_other_clients_of_dhcp() {
    let text = listed(&Guard {
        dhcp: true,
        clients: Some(Clients {
            mac: MAC,
            ids: vec![b"zone-web".to_vec()],
        }),
        ..Guard::default()
    });
    insta::assert_snapshot!(text);
}

#[test]
fn a_guard_that_tags_and_polices() {
    let text = listed(&Guard {
        vlan: Some(100),
        priority: Some(6),
        rate: Some(1_250_000),
        to: Verdict::Device(7),
        ..Guard::default()
    });
    insta::assert_snapshot!(text);
}

#[test]
fn an_inbound_program_of_a_vlan() {
    insta::assert_snapshot!(extended(&inbound(Some(100), 7)));
}

#[test]
fn an_inbound_program_without_a_vlan() {
    insta::assert_snapshot!(extended(&inbound(None, 7)));
}

#[test]
fn the_programs_of_a_label() {
    let addresses = match Addresses::open_or_make(0) {
        Ok(addresses) => addresses,
        Err(error) => return println!("skipped: bpf(2): {error}"),
    };
    let ports = [MultilevelPort {
        protocol: Transport::Tcp,
        first: 8080,
        last: 8081,
    }];
    let labeled = Labeled {
        number: 5,
        ports: &ports,
        addresses: &addresses,
    };
    let fd = stdin();
    let guard = Guard {
        routed: true,
        ..Guard::default()
    };
    let code = assemble(&guard, fd.as_fd(), Some((&labeled, fd.as_fd())));
    insta::assert_snapshot!("guard_of_a_label", extended(&code));
    let code = arrivals(&labeled, fd.as_fd(), fd.as_fd());
    insta::assert_snapshot!("arrivals_of_a_label", extended(&code));
}
